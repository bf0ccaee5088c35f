package deploy

import (
	"bytes"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/agent/efiboot"
	"github.com/ironyard/ironyard/agent/esp"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

// An image's grub-install has put a boot loader onto the disk, and its grub-mkconfig fails. The image's own configuration of GRUB would
// start the system all the same. So the loader is taken away again; the ephemeral partition stays for the next deploy.
func TestABootLoaderThatIsHalfInstalled(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("not run: the image's grub-install stands for that of a PC")
	}
	loader := "/boot/efi/EFI/BOOT/BOOT" + strings.ToUpper(esp.Suffix()) + ".EFI"
	fails := []string{"grub-mkconfig -o /boot/grub/grub.cfg", "exit status 3", "no such luck"}
	kernel, err := os.ReadFile("/proc/filesystems")
	if err != nil {
		t.Fatal(err)
	}
	failsByUEFI := fails
	if !slices.Contains(strings.Fields(string(kernel)), "vfat") {
		t.Log("this kernel mounts no FAT, so the image's grub-install is not run by UEFI")
		failsByUEFI = []string{"mounting /dev/ironyard-test-"}
	}
	for name, c := range map[string]struct {
		uefi    bool
		install string
		mib     int64
		says    []string
	}{
		"BIOS": {false, "printf 'code of a loader' >\"$2\"\n", 96, fails},
		"UEFI": {true, "mkdir -p /boot/efi/EFI/BOOT\necho loader >" + loader + "\n", 640, failsByUEFI},
	} {
		t.Run(name, func(t *testing.T) {
			img := withPrograms(t, map[string]string{"sh": "dash", "mkdir": "coreutils", "mkfs.ext4": "e2fsprogs"}, map[string]string{
				"/usr/sbin/grub-install": "#!/usr/sbin/sh\nset -e\n" + c.install, "/usr/sbin/grub-mkconfig": "#!/usr/sbin/sh\necho no such luck >&2\nexit 3\n"})
			parts := agentapi.Partitions{RootMB: 32, EphemeralMB: 16, EphemeralFormat: "ext4"}
			d, params, s := shownPartitions(t, img, c.mib, c.uefi, parts, nil)
			if _, err := d.Prepare(t.Context(), params, ignore); err != nil {
				t.Fatal(err)
			}
			at := s.l.places[forEphemeral]
			kept, table := digest(t, s.path, at.Start, at.Size), dumped(t, s.path)
			_, err := d.InstallBootEntry(t.Context(), "", nil, efiboot.First, false)
			for _, want := range c.says {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("it does not say %q: %v", want, err)
				}
			}
			s.free(t)
			code := make([]byte, bootCodeSize)
			if _, err := diskOf(t, s.path).ReadAt(code, 0); err != nil || len(bytes.Trim(code, "\x00")) != 0 {
				t.Errorf("the first sector has code: %.20q, %v", code, err)
			}
			if p, is := s.l.places[forESP]; is {
				if kind := blkid(s.path, p.Start, p.Size); kind != "" {
					t.Errorf("the EFI system partition still holds %s", kind)
				}
			}
			if now := dumped(t, s.path); now != table {
				t.Errorf("the partition table is no longer\n%s\nbut\n%s", table, now)
			}
			if digest(t, s.path, at.Start, at.Size) != kept {
				t.Error("the ephemeral partition was written to")
			}
			parts.PreserveEphemeral = true
			params.ImageInfo.Partitions = &parts
			if _, err := d.Prepare(t.Context(), params, ignore); err != nil {
				t.Errorf("a rebuild after it: %v", err)
			}
			if digest(t, s.path, at.Start, at.Size) != kept {
				t.Error("a rebuild after it has written to the ephemeral partition")
			}
		})
	}
}

// dumped is a disk's partition table as sfdisk shows it.
func dumped(t *testing.T, path string) string {
	t.Helper()
	dump, err := exec.Command("sfdisk", "--dump", path).CombinedOutput()
	if err != nil {
		t.Fatalf("sfdisk: %v: %s", err, dump)
	}
	return string(dump)
}
