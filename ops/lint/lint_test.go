package lint

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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

func packages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,Imports,TestImports,XTestImports,GoFiles", "./...")
	cmd.Dir = "../.."
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var all []pkg
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	if len(all) < 20 {
		t.Fatalf("go list found only %d packages", len(all))
	}
	return all
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

// The conductor and the answers to central see the contract of drivers, never a driver.
func TestConductorImportsNoDriver(t *testing.T) {
	for _, p := range packages(t) {
		if !strings.HasPrefix(p.ImportPath, module+"rackd/conductor") && p.ImportPath != module+"rackd/answer" {
			continue
		}
		for _, imp := range p.Imports {
			if strings.HasPrefix(imp, module+"rackd/driver/") || imp == module+"rackd/drivers" {
				t.Errorf("%s imports %s", p.ImportPath, imp)
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
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.PackageClauseOnly|parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
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
			fset := token.NewFileSet()
			f, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution|parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			if n := fset.File(f.Pos()).LineCount(); n > 900 && !ast.IsGenerated(f) {
				t.Errorf("%s has %d lines, the limit is 900: a concept is hiding in it", path, n)
			}
		}
	}
}
