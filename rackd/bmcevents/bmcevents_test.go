package bmcevents

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
)

// wire is a stream that tells what the test sends.
type wire struct {
	tells  []driver.BMCEvent // with each event
	events chan struct{}
	closed chan struct{}
	once   sync.Once
}

func (w *wire) Next() ([]driver.BMCEvent, error) {
	select {
	case _, ok := <-w.events:
		if !ok {
			return nil, io.EOF
		}
		return w.tells, nil
	case <-w.closed:
		return nil, io.EOF
	}
}
func (w *wire) Close() error { w.once.Do(func() { close(w.closed) }); return nil }

// streamer is a BMC that opens streams.
type streamer struct {
	driver.Management
	opened *[]*wire
	err    error
}

func (b streamer) Events(context.Context, *node.Document) (driver.EventStream, error) {
	if b.err != nil {
		return nil, b.err
	}
	w := &wire{events: make(chan struct{}), closed: make(chan struct{})}
	*b.opened = append(*b.opened, w)
	return w, nil
}

type power struct{ driver.Power }

func (power) Account(n *node.Document) string { return n.DriverString("account") }

func hardwareOf(t *testing.T, b streamer) *driver.Hardware {
	t.Helper()
	hw := drivertest.NewRig().Task(networkboot.IPXE()).Hardware
	b.Management = hw.Management()
	reg, err := driver.NewRegistry(driver.Type{Name: "t", Interfaces: map[string][]driver.Named{"power": {{Name: "p", Impl: power{hw.Power()}}}, "management": {{Name: "m", Impl: b}},
		"boot": {{Name: "b", Impl: hw.Boot()}}, "deploy": {{Name: "d", Impl: hw.Deploy()}}}})
	if err != nil {
		t.Fatal(err)
	}
	if hw, err = reg.Resolve(&node.Document{Driver: "t"}); err != nil {
		t.Fatal(err)
	}
	return hw
}

func nodeOf(id, account string) *node.Document {
	return &node.Document{UUID: id, Driver: "t", DriverInfo: map[string]any{"account": account}}
}

// noCodes makes none: nothing is posted.
type noCodes struct{ Codes }

func (noCodes) Code(*node.Document, string) string { return "" }

// Nodes of one BMC share a stream; its events have all of them looked at, at a bounded rate; it ends with its nodes, and with rackd.
func TestStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var opened []*wire
		var mu sync.Mutex
		looks := map[string]int{}
		l := New(Config{Codes: noCodes{}, Log: slog.New(slog.DiscardHandler), Look: func(id string, within time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			if within == 0 {
				looks[id]++
			}
		}})
		l.most = 2
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- l.Run(ctx) }()
		synctest.Wait()
		task, hw := l.Task(), hardwareOf(t, streamer{opened: &opened})
		turn := func(ids ...string) {
			t.Helper()
			for _, id := range ids {
				if err := task.Do(t.Context(), nodeOf(id, map[string]string{"n1": "chassis", "n2": "chassis", "n3": "", "n4": ""}[id]), hw); err != nil {
					t.Fatal(err)
				}
			}
		}
		turn("n1", "n2", "n3", "n4", "n1")
		if len(opened) != 2 {
			t.Fatalf("%d streams, want one of the chassis, one of n3 and none beyond the bound", len(opened))
		}
		for range 100 { // a BMC that tells without end, 10 a second
			opened[0].events <- struct{}{}
			time.Sleep(100 * time.Millisecond)
		}
		synctest.Wait()
		if looks["n1"] != 2 || looks["n2"] != 2 || looks["n3"] != 0 {
			t.Errorf("100 events in 10 s caused looks at once: %v", looks)
		}
		// The chassis' nodes go; n3 stays.
		for range 6 {
			time.Sleep(time.Minute)
			turn("n3")
		}
		select {
		case <-opened[0].closed:
		default:
			t.Error("the stream of a BMC whose nodes are gone stays open")
		}
		turn("n1") // there is room again
		if len(opened) != 3 {
			t.Errorf("%d streams were opened", len(opened))
		}
		close(opened[1].events) // the BMC ends it: the next turn opens another
		synctest.Wait()
		turn("n3")
		if len(opened) != 4 {
			t.Errorf("%d streams were opened after one was ended by the BMC", len(opened))
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		for i, w := range opened[1:] {
			select {
			case <-w.closed:
			default:
				t.Errorf("stream %d is open after the end", i+1)
			}
		}
		turn("n1")
		if len(opened) != 4 {
			t.Error("a stream was opened after the end")
		}
	})
}

func TestABMCWithoutEvents(t *testing.T) {
	l := New(Config{Codes: noCodes{}, Log: slog.New(slog.DiscardHandler)})
	l.ends = t.Context()
	none := fmt.Errorf("none: %w", driver.ErrUnsupported)
	if err := l.Task().Do(t.Context(), nodeOf("n", ""), hardwareOf(t, streamer{err: none})); !errors.Is(err, driver.ErrUnsupported) || len(l.streams) != 0 {
		t.Errorf("%v, %d streams", err, len(l.streams))
	}
}
