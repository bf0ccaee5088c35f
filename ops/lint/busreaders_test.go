package lint

import (
	"go/ast"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// readsJSON are the files of programs that are connected to a bus and read JSON in them,
// each with what it reads. What lies on a bus is read by protocol/bus/identity.go alone,
// which compares it with its place.
var readsJSON = map[string]string{
	"protocol/bus/identity.go":         "the readers of what lies on a bus",
	"protocol/bus/append.go":           "the server's acknowledgement of a batch",
	"protocol/membership/folder.go":    "a member's own files",
	"protocol/membership/join.go":      "a member's own files",
	"central/askclient/askclient.go":   "the answer to a question, at an inbox of its own",
	"central/enrol/bus.go":             "the hub's answer about an account",
	"central/enrol/cluster.go":         "the vault in the database",
	"central/enrol/handler.go":         "a request",
	"ops/demo/demo.go":                 "the progress in a checkpoint of work that was read",
	"rackd/daemon/answers.go":          "a question, whose place is this rackd's own subject",
	"rackd/forward/forward.go":         "the answer to what was handed on, at an inbox of its own",
	"central/ingest/batch.go":          "a field of an event that was read",
	"central/ingest/hardware.go":       "a row of the database",
	"central/api/ramdisk_discovery.go": "a request",
}

// readsNodes are the files that may read packed node documents.
var readsNodes = map[string]string{
	"protocol/bus/identity.go":     "the readers of what lies on a bus",
	"rackd/view/nodes.go":          "a body that bus.ReadNode has taken",
	"e2e/faults/verdict/gather.go": "evidence of a test",
}

// onTheBus are the types of what lies on a bus.
var onTheBus = []string{"bus.Member", "bus.Group", "work.Event", "work.Document", "node.Document"}

// Identity on the bus comes from the subject or key: no reader but those of
// protocol/bus/identity.go takes a body for what it says.
func TestWhatLiesOnABusHasOneReaderEach(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, p := range packages(t) {
		connected := slices.ContainsFunc(p.Imports, func(i string) bool { return strings.HasPrefix(i, "github.com/nats-io/nats.go") })
		for _, name := range p.GoFiles {
			file := parsed(t, filepath.Join(p.Dir, name))
			path, err := filepath.Rel(root, filepath.Join(p.Dir, name))
			if err != nil {
				t.Fatal(err)
			}
			bodies := declaredAs(file)
			ast.Inspect(file, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				switch f := selector(call.Fun); {
				case f == "node.Read" || f == "node.RevisionOf":
					if used[path] = true; readsNodes[path] == "" {
						t.Errorf("%s calls %s: read it with bus.ReadNode or bus.ReadNodeRevision, which compare it with its key", path, f)
					}
				case f == "json.Unmarshal" && len(call.Args) == 2 && bodies[variable(call.Args[1])]:
					if used[path] = true; path != "protocol/bus/identity.go" && !strings.HasPrefix(path, "e2e/") && path != "protocol/node/document.go" {
						t.Errorf("%s reads a document of the bus: protocol/bus/identity.go has a function that compares it with its place", path)
					}
				case f == "json.Unmarshal" || f == "json.NewDecoder":
					if used[path] = true; connected && readsJSON[path] == "" && !strings.HasPrefix(path, "e2e/") {
						t.Errorf("%s is connected to a bus and reads JSON: what lies on the bus is read by protocol/bus/identity.go; if this is something else, list it here", path)
					}
				}
				return true
			})
		}
	}
	for _, list := range []map[string]string{readsJSON, readsNodes} {
		for path := range list {
			if !used[path] {
				t.Errorf("%s is listed and reads nothing", path)
			}
		}
	}
}

// declaredAs returns the names of a file's variables, results and fields of a type of
// onTheBus.
func declaredAs(file *ast.File) map[string]bool {
	names := map[string]bool{}
	ours := func(e ast.Expr) bool {
		if s, ok := e.(*ast.StarExpr); ok {
			e = s.X
		}
		return slices.Contains(onTheBus, selector(e))
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ValueSpec:
			if n.Type != nil && ours(n.Type) {
				for _, name := range n.Names {
					names[name.Name] = true
				}
			}
		case *ast.Field:
			if ours(n.Type) {
				for _, name := range n.Names {
					names[name.Name] = true
				}
			}
		case *ast.AssignStmt:
			for i, right := range n.Rhs {
				made := right
				if u, ok := made.(*ast.UnaryExpr); ok {
					made = u.X
				}
				switch m := made.(type) {
				case *ast.CompositeLit:
					made = m.Type
				case *ast.CallExpr:
					if id, ok := m.Fun.(*ast.Ident); !ok || id.Name != "new" || len(m.Args) != 1 {
						continue
					}
					made = m.Args[0]
				default:
					continue
				}
				if ours(made) && i < len(n.Lhs) {
					names[variable(n.Lhs[i])] = true
				}
			}
		}
		return true
	})
	delete(names, "")
	return names
}

// selector returns PACKAGE.NAME, else nothing.
func selector(e ast.Expr) string {
	s, ok := e.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	if x, ok := s.X.(*ast.Ident); ok {
		return x.Name + "." + s.Sel.Name
	}
	return ""
}

// variable returns the name of a variable or of what it points to.
func variable(e ast.Expr) string {
	if u, ok := e.(*ast.UnaryExpr); ok {
		e = u.X
	}
	if id, ok := e.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}
