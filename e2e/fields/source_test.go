package fields

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// source is the product's Go code, without tests.
type source struct {
	funcs  map[string][]*ast.FuncDecl // "central/api.setPower"; methods without their type
	values map[string][]string        // "central/api.maxSteps": the texts that a constant or variable is made of
	// exported are the values as other packages write them: "store.DriveKey".
	exported map[string][]string
	said     map[string]map[string]bool // what functions mention, as plain names
}

// root is the repository.
const root = "../.."

func readSource(t *testing.T) *source {
	t.Helper()
	s := &source{funcs: map[string][]*ast.FuncDecl{}, values: map[string][]string{}, exported: map[string][]string{}}
	for _, top := range []string{"central", "rackd", "protocol"} {
		err := fs.WalkDir(os.DirFS(root), top, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, path), nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			s.add(filepath.Dir(path), file)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (s *source) add(pkg string, file *ast.File) {
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			key := pkg + "." + d.Name.Name
			s.funcs[key] = append(s.funcs[key], d)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if v, is := spec.(*ast.ValueSpec); is {
					for i, name := range v.Names {
						var from ast.Node = v
						if len(v.Values) == len(v.Names) {
							from = v.Values[i]
						}
						s.values[pkg+"."+name.Name] = texts(from)
						s.exported[filepath.Base(pkg)+"."+name.Name] = texts(from)
					}
				}
			}
		}
	}
}

// texts are the string literals below a node.
func texts(n ast.Node) (list []string) {
	ast.Inspect(n, func(n ast.Node) bool {
		if lit, is := n.(*ast.BasicLit); is && lit.Kind == token.STRING {
			if text, err := strconv.Unquote(lit.Value); err == nil {
				list = append(list, text)
			}
		}
		return true
	})
	return list
}

// named returns the texts that a name in pkg stands for: a package's own constant or variable, or another one's.
func (s *source) named(pkg string, e ast.Expr) []string {
	switch e := e.(type) {
	case *ast.Ident:
		return s.values[pkg+"."+e.Name]
	case *ast.SelectorExpr:
		if of, is := e.X.(*ast.Ident); is {
			return s.exported[of.Name+"."+e.Sel.Name]
		}
	}
	return nil
}

// mentions reports whether a function of a package ("central/api.setPower"), or a variable, mentions a field: as a text, under a
// Go name that reads the same, or by a constant or variable that holds the text.
func (s *source) mentions(reader, field string) (found, there bool) {
	if slices.Contains(s.values[reader], field) {
		return true, true
	}
	if s.said == nil {
		s.said = map[string]map[string]bool{}
		for name, decls := range s.funcs {
			s.said[name] = s.words(name[:strings.LastIndexByte(name, '.')], decls)
		}
	}
	words, isFunc := s.said[reader]
	_, isValue := s.values[reader]
	return words[plain(field)], isFunc || isValue
}

// words are all names and texts in functions, as plain ones.
func (s *source) words(pkg string, decls []*ast.FuncDecl) map[string]bool {
	words := map[string]bool{}
	add := func(list ...string) {
		for _, text := range list {
			words[plain(text)] = true
		}
	}
	for _, d := range decls {
		add(texts(d)...)
		ast.Inspect(d, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Ident:
				add(n.Name)
				if !strings.HasSuffix(n.Name, "Table") { // who goes through a whole table reads no single field
					add(s.named(pkg, n)...)
				}
			case *ast.SelectorExpr:
				add(s.named(pkg, n)...)
			}
			return true
		})
	}
	return words
}

// mentioning are the functions that mention a field, for who looks for the right one.
func (s *source) mentioning(field string) (list []string) {
	for _, name := range slices.Sorted(maps.Keys(s.funcs)) {
		if found, _ := s.mentions(name, field); found && len(list) < 30 {
			list = append(list, name)
		}
	}
	return list
}

// plain is a name without what tells spellings apart.
func plain(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r == ':' || r == ' ' {
			return -1
		}
		return r
	}, strings.ToLower(name))
}

// freeObjects are the node's objects that may hold any key, under the names that code has for reading one.
var freeObjects = map[string]string{"DriverString": "driver_info", "DriverInfo": "driver_info", "InstanceString": "instance_info", "InstanceInfo": "instance_info",
	"Properties": "properties", "Capability": "capabilities", "InstanceCapability": "capabilities"}

// read is a place that reads a key of a free object.
type read struct{ object, key, where string }

// reads are all places that read keys of free objects; an empty key is one that is computed.
func (s *source) reads() (list []read) {
	for name, decls := range s.funcs {
		pkg := name[:strings.LastIndexByte(name, '.')]
		for _, d := range decls {
			ast.Inspect(d, func(n ast.Node) bool {
				var of, key ast.Expr
				switch n := n.(type) {
				case *ast.CallExpr:
					if len(n.Args) != 1 {
						return true
					}
					of, key = n.Fun, n.Args[0]
				case *ast.IndexExpr:
					of, key = n.X, n.Index
				default:
					return true
				}
				sel, is := of.(*ast.SelectorExpr)
				object := ""
				if is {
					object = freeObjects[sel.Sel.Name]
				}
				if _, call := n.(*ast.CallExpr); object == "" || call != strings.HasSuffix(sel.Sel.Name, "String") && call != strings.HasSuffix(sel.Sel.Name, "Capability") {
					return true
				}
				found := texts(key)
				if _, literal := key.(*ast.BasicLit); !literal {
					found = s.local(pkg, d, key)
				}
				if len(found) != 1 {
					found = []string{""}
				}
				list = append(list, read{object, found[0], name})
				return true
			})
		}
	}
	return list
}

// local is named, for constants of the function too.
func (s *source) local(pkg string, d *ast.FuncDecl, key ast.Expr) []string {
	if id, is := key.(*ast.Ident); is {
		var own []string
		ast.Inspect(d, func(n ast.Node) bool {
			if v, is := n.(*ast.ValueSpec); is && len(v.Names) == 1 && v.Names[0].Name == id.Name {
				own = texts(v)
			}
			return true
		})
		if own != nil {
			return own
		}
	}
	return s.named(pkg, key)
}
