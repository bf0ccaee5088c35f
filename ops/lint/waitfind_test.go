package lint

import (
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
)

// scope is a function of the product, with its literals.
type scope struct {
	p    *product
	name string // FILE FUNCTION
	// sets are the assignments to contexts in it, in their order.
	sets map[types.Object][]set
}

// set is a variable that gets a value at a place, in a block.
type set struct {
	at    token.Pos
	block ast.Node
	value ast.Expr
}

// bounding are the functions whose contexts have a deadline; passing those whose contexts have one
// if their first argument has.
var (
	bounding = []string{"context.WithTimeout", "context.WithDeadline", "context.WithTimeoutCause", "context.WithDeadlineCause"}
	passing  = []string{"context.WithCancel", "context.WithValue", "context.WithCancelCause", "golang.org/x/sync/errgroup.WithContext"}
	// requests are the folders that handle requests of the API, to each of which Server.begin gives a deadline.
	requests = []string{"central/api/", "central/auth/", "central/strangers/"}
	// harmless take a context and do not wait by it, or have a bound of their own: a call of jetstream ends after
	// five seconds where its context has no deadline.
	harmless = []string{
		"(github.com/nats-io/nats.go/jetstream.", "(*net/http.Request).WithContext", "(*net/http.Request).Clone", "net/http/httptrace.",
		"github.com/coreos/go-oidc/v3/oidc.ClientContext", "github.com/cockroachdb/cockroach-go/v2/crdb.WithMaxRetries", "golang.org/x/sync/errgroup.WithContext",
		"context.", "log/slog.", "(*log/slog.Logger).", "(log/slog.Handler).", "os/signal.", "os/exec.CommandContext", "runtime/",
	}
)

// waits are calls that wait and take no context, or wait on when it has ended: an ordered consumer is made again for ever.
var waits = []string{
	"(*os/exec.Cmd).Run", "(*os/exec.Cmd).Output", "(*os/exec.Cmd).CombinedOutput", "(*os/exec.Cmd).Wait",
	"(*sync.WaitGroup).Wait", "(*golang.org/x/sync/errgroup.Group).Wait", "(*sync.Cond).Wait",
	"(net.Conn).Read", "(net.Conn).Write", "(net.PacketConn).ReadFrom", "(net.Listener).Accept", "(*net.UDPConn).ReadFrom", "(*net.UDPConn).ReadFromUDP", "(*net.UDPConn).ReadMsgUDP",
	"(*crypto/tls.Conn).Handshake", "golang.org/x/sys/unix.Flock", "syscall.Flock", "golang.org/x/sys/unix.Wait4",
	"(*net/http.Client).Do", "(*net/http.Client).Get", "(*net/http.Client).Post", "net/http.Get", "net/http.Post", "(net/http.RoundTripper).RoundTrip", "(*net/http.Transport).RoundTrip",
	"(*net/http.Server).Serve", "(*net/http.Server).ServeTLS", "net.Dial", "crypto/tls.Dial",
	"(*github.com/nats-io/nats.go.Conn).Flush", "(*github.com/nats-io/nats.go.Conn).Drain", "(*github.com/nats-io/nats.go.Conn).Request", "(*github.com/nats-io/nats.go.Conn).RequestMsg",
	"github.com/nats-io/nats.go.Connect", "(*github.com/nats-io/nats.go.Conn).Subscribe", "(*github.com/nats-io/nats.go.Conn).QueueSubscribe", "(*github.com/nats-io/nats.go.Conn).ChanSubscribe", "(*github.com/nats-io/nats.go.Conn).SubscribeSync",
	"(*github.com/nats-io/nats-server/v2/server.Server).WaitForShutdown",
	"(github.com/nats-io/nats.go/jetstream.ConsumerManager).OrderedConsumer", "(github.com/nats-io/nats.go/jetstream.StreamConsumerManager).OrderedConsumer",
}

// bounds reports whether the scope is of a folder of list.
func (s *scope) bounds(list []string) bool {
	return slices.ContainsFunc(list, func(folder string) bool { return strings.HasPrefix(s.name, folder) })
}

// called is the function or method that a call calls; nil: a value, or a conversion.
func (p *product) called(call *ast.CallExpr) *types.Func {
	fun := ast.Unparen(call.Fun)
	if i, ok := fun.(*ast.IndexExpr); ok {
		fun = i.X
	}
	if i, ok := fun.(*ast.IndexListExpr); ok {
		fun = i.X
	}
	var id *ast.Ident
	switch f := fun.(type) {
	case *ast.Ident:
		id = f
	case *ast.SelectorExpr:
		id = f.Sel
	default:
		return nil
	}
	f, _ := p.info.Uses[id].(*types.Func)
	if f != nil {
		f = f.Origin()
	}
	return f
}

func isContext(t types.Type) bool { return t != nil && t.String() == "context.Context" }

// takesContext is the index of the parameter that is a context, -1 for none.
func takesContext(f *types.Func) int {
	params := f.Signature().Params()
	for i := range params.Len() {
		if isContext(params.At(i).Type()) {
			return i
		}
	}
	return -1
}

// has reports whether a list has a name, or what it begins with up to a dot or slash.
func has(list []string, name string) bool {
	return slices.ContainsFunc(list, func(one string) bool {
		return one == name || strings.HasSuffix(one, ".") && strings.HasPrefix(name, one) || strings.HasSuffix(one, "/") && strings.HasPrefix(name, one)
	})
}

// index notes who calls whom with which context.
func (p *product) index() {
	for _, f := range p.files {
		for _, d := range f.Decls {
			fd, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			def := p.info.Defs[fd.Name].(*types.Func)
			sig := def.Signature()
			for i := range sig.Params().Len() {
				if v := sig.Params().At(i); isContext(v.Type()) {
					p.params[v] = param{def, i}
				}
			}
		}
	}
	for _, f := range p.files {
		for _, d := range f.Decls {
			p.indexDecl(d, p.scopeOf(f, d))
		}
	}
}

// scopeOf notes what contexts are set to in a declaration.
func (p *product) scopeOf(f *ast.File, d ast.Decl) *scope {
	rel, _ := filepath.Rel(p.root, p.fset.Position(f.Pos()).Filename)
	s := &scope{p: p, name: filepath.ToSlash(rel) + " var", sets: map[types.Object][]set{}}
	if fd, ok := d.(*ast.FuncDecl); ok {
		s.name = filepath.ToSlash(rel) + " " + fd.Name.Name
	}
	var blocks []ast.Node
	ast.Inspect(d, func(n ast.Node) bool {
		if n == nil {
			blocks = blocks[:len(blocks)-1]
			return true
		}
		blocks = append(blocks, n)
		switch n := n.(type) {
		case *ast.AssignStmt:
			for i, l := range n.Lhs {
				id, ok := l.(*ast.Ident)
				if !ok {
					continue
				}
				o := p.info.Defs[id]
				if o == nil {
					o = p.info.Uses[id]
				}
				if o == nil || !isContext(o.Type()) {
					continue
				}
				r := n.Rhs[0]
				if len(n.Rhs) == len(n.Lhs) {
					r = n.Rhs[i]
				}
				s.sets[o] = append(s.sets[o], set{n.End(), blocks[max(len(blocks)-2, 0)], r})
			}
		}
		return true
	})
	return s
}

func (p *product) indexDecl(d ast.Decl, s *scope) {
	inCall := map[*ast.Ident]bool{}
	ast.Inspect(d, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if f := p.called(n); f != nil {
				switch fun := ast.Unparen(n.Fun).(type) {
				case *ast.Ident:
					inCall[fun] = true
				case *ast.SelectorExpr:
					inCall[fun.Sel] = true
				case *ast.IndexExpr:
					if id, ok := fun.X.(*ast.Ident); ok {
						inCall[id] = true
					}
				}
				if recv := f.Signature().Recv(); recv != nil && types.IsInterface(recv.Type()) {
					p.dynamic[f] = append(p.dynamic[f], passed{s, n.Args})
				} else {
					p.calls[f] = append(p.calls[f], passed{s, n.Args})
				}
			}
		case *ast.Ident:
			if f, ok := p.info.Uses[n].(*types.Func); ok && !inCall[n] {
				p.values[f.Origin()] = true
			}
		}
		return true
	})
}

// bounded reports whether a context that is used at a place has a deadline wherever it comes from.
func (s *scope) bounded(e ast.Expr, at token.Pos, seen map[types.Object]bool) (bool, string) {
	switch e := ast.Unparen(e).(type) {
	case *ast.CallExpr:
		f := s.p.called(e)
		if f == nil {
			return false, "?"
		}
		switch name := f.FullName(); {
		case slices.Contains(bounding, name) || name == "(*net/http.Request).Context" && s.bounds(requests):
			return true, ""
		case slices.Contains(passing, name):
			return s.bounded(e.Args[0], at, seen)
		default:
			return false, name
		}
	case *ast.Ident:
		o := s.p.info.Uses[e]
		if o == nil {
			return false, "?"
		}
		var last *set
		for i := range s.sets[o] {
			if one := &s.sets[o][i]; one.at <= at && at <= one.block.End() {
				last = one
			}
		}
		if last != nil {
			return s.bounded(last.value, last.at-1, seen)
		}
		if seen[o] {
			return true, ""
		}
		seen[o] = true
		if p, ok := s.p.params[o]; ok {
			return s.p.boundedParam(p, seen)
		}
		return false, "ctx of a literal"
	case *ast.SelectorExpr:
		return false, "field " + e.Sel.Name
	}
	return false, "?"
}

// boundedParam reports whether each caller passes a context that has a deadline.
func (p *product) boundedParam(q param, seen map[types.Object]bool) (bool, string) {
	if why, known := p.unbounded[q]; known {
		return false, why
	}
	if p.proven[q] {
		return true, ""
	}
	ok, why := p.everyCallerBounds(q, seen)
	switch {
	case !ok:
		p.unbounded[q] = why
	case len(seen) == 1: // itself: nothing else was taken for granted
		p.proven[q] = true
	}
	return ok, why
}

func (p *product) everyCallerBounds(q param, seen map[types.Object]bool) (bool, string) {
	if p.values[q.of] {
		return false, "param of value " + q.of.Name()
	}
	sites := p.callers(q.of)
	if len(sites) == 0 {
		return false, "no caller of " + q.of.Name()
	}
	for _, c := range sites {
		if q.index >= len(c.args) {
			return false, "?"
		}
		if ok, why := c.in.bounded(c.args[q.index], c.args[q.index].Pos(), seen); !ok {
			return false, why + " via " + strings.ReplaceAll(c.in.name, " ", ":")
		}
	}
	return true, ""
}

// callers are the calls of a function, by an interface too.
func (p *product) callers(of *types.Func) []passed {
	if sites, known := p.sites[of]; known {
		return sites
	}
	sites := slices.Clone(p.calls[of])
	if recv := of.Signature().Recv(); recv != nil {
		for f, list := range p.dynamic {
			if f.Name() != of.Name() {
				continue
			}
			iface, _ := f.Signature().Recv().Type().Underlying().(*types.Interface)
			if iface != nil && (types.Implements(recv.Type(), iface) || types.Implements(types.NewPointer(recv.Type()), iface)) {
				sites = append(sites, list...)
			}
		}
	}
	p.sites[of] = sites
	return sites
}

// short is a function's name without the path of its package.
func short(name string) string {
	kind := ""
	if rest, method := strings.CutPrefix(name, "("); method {
		kind, name = "(", rest
		if rest, pointer := strings.CutPrefix(name, "*"); pointer {
			kind, name = "(*", rest
		}
	}
	return kind + name[strings.LastIndexByte(name, '/')+1:]
}

// find returns the waits that are not proven to have a bound, as "FILE FUNCTION WHAT", with what is
// known of them.
func (p *product) find() map[string]string {
	found := map[string]string{}
	for _, f := range p.files {
		for _, d := range f.Decls {
			w := finder{scope: p.scopeOf(f, d), found: found, chosen: map[ast.Node]bool{}}
			ast.Inspect(d, func(n ast.Node) bool { w.look(n); return true })
		}
	}
	return found
}

// finder finds the waits of one declaration.
type finder struct {
	*scope
	found  map[string]string
	chosen map[ast.Node]bool // the cases of selects, which wait for nothing by themselves
}

func (w finder) add(what, why string) { w.found[w.name+" "+what] = why }

func (w finder) look(n ast.Node) {
	switch n := n.(type) {
	case *ast.CallExpr:
		w.call(n)
	case *ast.SelectStmt:
		w.choice(n)
	case *ast.UnaryExpr:
		if n.Op == token.ARROW && !w.chosen[n] && w.done(n) == nil {
			w.add("receives", "nothing ends it")
		}
	case *ast.SendStmt:
		if !w.chosen[n] {
			w.add("sends", "nothing ends it")
		}
	case *ast.RangeStmt:
		if t := w.p.info.Types[n.X].Type; t != nil {
			if _, ok := t.Underlying().(*types.Chan); ok {
				w.add("ranges", "nothing ends it")
			}
		}
	}
}

func (w finder) call(n *ast.CallExpr) {
	f := w.p.called(n)
	if f == nil || f.Pkg() == nil {
		return
	}
	name := f.FullName()
	if has(waits, name) {
		w.add(short(name), "it takes no context")
	}
	if strings.HasPrefix(f.Pkg().Path(), strings.TrimSuffix(module, "/")) || has(harmless, name) {
		return
	}
	if i := takesContext(f); i >= 0 && i < len(n.Args) {
		if ok, why := w.bounded(n.Args[i], n.Pos(), map[types.Object]bool{}); !ok {
			w.add(short(name), "its context comes from "+why)
		}
	}
}

// choice looks at a select, which a default, a timer or a context with a deadline ends.
func (w finder) choice(n *ast.SelectStmt) {
	ends, why := false, "no case ends it"
	for _, c := range n.Body.List {
		comm := c.(*ast.CommClause).Comm
		if comm == nil {
			ends = true
			continue
		}
		ast.Inspect(comm, func(n ast.Node) bool {
			w.chosen[n] = true
			u, ok := n.(*ast.UnaryExpr)
			if !ok || u.Op != token.ARROW {
				return true
			}
			if t := w.p.info.Types[u.X].Type; t != nil && strings.Contains(t.String(), "time.Time") {
				ends = true
			}
			if ctx := w.done(u); ctx != nil {
				why = "it ends with a context that may have no deadline"
				if ok, _ := w.bounded(ctx, n.Pos(), map[types.Object]bool{}); ok {
					ends = true
				}
			}
			return true
		})
	}
	if !ends {
		w.add("selects", why)
	}
}

// done is the context for whose end it is waited; nil: for something else.
func (w finder) done(n *ast.UnaryExpr) ast.Expr {
	c, ok := n.X.(*ast.CallExpr)
	if !ok {
		return nil
	}
	if f := w.p.called(c); f == nil || f.FullName() != "(context.Context).Done" {
		return nil
	}
	return c.Fun.(*ast.SelectorExpr).X
}
