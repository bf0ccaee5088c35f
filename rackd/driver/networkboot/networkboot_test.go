package networkboot

import (
	"errors"
	"slices"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
)

var _ driver.Boot = Interface{}

func TestBootsThenInstance(t *testing.T) {
	r := drivertest.NewRig()
	r.Node.Properties = map[string]any{"capabilities": "boot_mode:bios"}
	b := IPXE()
	task := r.Task(b)
	if err := b.PrepareRamdisk(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	if task.Facts[driver.FactBoot] != driver.BootRamdisk {
		t.Errorf("facts %v", task.Facts)
	}
	if err := b.PrepareInstance(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	if task.Facts[driver.FactBoot] != driver.BootInstance {
		t.Errorf("facts %v", task.Facts)
	}
	if want := []string{"mode bios", "boot pxe false", "boot disk true"}; !slices.Equal(r.Log, want) {
		t.Errorf("writes %q, want %q", r.Log, want)
	}
	if err := b.CleanUpInstance(t.Context(), task); err != nil || task.Facts[driver.FactBoot] != "" {
		t.Errorf("%v, facts %v", err, task.Facts)
	}
}

func TestForcedPersistence(t *testing.T) {
	r := drivertest.NewRig()
	r.Node.DriverInfo = map[string]any{persistField: "Always"}
	if err := PXE().PrepareRamdisk(t.Context(), r.Task(PXE())); err != nil {
		t.Fatal(err)
	}
	if want := []string{"boot pxe true"}; !slices.Equal(r.Log, want) {
		t.Errorf("writes %q, want %q", r.Log, want)
	}
}

func TestOutcomesOfWrites(t *testing.T) {
	for name, c := range map[string]struct {
		fails  error
		writes int
		want   error
	}{
		"unknown":     {driver.ErrUnknown, 3, driver.ErrUnknown},
		"unsupported": {driver.ErrUnsupported, 1, nil},
		"denied":      {driver.ErrDenied, 1, driver.ErrDenied},
	} {
		r := drivertest.NewRig()
		r.Fail = func(call string) error {
			if call == "set_boot_device" {
				return c.fails
			}
			return nil
		}
		err := IPXE().PrepareInstance(t.Context(), r.Task(IPXE()))
		if !errors.Is(err, c.want) || len(r.Log) != c.writes {
			t.Errorf("%s: %v after writes %q", name, err, r.Log)
		}
	}
}

func TestValidateNeedsABootPort(t *testing.T) {
	n := drivertest.NewRig().Node
	if err := IPXE().Validate(n); err != nil {
		t.Error(err)
	}
	n.Ports[0].PXEEnabled = false
	if err := IPXE().Validate(n); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("no boot port: %v", err)
	}
	n = &node.Document{UUID: "u", DriverInfo: map[string]any{persistField: "Sometimes"}}
	if err := IPXE().Validate(n); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("bad field: %v", err)
	}
	if IPXE().Via() != driver.ViaHTTP || PXE().Via() != driver.ViaTFTP {
		t.Error("transports")
	}
}
