package redfish

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stmcginnis/gofish"

	"github.com/ironyard/ironyard/protocol/node"
)

// recordedParts are the components of recorded BMCs beside BIOS and BMC, by the recording's name.
var recordedParts = map[string]string{
	// Two of its eight bays hold drives.
	"hpe-dl360-gen10": "nic:ILC220027S=16.35.4030 psu:0=2.00 psu:1=2.00 drive:2556=HPG3 drive:2557=HPG3",
	// The newer resources of its supplies are not read beside those of before.
	"dmtf-rackmount": "psu:0=1.00",
	// Its adapters tell no version, and its list of firmware does not say whose its entries are.
	"hpe-cray-ex235a":  "",
	"supermicro-gb300": "",
	// Power supplies without a version.
	"lenovo-bmclib":  "",
	"supermicro-x10": "",
}

// The firmware that real BMCs show of their parts.
func TestFirmwareOfRecordedBMCs(t *testing.T) {
	for name, want := range recordedParts {
		t.Run(name, func(t *testing.T) {
			d, n, requests := recordedBMC(t, name)
			o, err := (Firmware{Driver: d}).found(t.Context(), n)
			if err != nil {
				t.Fatal(err)
			}
			var got, silent []string
			for _, p := range o.parts {
				if p.Current == "" {
					silent = append(silent, p.Name)
				} else {
					got = append(got, p.Name+"="+p.Current)
				}
			}
			asked := requests.Load()
			t.Logf("%d requests; of the system %+v; parts %+v; without a version: %q; cut %t", asked, o.system, o.components()[len(o.system):], silent, o.cut)
			if strings.Join(got, " ") != want || o.cut || asked > 150 {
				t.Errorf("listed %q by %d requests, want %q", got, asked, want)
			}
		})
	}
}

// What is read of real BMCs stays as testdata/recorded.txt has it: so much of each, and errors by their words. UPDATE_RECORDED=1 writes it.
func TestReadsOfRecordedBMCs(t *testing.T) {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(recordedParts)) {
		d, n, _ := recordedBMC(t, name)
		fmt.Fprintf(&text, "%s\n", name)
		for _, line := range readAll(t.Context(), d, n) {
			fmt.Fprintf(&text, "  %s\n", line)
		}
	}
	file := filepath.Join("testdata", "recorded.txt")
	if os.Getenv("UPDATE_RECORDED") == "1" {
		if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if text.String() != string(want) {
		t.Errorf("read:\n%s\nwant:\n%s", text.String(), want)
	}
}

// readAll is a line for each thing that is read of a machine.
func readAll(ctx context.Context, d *Driver, n *node.Document) (lines []string) {
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
	line("identity", fmt.Sprintf("%+v", id), err)
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
		types = append(types, strings.Join(m.Types, "+"))
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
		err = errors.Join(err, json.Unmarshal(raw, &inv))
		line("inspection", fmt.Sprintf("%d ports, %d disks, %d GB, %d CPUs, %d MB of memory; missing: %q", len(inv.Interfaces), len(inv.Disks), size,
			inv.CPU.Count, inv.Memory.PhysicalMB, v.missing), err)
		return nil
	})
	if err != nil {
		line("inspection", nil, err)
	}
	return lines
}

// recordedBMC is a driver and a node whose BMC gives recorded answers. requests counts what was asked for. Recordings are no part of the
// repository: make recordings runs these tests.
func recordedBMC(t *testing.T, name string) (d *Driver, n *node.Document, requests *atomic.Int64) {
	t.Helper()
	folder := os.Getenv("IRONYARD_RECORDINGS")
	if folder == "" {
		t.Skip("NOT RUN: set IRONYARD_RECORDINGS to a folder with recorded BMCs, a resource a line in each NAME.jsonl.gz (make recordings)")
	}
	at := recording(t, filepath.Join(folder, name+".jsonl.gz"))
	requests = new(atomic.Int64)
	e, d := newEmulator(t), newDriver(t, Options{})
	e.set(func() {
		e.hook = func(w http.ResponseWriter, r *http.Request) bool {
			path := strings.TrimSuffix(r.URL.Path, "/")
			switch {
			case path == "/redfish/v1" && r.Method == http.MethodGet:
				root := at[path]
				root["Links"] = map[string]any{"Sessions": link("/redfish/v1/SessionService/Sessions")}
				_ = json.NewEncoder(w).Encode(root)
				return true
			case r.Method != http.MethodGet || strings.Contains(path, "SessionService/Sessions"):
				return false
			case at[path] == nil:
				refuse(w, http.StatusNotFound, "not recorded")
				return true
			}
			requests.Add(1)
			_ = json.NewEncoder(w).Encode(at[path])
			return true
		}
	})
	n = e.node(nil)
	if name == "supermicro-gb300" {
		n.DriverInfo[fieldSystem] = "/redfish/v1/Systems/System_0"
	}
	return d, n, requests
}

// recording reads a recorded BMC.
func recording(t *testing.T, file string) map[string]map[string]any {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	at, lines := map[string]map[string]any{}, bufio.NewReader(z)
	for {
		line, err := lines.ReadBytes('\n')
		var one struct {
			Path string
			Body map[string]any
		}
		if json.Unmarshal(line, &one) == nil && one.Body != nil {
			at[strings.TrimSuffix(one.Path, "/")] = one.Body
		}
		if err == io.EOF {
			return at
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
