package console

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/fake"
	"github.com/ironyard/ironyard/rackd/driver/none"
)

const nodeA = "11111111-1111-4111-8111-111111111111"

// wire is a console of which a test holds the other end.
type wire struct {
	none.Unsupported
	mu     sync.Mutex
	opened []*end
	fail   error         // of the next attempts to open one
	slow   chan struct{} // not nil: attempts wait for it
}

// end is the machine's end of a line.
type end struct {
	at     any // the BMC's address in the node's fields
	f      driver.Fence
	out    chan []byte
	closed chan struct{}
	once   sync.Once
	why    error
	typed  bytes.Buffer
	stuck  chan struct{} // not nil: what is typed waits for it
}

func (*wire) Validate(*node.Document) error { return nil }

func (w *wire) OpenConsole(_ context.Context, f driver.Fence, n *node.Document) (driver.Line, error) {
	w.mu.Lock()
	slow := w.slow
	w.mu.Unlock()
	if slow != nil {
		<-slow
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fail != nil {
		return nil, w.fail
	}
	if err := f.Check(); err != nil {
		return nil, err
	}
	e := &end{at: n.DriverInfo["ipmi_address"], f: f, out: make(chan []byte), closed: make(chan struct{}), why: io.EOF}
	w.opened = append(w.opened, e)
	return e, nil
}

// newest is the line that was opened last, nil if there is none.
func (w *wire) newest() (e *end, count int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.opened) == 0 {
		return nil, 0
	}
	return w.opened[len(w.opened)-1], len(w.opened)
}

func (e *end) Read(p []byte) (int, error) {
	select {
	case b := <-e.out:
		return copy(p, b), nil
	case <-e.closed:
		return 0, e.why
	}
}

func (e *end) Write(_ context.Context, p []byte) error {
	if err := e.f.Check(); err != nil {
		return err
	}
	if e.stuck != nil {
		<-e.stuck
	}
	e.typed.Write(p)
	return nil
}

func (e *end) Break(context.Context) error { return driver.ErrUnsupported }

func (e *end) Close(context.Context) { e.once.Do(func() { close(e.closed) }) }

// isClosed reports whether the line was given back.
func (e *end) isClosed() bool {
	select {
	case <-e.closed:
		return true
	default:
		return false
	}
}

// rack is a rackd's memory with one node.
type rack struct {
	mu    sync.Mutex
	node  *node.Document
	owned bool
	lost  error
	hw    *driver.Registry
}

func (r *rack) set(do func()) { r.mu.Lock(); defer r.mu.Unlock(); do() }

func (r *rack) Nodes() []string { return []string{nodeA, "another"} }
func (r *rack) Owns(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.owned && id == nodeA
}
func (r *rack) ConsoleEnabled(id string) bool {
	n := r.Node(id)
	return n != nil && n.ConsoleEnabled
}

func (r *rack) Node(id string) *node.Document {
	r.mu.Lock()
	defer r.mu.Unlock()
	if id != nodeA {
		return nil
	}
	return r.node
}
func (r *rack) Owned(id string) (*node.Document, *driver.Hardware, error) {
	if !r.Owns(id) {
		return nil, nil, nil
	}
	n := r.Node(id)
	hw, err := r.hw.Resolve(n)
	return n, hw, err
}
func (r *rack) Confirm() error { r.mu.Lock(); defer r.mu.Unlock(); return r.lost }

// counts is what the metrics were told.
type counts struct {
	mu      sync.Mutex
	results map[string]int
}

func (c *counts) ConsoleOpened(result string) { c.mu.Lock(); defer c.mu.Unlock(); c.results[result]++ }
func (*counts) ConsoleBytes(int, int)         {}
func (c *counts) ConsoleCopied(result string, _ int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.results["copy "+result]++
}

// bench is a keeper that runs in a bubble of synctest.
type bench struct {
	*Keeper
	t    *testing.T
	rack *rack
	wire *wire
	told *counts
	stop func()
}

// with runs a test with a keeper of one node, whose console is enabled.
func with(t *testing.T, copies Copies, do func(*bench)) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t: t, wire: &wire{Unsupported: none.Unsupported{Kind: "console"}}, told: &counts{results: map[string]int{}}}
		kind := fake.New(fake.Options{}).Type()
		kind.Interfaces["console"] = []driver.Named{{Name: "wire", Impl: b.wire}}
		hw, err := driver.NewRegistry(kind)
		if err != nil {
			t.Fatal(err)
		}
		b.rack = &rack{owned: true, hw: hw, node: &node.Document{UUID: nodeA, Driver: fake.TypeName, ConsoleEnabled: true, Tenancy: "t1"}}
		b.Keeper = New(Config{Name: "r1", Nodes: b.rack, Documents: b.rack, Members: b.rack, Hardware: b.rack.hw, Metrics: b.told, Copies: copies})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- b.Run(ctx) }()
		stopped := false
		b.stop = func() {
			if stopped {
				return
			}
			stopped = true
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		defer b.stop()
		synctest.Wait()
		do(b)
	})
}

// change changes the node and tells of it.
func (b *bench) change(do func(*node.Document)) {
	b.rack.set(func() {
		n := *b.rack.node
		do(&n)
		b.rack.node = &n
	})
	b.NodeChanged(nodeA)
	synctest.Wait()
}

// says has the machine write.
func (b *bench) says(text string) {
	e, _ := b.wire.newest()
	e.out <- []byte(text)
	synctest.Wait()
}

// reads asks as tenancy t1 from a place on.
func (b *bench) reads(log string, from int64) ask.ConsoleOutput {
	b.t.Helper()
	out, err := b.Read(b.t.Context(), nodeA, ask.ConsoleRead{Tenancy: "t1", Log: log, From: from, State: ask.ConsoleOpen})
	if err != nil {
		b.t.Fatal(err)
	}
	return out
}

func TestReadersHavePlacesOfTheirOwn(t *testing.T) {
	with(t, nil, func(b *bench) {
		b.says("one ")
		first := b.reads("", 0)
		b.says("two ")
		b.says("three")
		if out := b.reads(first.Log, first.Next); string(out.Data) != "two three" || out.Lost != 0 || out.State != ask.ConsoleOpen {
			t.Errorf("from its place a reader gets %+v", out)
		}
		if out := b.reads("", 0); string(out.Data) != "one two three" {
			t.Errorf("a new reader gets %q", out.Data)
		}
		if out := b.reads("another rackd's", 3); string(out.Data) != "one two three" || out.Log != first.Log {
			t.Errorf("with a place in another log a reader gets %+v", out)
		}
		began := time.Now()
		quiet, err := b.Read(b.t.Context(), nodeA, ask.ConsoleRead{Tenancy: "t1", Log: first.Log, From: 13, State: ask.ConsoleOpen, WaitMS: 3_600_000})
		if took := time.Since(began); err != nil || len(quiet.Data) != 0 || took != ask.ConsoleWait {
			t.Errorf("a question about a quiet machine was kept for %s: %+v, %v", took, quiet, err)
		}
		go func() {
			time.Sleep(time.Second)
			e, _ := b.wire.newest()
			e.out <- []byte("!")
		}()
		began = time.Now()
		news, err := b.Read(b.t.Context(), nodeA, ask.ConsoleRead{Tenancy: "t1", Log: first.Log, From: 13, State: ask.ConsoleOpen, WaitMS: 9000})
		if took := time.Since(began); err != nil || string(news.Data) != "!" || took != time.Second {
			t.Errorf("a question about a machine that writes after 1 s was kept for %s: %+v, %v", took, news, err)
		}
	})
}

// A machine that writes more than is kept costs its reader what is missing, and says how much.
func TestLogIsBounded(t *testing.T) {
	with(t, nil, func(b *bench) {
		first := b.reads("", 0)
		const pieces, size = 400, 2048
		for i := range pieces {
			b.says(strings.Repeat(string(rune('a'+i%26)), size))
		}
		h, err := b.of(nodeA)
		if err != nil {
			t.Fatal(err)
		}
		if kept := len(h.record.data); kept > LogBytes+LogBytes/4 || kept < LogBytes {
			t.Errorf("%d bytes are held", kept)
		}
		out := b.reads(first.Log, 0)
		if want := int64(pieces*size - LogBytes); out.Lost != want || len(out.Data) != ask.ConsolePiece {
			t.Errorf("lost %d, want %d; %d bytes", out.Lost, want, len(out.Data))
		}
		all := len(out.Data)
		for len(out.Data) > 0 {
			out = b.reads(out.Log, out.Next)
			all += len(out.Data)
		}
		if all != LogBytes || out.Next != pieces*size {
			t.Errorf("%d bytes up to %d", all, out.Next)
		}
	})
}

// What was written for one tenant is not for the next, who begins with an empty log. Neither is asked for the other.
func TestTenantsDoNotSeeEachOther(t *testing.T) {
	with(t, nil, func(b *bench) {
		b.says("the first tenant's secret")
		old := b.reads("", 0)
		b.change(func(n *node.Document) { n.Tenancy = "t2" })
		if _, err := b.Read(b.t.Context(), nodeA, ask.ConsoleRead{Tenancy: "t1", Log: old.Log}); !errors.Is(err, ErrChangedHands) || !errors.Is(err, driver.ErrFenced) {
			t.Errorf("the former tenant reads: %v", err)
		}
		if err := b.Write(b.t.Context(), nodeA, ask.ConsoleInput{Tenancy: "t1", Data: []byte("rm")}); !errors.Is(err, ErrChangedHands) {
			t.Errorf("the former tenant types: %v", err)
		}
		for _, from := range []string{"", old.Log} {
			if out, err := b.Read(b.t.Context(), nodeA, ask.ConsoleRead{Tenancy: "t2", Log: from}); err != nil || len(out.Data) != 0 || out.Log == old.Log {
				t.Errorf("the next tenant gets %+v, %v", out, err)
			}
		}
		if _, opened := b.wire.newest(); opened != 1 {
			t.Errorf("the console was opened %d times", opened)
		}
	})
}

// A question that waits when the node changes hands is refused then, not answered with what comes next.
func TestTenancyEndsWhoWaits(t *testing.T) {
	with(t, nil, func(b *bench) {
		at := b.reads("", 0)
		got := make(chan error, 1)
		go func() {
			_, err := b.Read(b.t.Context(), nodeA, ask.ConsoleRead{Tenancy: "t1", Log: at.Log, State: ask.ConsoleOpen, WaitMS: 9000})
			got <- err
		}()
		synctest.Wait()
		b.change(func(n *node.Document) { n.Tenancy = "t2" })
		if err := <-got; !errors.Is(err, ErrChangedHands) {
			t.Errorf("who waited got: %v", err)
		}
	})
}

func TestTyping(t *testing.T) {
	with(t, nil, func(b *bench) {
		typing := func(q ask.ConsoleInput) error {
			q.Tenancy = "t1"
			return b.Write(b.t.Context(), nodeA, q)
		}
		if err := typing(ask.ConsoleInput{Data: []byte("ls\r")}); err != nil {
			t.Error(err)
		}
		e, _ := b.wire.newest()
		if e.typed.String() != "ls\r" {
			t.Errorf("the machine got %q", e.typed.String())
		}
		if err := typing(ask.ConsoleInput{Break: true, Data: []byte("x")}); !errors.Is(err, driver.ErrUnsupported) || e.typed.String() != "ls\r" {
			t.Errorf("a break that there is none of: %v; the machine got %q", err, e.typed.String())
		}
		if err := typing(ask.ConsoleInput{Data: make([]byte, ask.ConsoleTyped+1)}); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("too much at once: %v", err)
		}
		b.rack.set(func() { b.rack.lost = errors.New("the bus is silent") })
		if err := typing(ask.ConsoleInput{Data: []byte("rm\r")}); !errors.Is(err, driver.ErrFenced) || e.typed.String() != "ls\r" {
			t.Errorf("typed without the lease: %v; the machine got %q", err, e.typed.String())
		}
	})
}

// A console that ends is opened again, after pauses that grow, and its readers hear why it is not open.
func TestOpenedAgain(t *testing.T) {
	with(t, nil, func(b *bench) {
		b.says("before")
		e, _ := b.wire.newest()
		e.why = fmt.Errorf("the BMC has restarted: %w", driver.ErrUnreachable)
		b.wire.mu.Lock()
		b.wire.fail = fmt.Errorf("no session left: %w", driver.ErrUnreachable)
		b.wire.mu.Unlock()
		e.Close(b.t.Context())
		synctest.Wait()
		if out := b.reads("", 0); string(out.Data) != "before" || !strings.Contains(out.State, "restarted") {
			t.Errorf("a reader gets %+v", out)
		}
		if err := b.Write(b.t.Context(), nodeA, ask.ConsoleInput{Tenancy: "t1", Data: []byte("x")}); !errors.Is(err, driver.ErrUnreachable) {
			t.Errorf("typed into a console that is not open: %v", err)
		}
		time.Sleep(time.Hour)
		b.told.mu.Lock()
		tries := b.told.results["unreachable"]
		b.told.mu.Unlock()
		if tries < 50 || tries > 75 {
			t.Errorf("%d attempts in an hour, want about one a minute", tries)
		}
		b.wire.mu.Lock()
		b.wire.fail = nil
		b.wire.mu.Unlock()
		b.change(func(n *node.Document) { n.DriverInfo = map[string]any{"ipmi_password": "corrected"} })
		if out := b.reads("", 0); out.State != ask.ConsoleOpen || string(out.Data) != "before" {
			t.Errorf("with corrected fields a reader gets %+v", out)
		}
	})
}

// A console is given back when it is disabled, when another rackd owns the node and when rackd stops, and not before its
// node's fields have changed otherwise.
func TestGivenBack(t *testing.T) {
	for name, do := range map[string]func(*bench){
		"disabled": func(b *bench) { b.change(func(n *node.Document) { n.ConsoleEnabled = false }) },
		"owned by another": func(b *bench) {
			b.rack.set(func() { b.rack.owned = false })
			b.RingChanged()
			synctest.Wait()
		},
		"without a lease": func(b *bench) { // of which no one tells
			b.rack.set(func() { b.rack.owned = false })
			time.Sleep(2 * time.Second)
		},
		"stopped": func(b *bench) { b.stop() },
	} {
		t.Run(name, func(t *testing.T) {
			with(t, nil, func(b *bench) {
				e, _ := b.wire.newest()
				time.Sleep(time.Hour)
				if _, opened := b.wire.newest(); e.isClosed() || opened != 1 {
					t.Fatalf("given back after an hour, opened %d times", opened)
				}
				do(b)
				if !e.isClosed() {
					t.Error("not given back")
				}
				if name == "stopped" {
					return
				}
				if _, err := b.Read(b.t.Context(), nodeA, ask.ConsoleRead{Tenancy: "t1"}); !errors.Is(err, driver.ErrUnreachable) {
					t.Errorf("a reader gets: %v", err)
				}
				if all, open := b.Held(); all != 0 || open != 0 {
					t.Errorf("%d are held, %d open", all, open)
				}
			})
		})
	}
}

// A rackd that owns the node again after a moment goes on with its log, for the same tenancy only.
func TestLogOutlivesAMomentWithoutTheNode(t *testing.T) {
	with(t, nil, func(b *bench) {
		b.says("before")
		owned := func(is bool) {
			b.rack.set(func() { b.rack.owned = is })
			b.RingChanged()
			synctest.Wait()
		}
		first := b.reads("", 0)
		owned(false)
		owned(true)
		b.says(" and after")
		if out := b.reads(first.Log, first.Next); string(out.Data) != " and after" || out.Log != first.Log {
			t.Errorf("a reader gets %+v", out)
		}
		owned(false)
		b.rack.set(func() { n := *b.rack.node; n.Tenancy = "t2"; b.rack.node = &n })
		owned(true)
		if out, err := b.Read(b.t.Context(), nodeA, ask.ConsoleRead{Tenancy: "t2", Log: first.Log}); err != nil || len(out.Data) != 0 || out.Log == first.Log {
			t.Errorf("the next tenant gets %+v, %v", out, err)
		}
		b.change(func(n *node.Document) { n.Tenancy = "t1" })
		b.says("old")
		owned(false)
		time.Sleep(time.Hour)
		owned(true)
		if out := b.reads("", 0); len(out.Data) != 0 {
			t.Errorf("after an hour a reader gets %q", out.Data)
		}
	})
}

// Another rackd's nodes, and nodes whose console is not enabled, are left alone.
func TestOnlyWhatIsWanted(t *testing.T) {
	with(t, nil, func(b *bench) {
		if all, open := b.Held(); all != 1 || open != 1 {
			t.Errorf("%d are held, %d open, want 1", all, open)
		}
		b.change(func(n *node.Document) { n.ConsoleEnabled = false })
		b.change(func(n *node.Document) { n.Name = "renamed" })
		time.Sleep(time.Hour)
		if _, opened := b.wire.newest(); opened != 1 {
			t.Errorf("a console that is not enabled was opened: %d times in all", opened)
		}
	})
}
