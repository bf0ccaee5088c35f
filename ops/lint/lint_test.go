package lint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/ironyard/ironyard/"

// mayImport is the table of docs/architecture.md: which top-level folders a
// folder may import besides itself.
var mayImport = map[string][]string{
	"protocol":   {},
	"central":    {"protocol"},
	"rackd":      {"protocol"},
	"agent":      {"protocol"},
	"ops":        {"protocol", "central", "rackd", "agent"},
	"e2e":        {"protocol", "central", "rackd", "agent", "ops"},
	"dashboards": {},
}

type pkg struct {
	ImportPath   string
	Dir          string
	Imports      []string
	TestImports  []string
	XTestImports []string
	GoFiles      []string
}

// packages are all of the project. Tests do not change them: they are listed once.
func packages(t *testing.T) []pkg {
	t.Helper()
	all, err := listPackages()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 20 {
		t.Fatalf("go list found only %d packages", len(all))
	}
	return all
}

var listPackages = sync.OnceValues(func() (all []pkg, err error) {
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,Imports,TestImports,XTestImports,GoFiles", "./...")
	cmd.Dir, cmd.Stderr = "../..", os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		switch err := d.Decode(&p); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("what go list says: %w", err)
		}
		all = append(all, p)
	}
})

// tree are the files that several tests read. Each is parsed once.
var tree = struct {
	fset  *token.FileSet
	files map[string]*ast.File
}{token.NewFileSet(), map[string]*ast.File{}}

// parsed is a file of the project with its comments. No test changes it.
func parsed(t *testing.T, path string) *ast.File {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	if f := tree.files[path]; f != nil {
		return f
	}
	f, err := parser.ParseFile(tree.fset, path, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	tree.files[path] = f
	return f
}

func folder(path string) (string, bool) {
	rest, ours := strings.CutPrefix(path, module)
	top, _, _ := strings.Cut(rest, "/")
	return top, ours
}

func TestImportTable(t *testing.T) {
	for _, p := range packages(t) {
		from, _ := folder(p.ImportPath)
		allowed, known := mayImport[from]
		if !known {
			t.Errorf("%s: top-level folder %q is not in the architecture", p.ImportPath, from)
			continue
		}
		for _, list := range [][]string{p.Imports, p.TestImports, p.XTestImports} {
			for _, imp := range list {
				to, ours := folder(imp)
				if !ours || to == from {
					continue
				}
				ok := false
				for _, a := range allowed {
					ok = ok || a == to
				}
				if !ok {
					t.Errorf("%s imports %s: %s may import %v only", p.ImportPath, imp, from, allowed)
				}
			}
		}
	}
}

func TestEveryPackageHasADoc(t *testing.T) {
	for _, p := range packages(t) {
		if len(p.GoFiles) == 0 {
			continue
		}
		documented := false
		for _, name := range p.GoFiles {
			f := parsed(t, filepath.Join(p.Dir, name))
			documented = documented || f.Doc != nil && (strings.HasPrefix(f.Doc.Text(), "Package ") || strings.HasPrefix(f.Doc.Text(), "Command "))
		}
		if !documented {
			t.Errorf("%s has no package doc", p.ImportPath)
		}
	}
}

// Names that say nothing attract everything.
func TestNoPackageIsADrawer(t *testing.T) {
	for _, p := range packages(t) {
		switch name := filepath.Base(p.ImportPath); name {
		case "util", "utils", "common", "helper", "helpers", "types", "misc":
			t.Errorf("%s: name the concept, not the drawer", p.ImportPath)
		}
	}
}

func TestFilesStaySmall(t *testing.T) {
	for _, p := range packages(t) {
		for _, name := range p.GoFiles {
			path := filepath.Join(p.Dir, name)
			f := parsed(t, path)
			if n := tree.fset.File(f.Pos()).LineCount(); n > 900 && !ast.IsGenerated(f) {
				t.Errorf("%s has %d lines, the limit is 900: a concept is hiding in it", path, n)
			}
		}
	}
}
