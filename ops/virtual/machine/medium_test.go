package machine

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// images serves an image at /a.iso and counts the requests.
func images(t *testing.T) (*httptest.Server, *atomic.Int64) {
	t.Helper()
	var asked atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.URL.Path != "/a.iso" {
			http.NotFound(w, r)
			return
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(make([]byte, 64<<10)))
	}))
	t.Cleanup(s.Close)
	return s, &asked
}

// A medium costs nothing before the machine is on, comes to one that is on, and leaves
// it; one that cannot be read is an error, and none for the machine's start.
func TestMedium(t *testing.T) {
	s, asked := images(t)
	image, missing := s.URL+"/a.iso?token=hidden", s.URL+"/b.iso?token=hidden"
	m := open(t, testConfig(t, sector("SECTOR")))
	if err := m.InsertMedium(t.Context(), image); err != nil || asked.Load() != 0 {
		t.Fatalf("inserting into a machine that is off: %v, %d requests", err, asked.Load())
	}
	if err := m.InsertMedium(t.Context(), image); !errors.Is(err, ErrMediumInside) {
		t.Errorf("inserting into a full drive: %v", err)
	}
	if err := m.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, problem := m.Medium(); got != image || problem != nil || !m.Block(t) || asked.Load() == 0 {
		t.Fatalf("after the start: %q, problem %v, in QEMU %t (Debian's package qemu-block-extra)", got, problem, m.Block(t))
	}
	waitSerial(t, m.Serial(0), "SECTOR")
	for range 2 {
		if err := m.EjectMedium(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got, _ := m.Medium(); got != "" || m.Block(t) {
		t.Errorf("after the eject: %q, in QEMU %t", got, m.Block(t))
	}
	if err := m.InsertMedium(t.Context(), missing); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "404") || strings.Contains(err.Error(), "hidden") {
		t.Errorf("inserting what is not there: %v", err)
	}
	if got, _ := m.Medium(); got != "" || m.Block(t) {
		t.Errorf("after a failed insert: %q, in QEMU %t", got, m.Block(t))
	}
	if err := m.InsertMedium(t.Context(), image); err != nil || !m.Block(t) {
		t.Errorf("inserting into a machine that is on: %v", err)
	}
	if err := errors.Join(m.Stop(t.Context()), m.EjectMedium(t.Context()), m.InsertMedium(t.Context(), missing), m.Start(t.Context())); err != nil {
		t.Fatal(err)
	}
	got, problem := m.Medium()
	if got != missing || problem == nil || !strings.Contains(problem.Error(), "404") || strings.Contains(problem.Error(), "hidden") || m.Block(t) {
		t.Errorf("a start without its medium: %q, problem %v, in QEMU %t", got, problem, m.Block(t))
	}
	for _, bad := range []string{"", "nfs://10.0.0.1/a.iso", "/a.iso", "http://", ":"} {
		if err := m.EjectMedium(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := m.InsertMedium(t.Context(), bad); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("image %q: %v", bad, err)
		}
	}
}

// A controller that died between QEMU's start and the medium's leaves a machine that
// waits. The next one lets it go on.
func TestMediumOfAnInterruptedStart(t *testing.T) {
	s, _ := images(t)
	cfg := testConfig(t, sector("SECTOR"))
	first := open(t, cfg)
	if err := first.InsertMedium(t.Context(), s.URL+"/a.iso"); err != nil {
		t.Fatal(err)
	}
	p, err := spawn(t.Context(), first.cfg, Disk, true)
	if err != nil {
		t.Fatal(err)
	}
	first.watch(p)
	first.state.On, first.state.PID = true, p.cmd.Process.Pid
	if err := first.saveState(); err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second := open(t, cfg)
	if !second.On() || !second.Block(t) {
		t.Fatalf("found again: on %t", second.On())
	}
	waitSerial(t, second.Serial(0), "SECTOR")
}

func TestArgumentsOfAMedium(t *testing.T) {
	cfg := Config{Firmware: BIOS}
	if slices.Contains(cfg.arguments(Disk, false, 3), "-S") || !slices.Contains(cfg.arguments(Disk, true, 3), "-S") {
		t.Error("a machine waits exactly if it has a medium")
	}
}
