package strangers

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func at(text string) netip.Addr { return netip.MustParseAddr(text) }

// However many addresses are greedy, one that comes later finds something left.
func TestGreedyAddressesLeaveSomething(t *testing.T) {
	for greedy := range 20 {
		refused := 0
		g := New(Budget{Slots: 64, SlotsPerAddress: 64}, func(Kind) { refused++ })
		for round := range 64 {
			for a := range greedy {
				_, ok := g.Enter(at(fmt.Sprintf("10.0.0.%d", a)))
				if round == 0 && !ok {
					t.Errorf("%d addresses: the first slot of number %d is refused", greedy, a)
				}
			}
		}
		if want := 64 / (greedy + 1); 64-g.Taken(Slots) < int64(want) {
			t.Errorf("%d greedy addresses leave %d slots, want %d", greedy, 64-g.Taken(Slots), want)
		}
		leave, ok := g.Enter(at("192.0.2.1"))
		if !ok {
			t.Errorf("%d greedy addresses leave nothing", greedy)
			continue
		}
		before := g.Taken(Slots)
		leave()
		leave()
		if g.Taken(Slots) != before-1 || greedy > 0 && refused == 0 {
			t.Errorf("%d slots are taken after %d, %d refused", g.Taken(Slots), before, refused)
		}
	}
}

func TestAddressesOfOneHostShare(t *testing.T) {
	g := New(Budget{Slots: 64, SlotsPerAddress: 1}, nil)
	for _, c := range []struct {
		from string
		want bool
	}{{"192.0.2.1", true}, {"::ffff:192.0.2.1", false}, {"192.0.2.2", true}, {"2001:db8::1", true}, {"2001:db8::2", false}, {"2001:db8:0:1::1", true}} {
		if _, ok := g.Enter(at(c.from)); ok != c.want {
			t.Errorf("%s enters: %t", c.from, ok)
		}
	}
	if _, ok := g.Enter(netip.Addr{}); !ok {
		t.Error("an address that is not known has no share")
	}
}

func TestRoomIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(Budget{Bytes: 100, BytesPerAddress: 50}, nil)
		first, second := g.Room(at("10.0.0.1")), g.Room(at("10.0.0.1"))
		if !first.TakeNow(30) || !second.TakeNow(20) || second.TakeNow(1) {
			t.Fatal("an address has another share than 50")
		}
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if second.Take(soon, 1) || soon.Err() == nil {
			t.Error("room that nothing gives back is there, or was not waited for")
		}
		go func() { time.Sleep(time.Second); first.Free() }()
		if !second.Take(t.Context(), 30) || g.Taken(Bytes) != 50 {
			t.Errorf("room that was given back is not there: %d taken", g.Taken(Bytes))
		}
		began := time.Now()
		if second.Take(t.Context(), 51) || time.Since(began) > 0 {
			t.Error("more than a share is waited for")
		}
		second.Free()
		second.Free()
		if g.Taken(Bytes) != 0 {
			t.Errorf("%d bytes are left over", g.Taken(Bytes))
		}
	})
}

func TestLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		g := New(Budget{Lines: 3}, nil)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- g.Run(ctx, slog.New(slog.NewTextHandler(&log, nil))) }()
		written := 0
		for i := range 100 {
			if g.MayRecord(at(fmt.Sprintf("10.0.0.%d", i%5))) {
				written++
			}
		}
		if written != 3 || !g.MayLog(at("10.0.0.1")) {
			t.Errorf("%d lines of the audit in a minute, want 3, and the log has its own", written)
		}
		time.Sleep(61 * time.Second)
		synctest.Wait()
		if !g.MayRecord(at("10.0.0.1")) || g.MayRecord(at("10.0.0.1")) {
			t.Error("the next minute has other lines than one for an address")
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if !strings.Contains(log.String(), "refusals=97") || !strings.Contains(log.String(), "refusals=1\n") || strings.Count(log.String(), "\n") != 2 {
			t.Errorf("the log says\n%s", log.String())
		}
	})
}

func TestBudget(t *testing.T) {
	b := Budget{}.WithDefaults()
	if err := b.Check(); err != nil || b.Slots != DefaultSlots || b.Deadline(DefaultBodyRate) != DefaultBodyTime+time.Second {
		t.Errorf("%+v, %v", b, err)
	}
	if err := (Budget{Lines: -1}).Check(); err == nil || !strings.Contains(err.Error(), "lines") {
		t.Errorf("error %v", err)
	}
}
