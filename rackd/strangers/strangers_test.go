package strangers

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// However many addresses are greedy, one that comes later finds a place.
func TestGreedyAddressesLeaveAPlace(t *testing.T) {
	for greedy := range 20 {
		refused := 0
		g := New(Budget{Bodies: 64, BodiesPerAddress: 64}, func(Part) { refused++ }, nil)
		for range 64 {
			for a := range greedy {
				g.Body(netip.AddrFrom4([4]byte{10, 0, 0, byte(a)}))
			}
		}
		leave, ok := g.Body(netip.MustParseAddr("192.0.2.1"))
		if !ok {
			t.Errorf("%d greedy addresses leave nothing", greedy)
			continue
		}
		before := g.bodies.taken
		leave()
		leave()
		if g.bodies.taken != before-1 || greedy > 0 && refused == 0 {
			t.Errorf("%d places are taken after %d, %d refused", g.bodies.taken, before, refused)
		}
	}
}

func TestAddressesOfOneHostShare(t *testing.T) {
	g := New(Budget{Bodies: 64, BodiesPerAddress: 1}, nil, nil)
	for _, c := range []struct {
		from string
		want bool
	}{{"192.0.2.1", true}, {"::ffff:192.0.2.1", false}, {"192.0.2.2", true}, {"2001:db8::1", true}, {"2001:db8::2", false}, {"2001:db8:0:1::1", true}} {
		if _, ok := g.Body(netip.MustParseAddr(c.from)); ok != c.want {
			t.Errorf("%s: %t", c.from, ok)
		}
	}
	if _, ok := g.Body(netip.Addr{}); !ok {
		t.Error("an address that is not known has no share")
	}
}

func TestLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		parts := map[Part]int{}
		g := New(Budget{Lines: 3, MachineLines: 2}, func(p Part) { parts[p]++ }, slog.New(slog.NewTextHandler(&log, nil)))
		l := g.Lines("DHCP")
		written, machines := 0, map[string]int{}
		for i := range 100 {
			if l.OfStranger() {
				written++
			}
			if name := fmt.Sprint(i % 10); l.OfMachine(name) {
				machines[name]++
			}
		}
		if written != 3 || len(machines) != 10 || machines["7"] != 2 || parts[Lines] != 97+80 {
			t.Errorf("%d lines of strangers, want 3; %v of machines, want 2 each; counted %v", written, machines, parts)
		}
		time.Sleep(time.Minute)
		if !l.OfStranger() || !l.OfMachine("7") || !strings.Contains(log.String(), "of=DHCP lines=177\n") {
			t.Errorf("the next minute has no lines, or the log does not tell of those left out:\n%s", log.String())
		}
		for i := range 2 * maxMachines {
			l.OfMachine(fmt.Sprint("more ", i))
		}
		if len(l.by) > maxMachines {
			t.Errorf("%d names are kept", len(l.by))
		}
	})
}

func TestPaceOfLogs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(Budget{LogRate: 10, LogBurst: 100}, nil, nil)
		if !g.MayShip("a", 100) || g.MayShip("a", 1) || !g.MayShip("b", 100) {
			t.Error("a node has another burst than 100")
		}
		time.Sleep(3 * time.Second)
		if !g.MayShip("a", 30) || g.MayShip("a", 1) {
			t.Error("3 s later it has not 30 bytes more")
		}
		for i := range 2 * maxPaces {
			g.MayShip(fmt.Sprint("more ", i), 1)
			time.Sleep(time.Second)
		}
		if len(g.logged.of) > maxPaces {
			t.Errorf("%d paces are kept", len(g.logged.of))
		}
	})
}

func TestBudget(t *testing.T) {
	if b := (Budget{}).WithDefaults(); b.Check() != nil || b.Lines != DefaultLines || b.Range != DefaultRange {
		t.Errorf("%+v, %v", b, b.Check())
	}
	for _, b := range []Budget{{Lines: -1}, {Range: 101}} {
		if b.Check() == nil {
			t.Errorf("%+v: no error", b)
		}
	}
}

func TestName(t *testing.T) {
	if got := Name("snponly.efi"); got != "snponly.efi" {
		t.Error(got)
	}
	if got := Name(strings.Repeat("é", 1000)); len(got) > maxName+3 || !strings.HasSuffix(got, "...") {
		t.Error(got)
	}
}
