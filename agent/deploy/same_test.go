package deploy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ironyard/ironyard/agent/efiboot"
	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/hints"
)

// renaming is a machine whose kernel gives its names again when a controller is reset.
type renaming struct {
	mu    sync.Mutex
	disks []agentapi.Disk
	unfit []agentapi.UnfitDisk
	looks int
	// reset is what the machine shows from its second look on, where it is not nil.
	reset []agentapi.Disk
}

func (r *renaming) Settled(_ context.Context, _ bool, check func([]agentapi.Disk, []agentapi.UnfitDisk) error) ([]agentapi.Disk, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.looks++; r.looks > 1 && r.reset != nil {
		r.disks = r.reset
	}
	return r.disks, check(r.disks, r.unfit)
}

// add makes a file and shows it as a disk.
func (r *renaming) add(t *testing.T, dir, name, serial string, fill byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, bytes.Repeat([]byte{fill}, size), 0o600); err != nil {
		t.Fatal(err)
	}
	r.disks = append(r.disks, agentapi.Disk{Name: path, Size: size, Serial: serial})
	return path
}

// An erasure takes hours, and four disks go at a time. A controller is reset meanwhile: a disk that waits gets another name, and the kept
// one comes back by the name that it had.
func TestANameThatPassesToAKeptDisk(t *testing.T) {
	dir := t.TempDir()
	m := &renaming{}
	for i := range 4 {
		m.add(t, dir, fmt.Sprintf("sd%c", 'a'+i), fmt.Sprintf("OLD%d", i), 0x11)
	}
	last, keep := m.add(t, dir, "sde", "OLD4", 0x11), m.add(t, dir, "sdf", "KEEP", 0xee)
	kept, err := hints.ParseKept([]any{map[string]any{"serial": "KEEP"}})
	if err != nil {
		t.Fatal(err)
	}
	d, _, _ := fixture(t, nil)
	d.Machine = m
	var once sync.Once
	err = d.Erase(t.Context(), hints.Rules{Kept: kept}, func(agentapi.Progress) {
		once.Do(func() { // while the first four are erased
			m.mu.Lock()
			defer m.mu.Unlock()
			if err := os.Rename(last, filepath.Join(dir, "sdg")); err != nil {
				t.Error(err)
			}
			if err := os.Rename(keep, last); err != nil {
				t.Error(err)
			}
			m.disks = append(m.disks[:4:4], agentapi.Disk{Name: last, Size: size, Serial: "KEEP"})
		})
	})
	var other *OtherDiskError
	if !errors.As(err, &other) || other.Chosen.Serial != "OLD4" || !strings.Contains(err.Error(), last) || !strings.Contains(err.Error(), "does not count as erased") {
		t.Errorf("the step says %v", err)
	}
	if b, err := os.ReadFile(last); err != nil || !bytes.Equal(b, bytes.Repeat([]byte{0xee}, size)) {
		t.Errorf("the kept disk was written to (%v)", err)
	}
}

// A disk comes while others are erased: it would go to the next tenant as it is. One that the rules spare may come.
func TestADiskThatComesWhileOthersAreErased(t *testing.T) {
	kept, err := hints.ParseKept([]any{map[string]any{"serial": "LATE"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, rules := range []hints.Rules{{}, {Kept: kept}} {
		dir := t.TempDir()
		m := &renaming{}
		m.add(t, dir, "sda", "OLD", 0x11)
		d, _, _ := fixture(t, nil)
		d.Machine = m
		late := ""
		var once sync.Once
		err := d.Erase(t.Context(), rules, func(agentapi.Progress) {
			once.Do(func() {
				m.mu.Lock()
				defer m.mu.Unlock()
				late = m.add(t, dir, "sdb", "LATE", 0xee)
			})
		})
		if told := err != nil && strings.Contains(err.Error(), "disk "+late+` (serial "LATE"`); told == (rules.Kept != nil) || err != nil && !told {
			t.Errorf("kept: %v; the step says %v", rules.Kept != nil, err)
		}
	}
}

// Such a disk may be read-only. The step fails too, and names it beside one that it knew before.
func TestAReadOnlyDiskThatComesWhileOthersAreErased(t *testing.T) {
	for _, before := range [][]agentapi.UnfitDisk{nil, {{Disk: agentapi.Disk{Name: "/dev/old", Serial: "BEFORE"}, Why: "read-only"}}} {
		m := &renaming{unfit: before}
		m.add(t, t.TempDir(), "sda", "OLD", 0x11)
		d, _, _ := fixture(t, nil)
		d.Machine = m
		var once sync.Once
		err := d.Erase(t.Context(), hints.Rules{}, func(agentapi.Progress) {
			once.Do(func() {
				m.mu.Lock()
				defer m.mu.Unlock()
				late := agentapi.UnfitDisk{Disk: agentapi.Disk{Name: "/dev/late", Serial: "LATE"}, Why: "read-only"}
				m.unfit = append(slices.Clone(before), late)
			})
		})
		var unerased *hints.UnerasedError
		if !errors.As(err, &unerased) || strings.Count(err.Error(), "LATE") != 1 || strings.Count(err.Error(), "BEFORE") != len(before) {
			t.Errorf("%d before: the step says %v", len(before), err)
		}
	}
}

// A disk leaves while it is erased, and what it holds is not known. The step fails and names it.
func TestADiskThatLeavesIsNotErased(t *testing.T) {
	m := &renaming{}
	path := m.add(t, t.TempDir(), "sda", "GONE", 0x11)
	d, _, _ := fixture(t, nil)
	d.Machine = m
	err := d.Erase(t.Context(), hints.Rules{}, func(agentapi.Progress) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.disks = nil
	})
	if err == nil || !strings.Contains(err.Error(), path+", which was chosen with serial \"GONE\"") || !strings.Contains(err.Error(), "is gone") {
		t.Errorf("the step says %v", err)
	}
}

// Between the choice of a disk and its opening the name has passed to another disk. Nothing is written to that one.
func TestANameThatPassesBeforeTheDiskIsOpen(t *testing.T) {
	t.Parallel()
	img := bootable(t)
	from := netip.MustParseAddr("127.0.0.1")
	volume := agentapi.ExportVolumeArgs{Initiator: "iqn.2026-11.org.example:m", User: "m", Secret: "twelve-or-more"}
	for name, do := range map[string]func(d *Deployer, p agentapi.PrepareImageParams) error{
		"image": func(d *Deployer, p agentapi.PrepareImageParams) error {
			_, err := d.Prepare(t.Context(), p, ignore)
			return err
		},
		"metadata": func(d *Deployer, _ agentapi.PrepareImageParams) error {
			return d.EraseMetadata(t.Context(), hints.Rules{})
		},
		"erasure": func(d *Deployer, _ agentapi.PrepareImageParams) error {
			return d.Erase(t.Context(), hints.Rules{}, ignore)
		},
		"export": func(d *Deployer, _ agentapi.PrepareImageParams) error {
			_, err := d.Export(t.Context(), agentapi.StartISCSIParams{WipeDiskMetadata: true, Image: agentapi.ImageInfo{MinDiskBytes: 1}}, from)
			return err
		},
		"volume": func(d *Deployer, _ agentapi.PrepareImageParams) error {
			_, err := d.ExportVolume(t.Context(), hints.Rules{MinBytes: 1}, "x", volume, from)
			return err
		},
	} {
		for what, change := range map[string]func(*agentapi.Disk){
			"serial": func(o *agentapi.Disk) { o.Serial = "OTHER" }, "WWN": func(o *agentapi.Disk) { o.WWN = "0x5000c500a1b2c3d5" },
			"size": func(o *agentapi.Disk) { o.Size += 512 }, "name": func(o *agentapi.Disk) { o.Name += "x" },
		} {
			d, p, path := fixture(t, img)
			chosen := agentapi.Disk{Name: path, Size: size, Serial: "CHOSEN", WWN: "0x5000c500a1b2c3d4"}
			now := chosen
			change(&now)
			out := &plug{}
			d.Target, d.Machine = out, &renaming{disks: []agentapi.Disk{chosen}, reset: []agentapi.Disk{now}}
			var other *OtherDiskError
			if err := do(d, p); !errors.As(err, &other) || other.Chosen != chosen || out.out != "" {
				t.Errorf("%s, another %s: %v; exported: %q", name, what, err, out.out)
			}
			if b, err := os.ReadFile(path); err != nil || !bytes.Equal(b, before) {
				t.Errorf("%s, another %s: the disk was written to (%v)", name, what, err)
			}
		}
	}
}

// The name of the written disk has passed to another one before the boot entry is made, or before rackd has ended its write.
func TestTheNameOfTheWrittenDiskPasses(t *testing.T) {
	d, p, path := fixture(t, bootable(t))
	m := &renaming{disks: []agentapi.Disk{{Name: path, Size: size, Serial: "WRITTEN"}}}
	d.Machine = m
	if err := os.WriteFile(filepath.Join(d.EFIVars, "BootOrder-8be4df61-93ca-11d2-aa0d-00e098032b8c"), []byte{7, 0, 0, 0}, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Prepare(t.Context(), p, ignore); err != nil {
		t.Fatal(err)
	}
	m.disks[0].Serial = "OTHER"
	var other *OtherDiskError
	if text, err := d.InstallBootEntry(t.Context(), "", nil, efiboot.First, false); !errors.As(err, &other) || other.Chosen.Serial != "WRITTEN" {
		t.Errorf("boot entry: %q, %v", text, err)
	}
	d.Target = &plug{}
	from := netip.MustParseAddr("127.0.0.1")
	for _, end := range []func(id string) error{
		func(id string) error {
			_, err := d.Finish(t.Context(), agentapi.FinishISCSIParams{Disk: id})
			return err
		},
		func(id string) error { return d.StopExport(t.Context(), id) },
	} {
		m.disks[0].Serial = "WRITTEN"
		got, err := d.Export(t.Context(), agentapi.StartISCSIParams{Image: agentapi.ImageInfo{MinDiskBytes: 1}}, from)
		if err != nil {
			t.Fatal(err)
		}
		m.disks[0].Serial = "OTHER"
		before := digest(t, path, 0, 0)
		if err := end(got.Disk); !errors.As(err, &other) || digest(t, path, 0, 0) != before {
			t.Errorf("the end of a write by rackd: %v, or the other disk was written to", err)
		}
	}
}
