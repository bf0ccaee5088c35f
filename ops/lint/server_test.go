package lint

import (
	"go/ast"
	"path/filepath"
	"strings"
	"testing"
)

// bounds keep slow clients, and clients without an end of headers, from holding a server's connections
// and memory. WriteTimeout is not among them: some answers are as long as a disk image, and bound
// themselves.
var bounds = []string{"ReadHeaderTimeout", "ReadTimeout", "IdleTimeout", "MaxHeaderBytes"}

// Every server of the product bounds what its clients may take. e2e's serve tests.
func TestServersBoundTheirClients(t *testing.T) {
	servers := 0
	for _, p := range packages(t) {
		if from, _ := folder(p.ImportPath); from == "e2e" {
			continue
		}
		for _, name := range p.GoFiles {
			ast.Inspect(parsed(t, filepath.Join(p.Dir, name)), func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.CompositeLit:
					if !isHTTP(n.Type, "Server") {
						break
					}
					servers++
					if missing := without(n, bounds); len(missing) > 0 {
						t.Errorf("%s: a server without %s", tree.fset.Position(n.Pos()), strings.Join(missing, ", "))
					}
				case *ast.CallExpr:
					for _, unbounded := range []string{"ListenAndServe", "ListenAndServeTLS", "Serve", "ServeTLS"} {
						if isHTTP(n.Fun, unbounded) {
							t.Errorf("%s: http.%s serves without bounds; make an http.Server", tree.fset.Position(n.Pos()), unbounded)
						}
					}
				}
				return true
			})
		}
	}
	if servers < 4 {
		t.Errorf("found only %d servers", servers)
	}
}

// isHTTP reports whether e is net/http's name.
func isHTTP(e ast.Expr, name string) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != name {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == "http"
}

// without returns the fields that lit does not set.
func without(lit *ast.CompositeLit, fields []string) []string {
	set := map[string]bool{}
	for _, e := range lit.Elts {
		if kv, ok := e.(*ast.KeyValueExpr); ok {
			if key, ok := kv.Key.(*ast.Ident); ok {
				set[key.Name] = true
			}
		}
	}
	var missing []string
	for _, f := range fields {
		if !set[f] {
			missing = append(missing, f)
		}
	}
	return missing
}
