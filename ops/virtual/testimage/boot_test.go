package testimage

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/filesystem/iso9660"

	"github.com/ironyard/ironyard/agent/configdrive"
	"github.com/ironyard/ironyard/agent/partition"
	"github.com/ironyard/ironyard/ops/virtual/machine"
)

// bootTimeout is many times what a boot takes on an idle host.
const bootTimeout = 5 * time.Minute

// Each firmware boots the image on a larger disk, as a deploy leaves it: once without
// and once with a config drive behind the image. Then the power button turns it off.
func TestBoots(t *testing.T) {
	if os.Getenv("IRONYARD_E2E") == "" {
		t.Skip("boots virtual machines for minutes; set IRONYARD_E2E=1")
	}
	whole := os.Getenv("IRONYARD_HARDWARE") != ""
	for _, c := range []struct {
		name     string
		firmware machine.Firmware
		arch     machine.Arch
		metadata string
		want     string
	}{
		{"uefi", machine.UEFI, machine.X8664, "", Marker + " hostname= uuid= root=/dev/vda"},
		{"bios", machine.BIOS, machine.X8664, "", Marker + " hostname= uuid= root=/dev/vda"},
		{"uefi with config drive", machine.UEFI, machine.X8664, `{"uuid":"6f0f5c1e","hostname":"web-0"}`, Marker + " hostname=web-0 uuid=6f0f5c1e root=/dev/vda"},
		{"bios with config drive", machine.BIOS, machine.X8664, `{"uuid":"6f0f5c1e","name":"web-1"}`, Marker + " hostname=web-1 uuid=6f0f5c1e root=/dev/vda"},
		{"arm64 with config drive", machine.UEFI, machine.AArch64, `{"uuid":"6f0f5c1e","hostname":"web-2"}`, Marker + " hostname=web-2 uuid=6f0f5c1e root=/dev/vda"},
	} {
		// The first two boot the same files, and arm64 is slow in emulation: make hardware does these.
		if (c.metadata == "" || c.arch == machine.AArch64) && !whole {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			images, steps := shared, []string{"IRONYARD-GRUB", Marker}
			if c.arch == machine.AArch64 { // without a boot loader
				images, steps = sharedARM64, steps[1:]
			}
			image := images(t)
			ctx, cancel := context.WithTimeout(t.Context(), bootTimeout)
			defer cancel()
			cfg := machine.Config{Name: "m", Dir: t.TempDir(), Firmware: c.firmware, Arch: c.arch, MemoryMiB: 512, DiskMiB: 256, DieWithParent: true}
			m, err := machine.Open(ctx, cfg)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := m.Stop(context.Background()); err != nil {
					t.Error(err)
				}
				if err := m.Close(); err != nil {
					t.Error(err)
				}
			})
			deploy(t, image.Raw.Path, m.DiskPath(), c.metadata)

			started := time.Now()
			if err := m.Start(ctx); err != nil {
				t.Fatal(err)
			}
			serial := m.Serial(0)
			for _, step := range steps {
				line, err := serial.Wait(ctx, regexp.MustCompile(step))
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("%5.1fs %s", time.Since(started).Seconds(), line)
				if step == Marker && line != c.want {
					t.Errorf("console says %q, want %q", line, c.want)
				}
			}
			if err := m.Shutdown(ctx); err != nil {
				t.Fatal(err)
			}
			// The instance's own word: otherwise any end of QEMU would do.
			if _, err := serial.Wait(ctx, regexp.MustCompile("^IRONYARD-INSTANCE-OFF$")); err != nil {
				t.Fatal(err)
			}
			waitOff(ctx, t, m)
			t.Logf("%5.1fs off", time.Since(started).Seconds())
		})
	}
}

func waitOff(ctx context.Context, t *testing.T, m *machine.Machine) {
	t.Helper()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for m.On() {
		select {
		case <-ctx.Done():
			t.Fatal("the power button did not turn the instance off")
		case <-poll.C:
		}
	}
}

// deploy does to a machine's disk what the agent does, with the agent's own code.
func deploy(t *testing.T, image, path, metadata string) {
	t.Helper()
	in, err := os.Open(image)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	disk := rawDisk{out}
	table, err := partition.Read(disk)
	if err != nil {
		t.Fatal(err)
	}
	if err := table.GrowToDisk(); err != nil {
		t.Fatal(err)
	}
	if metadata != "" {
		drive := makeConfigDrive(t, metadata)
		p, err := configdrive.Place(disk, table, int64(len(drive)))
		if err != nil {
			t.Fatal(err)
		}
		if err := configdrive.Write(disk, p, drive); err != nil {
			t.Fatal(err)
		}
	}
	if err := table.Write(); err != nil {
		t.Fatal(err)
	}
}

// rawDisk is a file as the agent's packages see a disk.
type rawDisk struct{ *os.File }

func (d rawDisk) SectorSize() int64 { return sector }

func (d rawDisk) Size() int64 {
	st, err := d.Stat()
	if err != nil {
		return 0
	}
	return st.Size()
}

// makeConfigDrive returns an ISO 9660 image labelled as cloud-init wants it.
func makeConfigDrive(t *testing.T, metadata string) []byte {
	t.Helper()
	tree := t.TempDir()
	dir := filepath.Join(tree, "openstack", "latest")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "meta_data.json"), []byte(metadata), 0o644); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "config.iso")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fs, err := iso9660.Create(file.New(f, false), 0, 0, 2048, tree)
	if err != nil {
		t.Fatal(err)
	}
	if err := fs.Finalize(iso9660.FinalizeOptions{RockRidge: true, VolumeIdentifier: configdrive.Label}); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
