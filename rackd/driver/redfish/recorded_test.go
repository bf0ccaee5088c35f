package redfish

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stmcginnis/gofish"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
)

// What is read of the BMCs that bmclib's authors recorded stays as testdata/recorded has it.
func TestReadsOfBMCLibsRecordings(t *testing.T) {
	for name, said := range bmclibRecordings(t) {
		t.Run(name, func(t *testing.T) { compareReads(t, name, said) })
	}
}

// What is read of recorded BMCs in a folder stays as testdata/recorded has it. No recording is part of the repository: make recordings runs
// this test.
func TestReadsOfRecordedBMCs(t *testing.T) {
	folder := os.Getenv("IRONYARD_RECORDINGS")
	if folder == "" {
		t.Skip("NOT RUN: set IRONYARD_RECORDINGS to a folder with recorded BMCs (make recordings)")
	}
	all := recordings(t, folder)
	if len(all) == 0 {
		t.Fatalf("%s has neither a NAME.jsonl.gz nor a folder NAME/redfish/v1", folder)
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) { compareReads(t, name, all[name]) })
	}
}

// compareReads reads a recorded BMC, and compares: so much of each thing, and errors by their words. UPDATE_RECORDED=1 writes it.
func compareReads(t *testing.T, name string, said spoken) {
	t.Helper()
	e, d := newEmulator(t), newDriver(t, Options{})
	n := e.node(e.play(t, said))
	got := strings.Join(readAll(t, d, e, n), "\n") + "\n"
	file := filepath.Join("testdata", "recorded", name+".txt")
	if os.Getenv("UPDATE_RECORDED") == "1" {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("what is read of it is not known yet (UPDATE_RECORDED=1 writes it): %v", err)
	}
	if got != string(want) {
		t.Errorf("read:\n%s\nwant:\n%s", got, want)
	}
}

// readAll is a line for each thing that is read of a machine. Numbers that only one machine has are left out.
func readAll(t *testing.T, d *Driver, e *emulator, n *node.Document) (lines []string) {
	ctx := t.Context()
	line := func(what string, value any, err error) {
		if err != nil { // without node and address
			words := err.Error()
			if _, after, of := strings.Cut(words, "BMC https://"); of {
				_, words, _ = strings.Cut(after, ": ")
			}
			value = "error: " + words
		}
		lines = append(lines, fmt.Sprintf("%s: %v", what, value))
	}
	power, err := d.PowerState(ctx, n)
	line("power", power, err)
	vendor, err := d.DetectVendor(ctx, n)
	line("vendor", vendor, err)
	id, err := d.Identity(ctx, n)
	line("identity", fmt.Sprintf("%q, model %q, told: UUID %t, serial number %t, SKU %t", id.Manufacturer, id.Model, id.UUID != "", id.Serial != "", id.SKU != ""), err)
	mode, err := d.BootMode(ctx, n)
	line("boot mode", mode, err)
	devices, err := d.SupportedBootDevices(ctx, n)
	line("boot devices", devices, err)
	device, err := d.BootDevice(ctx, n)
	lasting := "lasting unknown"
	if device.Persistent != nil {
		lasting = fmt.Sprint("lasting ", *device.Persistent)
	}
	line("boot device", fmt.Sprintf("%q, %s", device.Device, lasting), err)
	secure, err := d.SecureBoot(ctx, n)
	line("secure boot", secure, err)
	drives, err := d.Media(ctx, n)
	var types []string
	for _, m := range drives {
		types = append(types, fmt.Sprintf("%q", strings.Join(m.Types, "+")))
	}
	line("virtual drives", types, err)
	settings, err := BIOS{Driver: d}.Settings(ctx, n)
	line("BIOS settings", len(settings), err)
	sensors, err := d.Sensors(ctx, n)
	var counts []string
	for _, kind := range slices.Sorted(maps.Keys(sensors)) {
		counts = append(counts, fmt.Sprint(kind, " ", len(sensors[kind])))
	}
	line("sensors", strings.Join(counts, ", "), err)
	mark, err := d.LogEnd(ctx, n)
	line("event log has entries", mark != "", err)
	lights, err := d.Indicators(ctx, n)
	line("indicators", len(lights), err)
	health, err := d.Health(ctx, n)
	line("health", health, err)
	targets, err := d.ISCSIBoot(ctx, n)
	line("iSCSI targets", len(targets), err)
	inspection, err := inspected(ctx, d, n)
	line("inspection", inspection, err)
	before := e.questions()
	o, err := (Firmware{Driver: d}).found(ctx, n)
	line("firmware", firmwareOf(o), err)
	line("requests for that", fmt.Sprintf("%d, cut %t", e.questions()-before, o.cut), nil)
	return lines
}

// inspected is what an inspection finds.
func inspected(ctx context.Context, d *Driver, n *node.Document) (text string, err error) {
	err = d.pool.with(ctx, nil, n, "inspect the machine", func(b *session, a account, c *gofish.APIClient) error {
		system, err := b.system(c, a)
		if err != nil {
			return err
		}
		v := &survey{c: c}
		found, size, err := v.inventory(system)
		raw, _ := json.Marshal(found)
		var inv struct {
			Interfaces, Disks []any
			CPU               struct{ Count int }
			Memory            struct {
				PhysicalMB int `json:"physical_mb"`
			}
		}
		if err := errors.Join(err, json.Unmarshal(raw, &inv)); err != nil {
			return err
		}
		text = fmt.Sprintf("%d ports, %d disks, %d GB, %d CPUs, %d MB of memory; missing: %q", len(inv.Interfaces), len(inv.Disks), size,
			inv.CPU.Count, inv.Memory.PhysicalMB, v.missing)
		return nil
	})
	return text, err
}

// firmwareOf tells versions by the kinds of parts, and how many of a kind tell none.
func firmwareOf(o found) string {
	var list []string
	for _, c := range o.system {
		list = append(list, c.Name+" "+c.Current)
	}
	for _, kind := range partKinds {
		var told []string
		silent := 0
		for _, p := range o.parts {
			switch {
			case p.kind != kind:
			case p.Current == "":
				silent++
			default:
				told = append(told, p.Current)
			}
		}
		if slices.Sort(told); len(told)+silent > 0 {
			list = append(list, fmt.Sprintf("%s %q, silent %d", kind, told, silent))
		}
	}
	return strings.Join(list, "; ")
}

// The contract of power and management holds for machines that show themselves as recorded BMCs do. What orders do is the emulator's.
func TestConformanceOfRecordedBMCs(t *testing.T) {
	t.Parallel()
	all := bmclibRecordings(t)
	for _, name := range []string{"bmclib-dell-r6515", "bmclib-supermicro-510t"} {
		t.Run(name, func(t *testing.T) {
			drivertest.Conformance(t, func(t *testing.T) *drivertest.Machine {
				m := machineOf(t, "session", all[name])
				if name != "bmclib-dell-r6515" && os.Getenv("IRONYARD_HARDWARE") == "" {
					m.Spoil, m.Asked, m.Without["Spoil"] = nil, nil, "the machine of Dell has that; for others set IRONYARD_HARDWARE=1"
				}
				return m
			})
		})
	}
}
