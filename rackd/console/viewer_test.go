package console

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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

// glass is a graphical console of which a test holds the other ends.
type glass struct {
	none.Unsupported
	wire wire
}

func (*glass) Validate(*node.Document) error { return nil }

func (g *glass) OpenViewer(ctx context.Context, f driver.Fence, n *node.Document) (driver.Line, error) {
	return g.wire.OpenConsole(ctx, f, n)
}

// withGlass runs a test with a keeper of one node, whose console is graphical and enabled.
func withGlass(t *testing.T, do func(*bench)) {
	synctest.Test(t, func(t *testing.T) {
		g := &glass{Unsupported: none.Unsupported{Kind: "console"}}
		b := &bench{t: t, wire: &g.wire, told: &counts{results: map[string]int{}}}
		kind := fake.New(fake.Options{}).Type()
		kind.Interfaces["console"] = []driver.Named{{Name: "glass", Impl: g}}
		hw, err := driver.NewRegistry(kind)
		if err != nil {
			t.Fatal(err)
		}
		b.rack = &rack{owned: true, hw: hw, node: &node.Document{UUID: nodeA, Driver: fake.TypeName, ConsoleEnabled: true, Tenancy: "t1"}}
		b.Keeper = New(Config{Name: "r1", Nodes: b.rack, Documents: b.rack, Members: b.rack, Hardware: hw, Metrics: b.told})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- b.Run(ctx) }()
		b.stop = sync.OnceFunc(func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
		defer b.stop()
		synctest.Wait()
		do(b)
	})
}

// views opens a viewer and returns the BMC's end of it.
func (b *bench) views(id string) *end {
	b.t.Helper()
	if err := b.OpenViewer(b.t.Context(), nodeA, viewerOf(id)); err != nil {
		b.t.Fatal(err)
	}
	e, _ := b.wire.newest()
	return e
}

func viewerOf(id string) ask.Viewer { return ask.Viewer{Tenancy: "t1", ID: id} }

func (b *bench) sees(id string, from int64) (ask.ViewerOutput, error) {
	return b.ReadViewer(b.t.Context(), nodeA, ask.ViewerRead{Viewer: viewerOf(id), From: from, WaitMS: 1000})
}

func (b *bench) sends(id string, at int64, text string) error {
	return b.WriteViewer(b.t.Context(), nodeA, ask.ViewerInput{Viewer: viewerOf(id), At: at, Data: []byte(text)})
}

// Each viewer has a line of its own, no line is there without one, and a serial reader is told that there is none of its kind.
func TestViewersHaveLinesOfTheirOwn(t *testing.T) {
	withGlass(t, func(b *bench) {
		time.Sleep(time.Hour)
		if _, opened := b.wire.newest(); opened != 0 {
			t.Fatalf("%d lines are open without a viewer", opened)
		}
		if out := b.reads("", 0); !out.Graphical || out.State != ask.ConsoleOpen || len(out.Data) > 0 {
			t.Errorf("a reader gets %+v", out)
		}
		if err := b.Write(b.t.Context(), nodeA, ask.ConsoleInput{Tenancy: "t1", Data: []byte("x")}); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("typed without a viewer: %v", err)
		}
		one, two := b.views("one"), b.views("two")
		if again := b.views("two"); again != two {
			t.Error("the same question, asked again, opens another line")
		}
		one.out <- []byte("RFB 003.008\n")
		two.out <- []byte("RFB 003.003\n")
		synctest.Wait()
		if out, err := b.sees("one", 0); err != nil || string(out.Data) != "RFB 003.008\n" {
			t.Errorf("the first sees %q, %v", out.Data, err)
		}
		if out, err := b.sees("two", 0); err != nil || string(out.Data) != "RFB 003.003\n" {
			t.Errorf("the second sees %q, %v", out.Data, err)
		}
		if err := b.sends("one", 0, "hello"); err != nil || one.typed.String() != "hello" || two.typed.Len() > 0 {
			t.Errorf("the first has %q, the second %q: %v", one.typed.String(), two.typed.String(), err)
		}
		b.CloseViewer(nodeA, viewerOf("one"))
		synctest.Wait()
		if !one.isClosed() || two.isClosed() {
			t.Error("the one that was closed is open, or the other is not")
		}
		if _, err := b.sees("one", 0); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("one that was closed: %v", err)
		}
	})
}

// What is asked again, because its answer was lost, is answered the same and typed once.
func TestViewersLoseAndDoubleNothing(t *testing.T) {
	withGlass(t, func(b *bench) {
		e := b.views("v")
		e.out <- []byte("abcdef")
		synctest.Wait()
		for range 2 {
			if out, err := b.sees("v", 0); err != nil || string(out.Data) != "abcdef" {
				t.Errorf("%q, %v", out.Data, err)
			}
		}
		if out, err := b.sees("v", 4); err != nil || string(out.Data) != "ef" {
			t.Errorf("%q, %v", out.Data, err)
		}
		for _, from := range []int64{0, 3, 7, -1} {
			if _, err := b.sees("v", from); !errors.Is(err, driver.ErrInvalid) {
				t.Errorf("from %d, which is not kept: %v", from, err)
			}
		}
		for _, s := range []struct {
			at   int64
			text string
			want string
		}{{0, "one", "one"}, {0, "one", "one"}, {3, "two", "onetwo"}, {0, "onetwothree", "onetwothree"}, {3, "two", "onetwothree"}} {
			if err := b.sends("v", s.at, s.text); err != nil || e.typed.String() != s.want {
				t.Errorf("%q at %d: the BMC has %q, %v", s.text, s.at, e.typed.String(), err)
			}
		}
		if err := b.sends("v", 12, "x"); !errors.Is(err, driver.ErrInvalid) || e.typed.String() != "onetwothree" {
			t.Errorf("with a byte missing before it: %v; the BMC has %q", err, e.typed.String())
		}
		if err := b.sends("v", 11, strings.Repeat("x", ask.ConsoleTyped+1)); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("too much at once: %v", err)
		}
		b.rack.set(func() { b.rack.lost = errors.New("the bus is silent") })
		if err := b.sends("v", 11, "x"); !errors.Is(err, driver.ErrFenced) || e.typed.Len() != 11 {
			t.Errorf("without the lease: %v; the BMC has %q", err, e.typed.String())
		}
	})
}

// A BMC that sends without an end fills what is kept ahead, and no more. A viewer that takes it gets each byte.
func TestABMCThatFloodsIsSlowedDown(t *testing.T) {
	withGlass(t, func(b *bench) {
		e := b.views("v")
		piece := bytes.Repeat([]byte("0123456789abcdef"), 1024)
		sent := 0
		go func() {
			for {
				select {
				case e.out <- piece:
					sent += len(piece)
				case <-e.closed:
					return
				}
			}
		}()
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if sent > ahead+2*len(piece) {
			t.Errorf("%d bytes were read of a BMC whose viewer takes nothing", sent)
		}
		taken, began := int64(0), time.Now()
		for taken < 64<<20 {
			out, err := b.sees("v", taken)
			if err != nil || len(out.Data) == 0 || len(out.Data) > ask.ViewerPiece {
				t.Fatalf("after %d: %d bytes, %v", taken, len(out.Data), err)
			}
			for i, c := range out.Data[:16] {
				if c != piece[(taken+int64(i))%16] {
					t.Fatalf("at %d is %q", taken+int64(i), c)
				}
			}
			taken += int64(len(out.Data))
		}
		if took := time.Since(began); took < 6*time.Second || took > 10*time.Second {
			t.Errorf("64 MiB took %s, want the 8 s of %d bytes a second", took, picturesPerSecond)
		}
	})
}

// A viewer ends when its caller may no longer see, when questions about it end, and with its rackd. It says why.
func TestViewersEnd(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(*bench)
		want error
	}{
		"nobody asks":    {func(b *bench) { time.Sleep(ask.ViewerSilent + 2*time.Second) }, driver.ErrInvalid},
		"switched off":   {func(b *bench) { b.change(func(n *node.Document) { n.ConsoleEnabled = false }) }, driver.ErrUnreachable},
		"another tenant": {func(b *bench) { b.change(func(n *node.Document) { n.Tenancy = "t2" }) }, driver.ErrFenced},
		"other fields": {func(b *bench) {
			b.change(func(n *node.Document) { n.DriverInfo = map[string]any{"ipmi_address": "10.0.0.2"} })
		}, driver.ErrInvalid},
		"another owner": {func(b *bench) {
			b.rack.set(func() { b.rack.owned = false })
			b.RingChanged()
		}, driver.ErrUnreachable},
		"without a lease": {func(b *bench) { b.rack.set(func() { b.rack.owned = false }) }, driver.ErrUnreachable},
		"the rackd stops": {func(b *bench) { b.stop() }, driver.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			withGlass(t, func(b *bench) {
				e := b.views("v")
				e.out <- []byte("secret")
				for range 5 {
					time.Sleep(20 * time.Second)
					if _, err := b.sees("v", 0); err != nil {
						t.Fatalf("one that is asked about has ended: %v", err)
					}
				}
				c.do(b)
				time.Sleep(2 * time.Second)
				synctest.Wait()
				if !e.isClosed() {
					t.Error("the line is still open")
				}
				if out, err := b.sees("v", 0); !errors.Is(err, c.want) || len(out.Data) > 0 {
					t.Errorf("it shows %q, %v", out.Data, err)
				}
				b.hasViewers(t, 0)
			})
		})
	}
}

// hasViewers checks how many viewers have a place.
func (b *bench) hasViewers(t *testing.T, want int) {
	t.Helper()
	synctest.Wait()
	b.Keeper.views.mu.Lock()
	defer b.Keeper.views.mu.Unlock()
	if b.Keeper.views.all != want || len(b.Keeper.views.of) != min(want, 1) {
		t.Errorf("%d viewers have a place, want %d", b.Keeper.views.all, want)
	}
}

// A line that ends tells its viewer why, after the last byte. One that cannot be opened tells that.
func TestWhyALineHasEnded(t *testing.T) {
	withGlass(t, func(b *bench) {
		e := b.views("v")
		e.out <- []byte("last")
		e.why = fmt.Errorf("the BMC has restarted: %w", driver.ErrUnreachable)
		e.Close(b.t.Context())
		synctest.Wait()
		if out, err := b.sees("v", 0); err != nil || string(out.Data) != "last" || !strings.Contains(out.Ended, "restarted") {
			t.Errorf("%+v, %v", out, err)
		}
		if err := b.sends("v", 0, "x"); err == nil || !strings.Contains(err.Error(), "restarted") {
			t.Errorf("sent to a line that has ended: %v", err)
		}
		b.wire.mu.Lock()
		b.wire.fail = fmt.Errorf("no session left: %w", driver.ErrUnreachable)
		b.wire.mu.Unlock()
		if err := b.OpenViewer(b.t.Context(), nodeA, viewerOf("w")); !errors.Is(err, driver.ErrUnreachable) || !strings.Contains(err.Error(), "no session left") {
			t.Errorf("%v", err)
		}
		for _, q := range []ask.Viewer{{Tenancy: "t2", ID: "x"}, {Tenancy: "t1"}, {Tenancy: "t1", ID: strings.Repeat("x", 100)}} {
			if err := b.OpenViewer(b.t.Context(), nodeA, q); err == nil {
				t.Errorf("opened for %+v", q)
			}
		}
		b.hasViewers(t, 1)
	})
}

// A BMC that hangs while a viewer is opened holds up its asker no longer than that waits. Places are bounded, and given back.
func TestViewersAreBounded(t *testing.T) {
	withGlass(t, func(b *bench) {
		for i := range MaxViewersOfNode {
			b.views(fmt.Sprint(i))
		}
		if err := b.OpenViewer(b.t.Context(), nodeA, viewerOf("more")); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("one more: %v", err)
		}
		b.CloseViewer(nodeA, ask.Viewer{Tenancy: "t2", ID: "0"}) // of another tenancy: it is not its
		synctest.Wait()
		b.hasViewers(t, MaxViewersOfNode)
		b.CloseViewer(nodeA, viewerOf("0"))
		synctest.Wait()
		slow := make(chan struct{})
		b.wire.mu.Lock()
		b.wire.slow = slow
		b.wire.mu.Unlock()
		ctx, cancel := context.WithTimeout(b.t.Context(), time.Second)
		defer cancel()
		if err := b.OpenViewer(ctx, nodeA, viewerOf("slow")); !errors.Is(err, driver.ErrUnreachable) {
			t.Errorf("%v", err)
		}
		close(slow)
		if err := b.OpenViewer(b.t.Context(), nodeA, viewerOf("slow")); err != nil {
			t.Errorf("asked again: %v", err)
		}
		b.hasViewers(t, MaxViewersOfNode)
	})
}
