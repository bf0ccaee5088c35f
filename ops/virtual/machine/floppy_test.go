package machine

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// A floppy comes with the machine's start, beside the stick, and leaves a machine that is on. The stick stays.
func TestFloppy(t *testing.T) {
	s, asked := images(t)
	image := s.URL + "/a.iso?token=hidden"
	cfg := testConfig(t, sector("SECTOR"))
	cfg.USBStick, cfg.USBFloppy = true, true
	m := open(t, cfg)
	if err := errors.Join(m.InsertStick(t.Context(), image), m.InsertFloppy(t.Context(), image)); err != nil || asked.Load() != 0 {
		t.Fatalf("into a machine that is off: %v, %d requests", err, asked.Load())
	}
	if err := m.InsertFloppy(t.Context(), image); !errors.Is(err, ErrMediumInside) {
		t.Errorf("into a full drive: %v", err)
	}
	if err := m.Start(t.Context()); err != nil || !m.plugged(t, stick) || !m.plugged(t, floppy) {
		t.Fatalf("after the start: %v", err)
	}
	if got, problem, err := m.Floppy(); got != image || problem != nil || err != nil {
		t.Errorf("the floppy is %q, %v, %v", got, problem, err)
	}
	for range 2 {
		if err := m.EjectFloppy(t.Context()); err != nil || m.plugged(t, floppy) || !m.plugged(t, stick) {
			t.Fatalf("eject: %v", err)
		}
	}
	if err := m.InsertFloppy(t.Context(), image); err != nil || !m.plugged(t, floppy) {
		t.Errorf("into a machine that is on: %v", err)
	}
}

// A machine whose BMC has no drive of a floppy takes none. One with it has a USB controller.
func TestMachineWithoutAFloppy(t *testing.T) {
	m := open(t, testConfig(t, sector("SECTOR")))
	if _, _, err := m.Floppy(); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("the floppy of a machine without: %v", err)
	}
	if err := m.InsertFloppy(t.Context(), "http://10.0.0.1/a.img"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a floppy into a machine without: %v", err)
	}
	args := Config{Firmware: BIOS, USBFloppy: true}.arguments(Disk, false, 3)
	if !slices.ContainsFunc(args, func(a string) bool { return strings.Contains(a, "qemu-xhci,id=usb") }) {
		t.Error("a machine with a floppy has no USB controller")
	}
}
