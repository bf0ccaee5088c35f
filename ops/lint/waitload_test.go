package lint

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// served are the packages of programs that run for long, where a wait without an end is a fault.
var served = []string{"./central/...", "./rackd/...", "./agent/...", "./protocol/...", "./ops/site/...", "./ops/embeddedbus/..."}

// product is code with its types, and who calls whom in it with which context.
type product struct {
	fset  *token.FileSet
	root  string
	info  *types.Info
	files []*ast.File

	calls   map[*types.Func][]passed // by function
	dynamic map[*types.Func][]passed // by method of an interface
	values  map[*types.Func]bool     // functions that are also used as values: not all of their callers are known
	params  map[types.Object]param   // contexts that are parameters

	// What was found out before.
	sites     map[*types.Func][]passed
	unbounded map[param]string
	proven    map[param]bool
}

// passed is what a call passes, and the function that it stands in.
type passed struct {
	in   *scope
	args []ast.Expr
}

// param is a function's parameter of that index.
type param struct {
	of    *types.Func
	index int
}

// importing is a types.Importer.
type importing func(path string) (*types.Package, error)

func (f importing) Import(path string) (*types.Package, error) { return f(path) }

// load type-checks the packages of the project among those listed. Other people's packages come from what the
// compiler has kept of them. With a snippet it is that alone, which may use all of these packages.
func load(t *testing.T, listed []pkgExport, snippet string) *product {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	p := &product{fset: tree.fset, root: root, calls: map[*types.Func][]passed{}, dynamic: map[*types.Func][]passed{}, values: map[*types.Func]bool{},
		params: map[types.Object]param{}, sites: map[*types.Func][]passed{}, unbounded: map[param]string{}, proven: map[param]bool{},
		info: &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}}}
	exports, checked := map[string]string{}, map[string]*types.Package{}
	foreign := importer.ForCompiler(p.fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	config := types.Config{Importer: importing(func(path string) (*types.Package, error) {
		if own := checked[path]; own != nil {
			return own, nil
		}
		return foreign.Import(path)
	})}
	check := func(path string, files []*ast.File) {
		if checked[path], err = config.Check(path, p.fset, files, p.info); err != nil {
			t.Fatal(err)
		}
	}
	for _, one := range listed {
		if exports[one.ImportPath] = one.Export; !strings.HasPrefix(one.ImportPath, module) {
			continue
		}
		files := one.parse(t)
		if check(one.ImportPath, files); !strings.HasSuffix(one.ImportPath, "test") {
			p.files = append(p.files, files...)
		}
	}
	if snippet != "" {
		f, err := parser.ParseFile(p.fset, filepath.Join(root, "x.go"), snippet, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		p.files = []*ast.File{f}
		check(module+"x", p.files)
	}
	p.index()
	return p
}

// exported lists packages with those that they need, which come first.
func exported(t *testing.T, patterns ...string) (listed []pkgExport) {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-export", "-deps", "-json=ImportPath,Export,Dir,GoFiles"}, patterns...)...)
	cmd.Dir, cmd.Stderr = "../..", os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var one pkgExport
		switch err := d.Decode(&one); {
		case errors.Is(err, io.EOF):
			return listed
		case err != nil:
			t.Fatal(err)
		}
		listed = append(listed, one)
	}
}

// pkgExport is a package as go list tells of it.
type pkgExport struct {
	ImportPath, Export, Dir string
	GoFiles                 []string
}

func (p pkgExport) parse(t *testing.T) (files []*ast.File) {
	t.Helper()
	for _, name := range p.GoFiles {
		files = append(files, parsed(t, filepath.Join(p.Dir, name)))
	}
	return files
}
