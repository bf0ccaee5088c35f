package network

import (
	"context"
	"io"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"
)

// pair is two hosts on two switches with a cable between them.
type pair struct {
	a, b  *Host
	cable *Cable
}

func newPair(t *testing.T) pair {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	var p pair
	var switches []*Switch
	for i, h := range []**Host{&p.a, &p.b} {
		s, err := NewSwitch("s")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		switches = append(switches, s)
		if *h, err = s.Host("h", netip.AddrFrom4([4]byte{10, 77, byte(i), 1})); err != nil {
			t.Fatal(err)
		}
		t.Cleanup((*h).Close)
	}
	var err error
	if p.cable, err = Connect("wan", switches[0], switches[1], 1); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.cable.Close)
	var l net.Listener
	if err := p.b.ns.do(func() error { l, err = net.Listen("tcp", p.b.At(7)); return err }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { io.Copy(c, c); c.Close() }()
		}
	}()
	return p
}

// echo sends one byte there and back on a new connection and returns how long that took.
func (p pair) echo(limit time.Duration) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	c, err := p.a.DialContext(ctx, "tcp", p.b.At(7))
	if err != nil {
		return 0, err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(limit))
	began := time.Now()
	if _, err := c.Write([]byte{1}); err != nil {
		return 0, err
	}
	_, err = io.ReadFull(c, make([]byte, 1))
	return time.Since(began), err
}

func TestCableCutDelayedAndHealed(t *testing.T) {
	p := newPair(t)
	if _, err := p.echo(5 * time.Second); err != nil {
		t.Fatalf("whole: %v", err)
	}
	p.cable.Set(Trouble{Delay: 100 * time.Millisecond, Jitter: 10 * time.Millisecond})
	if took, err := p.echo(5 * time.Second); err != nil || took < 200*time.Millisecond {
		t.Errorf("there and back with a delay of 100 ms each way took %v, %v", took, err)
	}
	p.cable.Set(Trouble{Loss: 1})
	if _, err := p.echo(300 * time.Millisecond); err == nil {
		t.Error("a cable that loses everything carried a connection")
	}
	p.cable.Set(Trouble{})
	if err := p.cable.Cut(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.echo(300 * time.Millisecond); err == nil {
		t.Error("a cut cable carried a connection")
	}
	if err := p.cable.Join(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.echo(10 * time.Second); err != nil {
		t.Errorf("joined again: %v", err)
	}
	if p.cable.Carried() == 0 {
		t.Error("the cable counted no bytes")
	}
}

func TestHostUnpluggedAndBlocked(t *testing.T) {
	p := newPair(t)
	for _, f := range []struct {
		name         string
		break_, mend func() error
	}{
		{"unplugged", p.b.Unplug, p.b.Plug},
		{"blocked", func() error { return p.a.Block(p.b) }, func() error { return p.a.Unblock(p.b) }},
	} {
		if err := f.break_(); err != nil {
			t.Fatal(err)
		}
		if _, err := p.echo(300 * time.Millisecond); err == nil {
			t.Errorf("%s, and yet connected", f.name)
		}
		if err := f.mend(); err != nil {
			t.Fatal(err)
		}
		if _, err := p.echo(10 * time.Second); err != nil {
			t.Errorf("after being %s: %v", f.name, err)
		}
	}
}
