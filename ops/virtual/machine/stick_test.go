package machine

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

// plugged reports whether QEMU has a drive on USB.
func (m *Machine) plugged(t *testing.T, d usbDrive) bool {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	var nodes []struct {
		Name string `json:"node-name"`
	}
	if err := m.proc.client.Execute(t.Context(), "query-named-block-nodes", nil, &nodes); err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		if n.Name == d.image() {
			return true
		}
	}
	return false
}

// A stick comes with the machine's start, to a machine that is on, and leaves it. One that cannot be read is an error, and none for
// the start.
func TestStick(t *testing.T) {
	s, asked := images(t)
	image, missing := s.URL+"/a.iso?token=hidden", s.URL+"/b.iso?token=hidden"
	cfg := testConfig(t, sector("SECTOR"))
	cfg.USBStick = true
	m := open(t, cfg)
	if err := m.InsertStick(t.Context(), image); err != nil || asked.Load() != 0 {
		t.Fatalf("into a machine that is off: %v, %d requests", err, asked.Load())
	}
	if err := m.InsertStick(t.Context(), image); !errors.Is(err, ErrMediumInside) {
		t.Errorf("into a full drive: %v", err)
	}
	if err := m.Start(t.Context()); err != nil || !m.plugged(t, stick) || asked.Load() == 0 {
		t.Fatalf("after the start: %v, %d requests", err, asked.Load())
	}
	for range 2 {
		if err := m.EjectStick(t.Context()); err != nil || m.plugged(t, stick) {
			t.Fatalf("eject: %v", err)
		}
	}
	if err := m.InsertStick(t.Context(), missing); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "404") || strings.Contains(err.Error(), "hidden") {
		t.Errorf("what is not there: %v", err)
	}
	if err := m.InsertStick(t.Context(), image); err != nil || !m.plugged(t, stick) {
		t.Errorf("into a machine that is on: %v", err)
	}
	if err := errors.Join(m.Stop(t.Context()), m.EjectStick(t.Context()), m.InsertStick(t.Context(), missing), m.Start(t.Context())); err != nil {
		t.Fatal(err)
	}
	if got, problem, err := m.Stick(); err != nil || got != missing || problem == nil || strings.Contains(problem.Error(), "hidden") || m.plugged(t, stick) {
		t.Errorf("a start without its stick: %q, problem %v, %v", got, problem, err)
	}
	if err := m.EjectStick(t.Context()); err != nil {
		t.Errorf("ejecting what could not be read: %v", err)
	}
}

func TestMachineWithoutAStick(t *testing.T) {
	cfg := Config{Firmware: BIOS}
	if slices.ContainsFunc(cfg.arguments(Disk, false, 3), func(a string) bool { return strings.Contains(a, "xhci") }) {
		t.Error("a machine without a stick has a USB controller")
	}
	cfg.USBStick = true
	if !slices.ContainsFunc(cfg.arguments(Disk, false, 3), func(a string) bool { return strings.Contains(a, "qemu-xhci,id=usb") }) {
		t.Error("a machine with a stick has no USB controller")
	}
}

// A machine whose BMC has no CD drive boots from its stick, for one start or for all, and by its disk where there is none.
func TestFromTheStick(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(append(sector("STICK", reset...), make([]byte, 1<<20)...)))
	}))
	t.Cleanup(s.Close)
	cfg := testConfig(t, sector("SECTOR"))
	cfg.USBStick, cfg.NoCD = true, true
	m := open(t, cfg)
	if err := errors.Join(m.InsertMedium(t.Context(), s.URL), m.SetBootOverride(Media, true)); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("of a CD drive that is not there: %v", err)
	}
	serial := m.Serial(0)
	if err := errors.Join(m.InsertStick(t.Context(), s.URL), m.SetBootOverride(Stick, true), m.Start(t.Context())); err != nil {
		t.Fatal(err)
	}
	waitSerial(t, serial, "STICK")
	waitSerial(t, serial, "SECTOR") // the stick's program has started the machine again
	if err := errors.Join(m.SetBootOverride(Stick, false), m.Reset(t.Context())); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		waitSerial(t, serial, "STICK")
	}
	if err := errors.Join(m.Stop(t.Context()), m.EjectStick(t.Context()), m.Start(t.Context())); err != nil {
		t.Fatal(err)
	}
	waitSerial(t, serial, "SECTOR")
	for _, none := range []Config{{Firmware: UEFI}, {Firmware: UEFI, USBStick: true, BootByVariables: true}} {
		if err := none.boots(Stick); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%+v boots from a stick: %v", none, err)
		}
	}
	if slices.ContainsFunc(cfg.arguments(Disk, false, 3), func(a string) bool { return strings.Contains(a, "-cd,") }) {
		t.Error("a machine without a CD drive has one")
	}
}
