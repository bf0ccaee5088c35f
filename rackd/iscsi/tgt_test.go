package iscsi

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ironyard/ironyard/rackd/iscsi/iscsitest"
)

const (
	diskSize = 16 << 20
	name     = "iqn.2026-11.org.example:disk"
)

// judges skips where the foreign target is not to be run.
func judges(t *testing.T) {
	t.Helper()
	if os.Getenv("IRONYARD_E2E") != "1" {
		t.Skip("needs tgt (Debian's package); set IRONYARD_E2E=1")
	}
}

// noise is a file of random bytes, which stands for a disk.
func noise(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "disk")
	data := make([]byte, diskSize)
	rand.Read(data)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func to(g *iscsitest.Tgt, c CHAP) Target {
	return Target{Address: g.Address, IQN: name, LUN: 1, Initiator: "iqn.2026-11.org.example:rackd", CHAP: c}
}

func connected(t *testing.T, target Target, o Options) (*Session, *Disk) {
	t.Helper()
	s, err := Connect(t.Context(), target, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	d, err := s.Disk(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s, d
}

// What is written by way of tgtd is in its file, and is read as it is there.
func TestTgtKeepsWhatIsWritten(t *testing.T) {
	judges(t)
	path := noise(t)
	_, d := connected(t, to(iscsitest.Start(t, path, name), CHAP{}), Options{})
	if d.Size() != diskSize || d.Block() != 512 {
		t.Fatalf("a disk of %d bytes in blocks of %d", d.Size(), d.Block())
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, 2<<20)
	rand.Read(data)
	var running []*Pending
	for off := int64(0); off < int64(len(data)); {
		n := min(int64(len(data))-off, []int64{512, 4096, 65536, Largest}[off/512%4])
		p, err := d.Write(data[off:off+n], 3<<20+off)
		if err != nil {
			t.Fatal(err)
		}
		running = append(running, p)
		off += n
	}
	for _, p := range running {
		if err := p.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	copy(want[3<<20:], data)
	for _, z := range [][2]int64{{8 << 20, 6 << 20}, {512, 512}, {diskSize - 1024, 1024}} {
		zeroed(t, d, z[0], z[1])
		clear(want[z[0] : z[0]+z[1]])
	}
	if err := d.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("the file is another one than was written (%v)", err)
	}
	for off := int64(0); off < diskSize; off += Largest {
		if err := d.Read(t.Context(), got[off:off+Largest], off); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(got, want) {
		t.Error("what is read is another thing than the file")
	}
	for _, wrong := range [][2]int64{{diskSize, 512}, {100, 512}, {0, 100}, {-512, 512}, {0, 0}} {
		if _, err := d.Write(make([]byte, wrong[1]), wrong[0]); err == nil {
			t.Errorf("%d bytes at %d are written", wrong[1], wrong[0])
		}
	}
}

// zeroed makes zeros by commands that run at the same time.
func zeroed(t *testing.T, d *Disk, off, n int64) {
	t.Helper()
	var running []*Pending
	for n > 0 {
		p, k, err := d.Zero(off, min(n, 3<<20))
		if err != nil {
			t.Fatal(err)
		}
		running = append(running, p)
		off, n = off+k, n-k
	}
	for _, p := range running {
		if err := p.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// A disk that does not know WRITE SAME has the zeros written, also for commands that were under way when it said so.
func TestTgtWithoutWriteSame(t *testing.T) {
	judges(t)
	path := noise(t)
	var refused atomic.Int64
	_, d := connected(t, to(iscsitest.Start(t, path, name), CHAP{}), Options{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return stranger{c, &refused}, err
	}})
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, z := range [][2]int64{{1 << 20, 8<<20 + 512}, {10 << 20, 2 << 20}} {
		zeroed(t, d, z[0], z[1])
		clear(want[z[0] : z[0]+z[1]])
	}
	if err := d.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the file is another one than was written (%v)", err)
	}
	if n := refused.Load(); n != 3 {
		t.Errorf("%d commands were refused, not the 3 of the first run", n)
	}
}

// The accounts of tgtd: ours, the target's own, and wrong ones.
func TestTgtAsksForCHAP(t *testing.T) {
	judges(t)
	us, them := [2]string{"rackd", "secret-of-rackd"}, [2]string{"target", "secret-of-tgt-1"}
	g := iscsitest.Start(t, noise(t), name, us, them)
	good := CHAP{User: us[0], Secret: us[1], TargetUser: them[0], TargetSecret: them[1]}
	for what, c := range map[string]struct {
		chap   CHAP
		denied bool
	}{
		"both":                  {chap: good},
		"ours alone":            {chap: CHAP{User: us[0], Secret: us[1]}},
		"none":                  {denied: true},
		"a wrong secret":        {chap: CHAP{User: us[0], Secret: "wrong-wrong-wrong"}, denied: true},
		"a wrong name":          {chap: CHAP{User: "nobody", Secret: us[1]}, denied: true},
		"another target's name": {chap: CHAP{User: us[0], Secret: us[1], TargetUser: "other", TargetSecret: them[1]}, denied: true},
		"another target":        {chap: CHAP{User: us[0], Secret: us[1], TargetUser: them[0], TargetSecret: "of-another-target"}, denied: true},
	} {
		s, err := Connect(t.Context(), to(g, c.chap), Options{Stall: 5 * time.Second})
		if err == nil {
			s.Close()
		}
		if (err != nil) != c.denied || c.denied && !errors.Is(err, ErrDenied) {
			t.Errorf("%s: %v", what, err)
		}
		if err != nil && (strings.Contains(err.Error(), us[1]) || strings.Contains(err.Error(), them[1])) {
			t.Errorf("%s: the error tells a secret: %v", what, err)
		}
	}
}

// A target that asks for no credentials is none of ours.
func TestTgtThatAsksForNothingIsRefused(t *testing.T) {
	judges(t)
	g := iscsitest.Start(t, noise(t), name)
	if _, err := Connect(t.Context(), to(g, CHAP{User: "rackd", Secret: "secret-of-rackd"}), Options{}); err == nil {
		t.Error("a target without CHAP is taken for one with")
	} else {
		t.Log(err)
	}
	wrong := to(g, CHAP{})
	wrong.IQN += "x"
	if _, err := Connect(t.Context(), wrong, Options{}); err == nil || !strings.Contains(err.Error(), "target not found") {
		t.Errorf("a target that is not there: %v", err)
	}
}

// A target that dies, and one that goes silent, end the commands that run.
func TestTgtDies(t *testing.T) {
	judges(t)
	g := iscsitest.Start(t, noise(t), name)
	_, d := connected(t, to(g, CHAP{}), Options{})
	p, err := d.Write(make([]byte, Largest), 0)
	if err == nil {
		err = p.Wait(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	g.Kill()
	p, err = d.Write(make([]byte, Largest), 0)
	if err == nil {
		err = p.Wait(t.Context())
	}
	if err == nil {
		t.Error("a write to a dead target succeeds")
	}

	g = iscsitest.Start(t, noise(t), name)
	var hole *blackHole
	_, d = connected(t, to(g, CHAP{}), Options{Stall: 200 * time.Millisecond, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, address)
		hole = &blackHole{Conn: c}
		return hole, err
	}})
	hole.swallow.Store(true)
	if p, err = d.Write(make([]byte, 512), 0); err == nil {
		err = p.Wait(t.Context())
	}
	if _, silent := errors.AsType[*SilentError](err); !silent {
		t.Errorf("a silent target: %v", err)
	}
}

// A write whose context ends, ends its session.
func TestTgtAndAContextThatEnds(t *testing.T) {
	judges(t)
	_, d := connected(t, to(iscsitest.Start(t, noise(t), name), CHAP{}), Options{})
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(io.ErrNoProgress)
	p, err := d.Write(make([]byte, Largest), 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(ctx); err != nil && !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("the command ends with %v", err)
	}
}
