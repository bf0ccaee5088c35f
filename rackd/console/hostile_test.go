package console

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/fake"
	"github.com/ironyard/ironyard/rackd/driver/none"
)

// A node whose BMC is replaced while its console is being opened at the old one: that one's console is not kept, for it may be
// another machine's.
func TestFieldsChangeWhileItIsOpened(t *testing.T) {
	with(t, nil, func(b *bench) {
		slow := make(chan struct{})
		b.wire.mu.Lock()
		b.wire.slow = slow
		b.wire.mu.Unlock()
		b.change(func(n *node.Document) { n.DriverInfo = map[string]any{"ipmi_address": "10.0.0.1"} })
		time.Sleep(2 * time.Second) // the next attempt waits for the BMC
		synctest.Wait()
		b.change(func(n *node.Document) { n.DriverInfo = map[string]any{"ipmi_address": "10.0.0.2"} })
		b.wire.mu.Lock()
		b.wire.slow = nil
		b.wire.mu.Unlock()
		close(slow)
		time.Sleep(time.Minute)
		synctest.Wait()
		e, opened := b.wire.newest()
		if e.at != "10.0.0.2" || e.isClosed() {
			t.Errorf("after %d times the console that is held is that of %v, closed %t", opened, e.at, e.isClosed())
		}
		for _, e := range b.wire.opened[:opened-1] {
			if !e.isClosed() {
				t.Errorf("that of %v is held too", e.at)
			}
		}
	})
}

// What waited behind another's typing until its asker gave up does not reach the machine: its asker was told so, and may type it again.
func TestTypingThatIsTooLate(t *testing.T) {
	with(t, nil, func(b *bench) {
		e, _ := b.wire.newest()
		e.stuck = make(chan struct{})
		typed := func(ctx context.Context, text string, got chan<- error) {
			got <- b.Write(ctx, nodeA, ask.ConsoleInput{Tenancy: "t1", Data: []byte(text)})
		}
		first, second := make(chan error, 1), make(chan error, 1)
		go typed(b.t.Context(), "one", first)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(b.t.Context(), time.Second)
		defer cancel()
		go typed(ctx, "reboot\r", second)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		select {
		case err := <-second:
			if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, driver.ErrUnreachable) {
				t.Error(err)
			}
		default:
			t.Error("it waits longer than its asker does")
		}
		close(e.stuck)
		if err := <-first; err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if e.typed.String() != "one" {
			t.Errorf("the machine got %q", e.typed.String())
		}
	})
}

// crowd is a rackd's memory with more nodes than it may hold consoles of.
type crowd struct {
	*rack
	ids []string
	off map[string]bool
}

func (c *crowd) Nodes() []string     { return c.ids }
func (c *crowd) Owns(id string) bool { return true }
func (c *crowd) Confirm() error      { return nil }
func (c *crowd) Node(id string) *node.Document {
	var n node.Document
	c.set(func() { n = node.Document{UUID: id, Driver: fake.TypeName, Tenancy: "t1", ConsoleEnabled: !c.off[id]} })
	return &n
}
func (c *crowd) ConsoleEnabled(id string) bool { return c.Node(id).ConsoleEnabled }
func (c *crowd) Owned(id string) (*node.Document, *driver.Hardware, error) {
	n := c.Node(id)
	hw, err := c.hw.Resolve(n)
	return n, hw, err
}

// A console that had no place gets the one that another leaves, though nothing about its own node has changed.
func TestAPlaceThatIsLeftIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{Unsupported: none.Unsupported{Kind: "console"}}
		kind := fake.New(fake.Options{}).Type()
		kind.Interfaces["console"] = []driver.Named{{Name: "wire", Impl: w}}
		hw, err := driver.NewRegistry(kind)
		if err != nil {
			t.Fatal(err)
		}
		c := &crowd{rack: &rack{hw: hw}, off: map[string]bool{}}
		for i := range MaxConsoles + 1 {
			c.ids = append(c.ids, fmt.Sprintf("node-%04d", i))
		}
		k := New(Config{Name: "r1", Nodes: c, Documents: c, Members: c, Hardware: hw, Metrics: &counts{results: map[string]int{}}})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- k.Run(ctx) }()
		synctest.Wait()
		left := c.ids[MaxConsoles]
		if _, err := k.Read(ctx, left, ask.ConsoleRead{Tenancy: "t1"}); err == nil {
			t.Fatal("more consoles are held than may be")
		}
		c.set(func() { c.off[c.ids[0]] = true })
		k.NodeChanged(c.ids[0])
		time.Sleep(time.Minute)
		synctest.Wait()
		if _, err := k.Read(ctx, left, ask.ConsoleRead{Tenancy: "t1"}); err != nil {
			t.Errorf("a minute after a place was left: %v", err)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// A console that could not be opened for long is there soon after something has happened to its node, such as the work that switches
// its machine on. News without an end do not make it ask the BMC all the time.
func TestNewsOfANodeShortenThePause(t *testing.T) {
	with(t, nil, func(b *bench) {
		fails := func(err error) { b.wire.mu.Lock(); defer b.wire.mu.Unlock(); b.wire.fail = err }
		tried := func() int { b.told.mu.Lock(); defer b.told.mu.Unlock(); return b.told.results["failed"] }
		fails(errors.New("the machine is off"))
		e, opened := b.wire.newest()
		e.Close(b.t.Context())
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		fails(nil)
		b.change(func(*node.Document) {})
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if _, now := b.wire.newest(); now != opened+1 {
			t.Error("three seconds after the news the console is not open")
		}
		fails(errors.New("the machine is off"))
		e, _ = b.wire.newest()
		e.Close(b.t.Context())
		before := tried()
		for range 600 {
			b.change(func(*node.Document) {})
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if n := tried() - before; n > 40 {
			t.Errorf("the BMC was asked %d times in ten minutes", n)
		}
	})
}

// A tenant with many machines looks at all of them, in as many viewers as each may have. Others still find a place.
func TestOneTenantsViewersLeavePlaces(t *testing.T) {
	v := &viewers{}
	v.begin(t.Context())
	fill := func(tenancy string) (got int) {
		for i := range 2 * MaxViewers {
			node := fmt.Sprintf("%s-%d", tenancy, i/MaxViewersOfNode)
			if _, ctx, err := v.take(node, fmt.Sprint(i), tenancy); err == nil && ctx != nil {
				got++
			} else if !errors.Is(err, driver.ErrInvalid) {
				t.Fatal(err)
			}
		}
		return got
	}
	if one, two, three := fill("t1"), fill("t2"), fill("t3"); one != MaxViewers/2 || two < MaxViewers/8 || three == 0 {
		t.Errorf("tenants got %d, %d and %d of %d places", one, two, three, MaxViewers)
	}
	if got := fill(""); got == 0 || v.all != MaxViewers {
		t.Errorf("the operators' own machines got %d places, and %d are taken", got, v.all)
	}
}
