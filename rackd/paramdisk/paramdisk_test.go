package paramdisk

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// foreign runs a foreign program. Machines without it skip the test, unless the virtual rack's tests are asked for.
func foreign(t *testing.T, name string, args ...string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		if os.Getenv("IRONYARD_E2E") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	out, err := exec.CommandContext(t.Context(), path, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

func written(t *testing.T, params []string) string {
	t.Helper()
	image, err := Image(params)
	if err != nil || len(image) != 1440<<10 {
		t.Fatalf("an image of %d bytes, %v", len(image), err)
	}
	path := filepath.Join(t.TempDir(), "parameters.img")
	if err := os.WriteFile(path, image, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

var some = []string{"ipa-api-url=https://192.0.2.1:8443/b/x", "ipa-debug=1"}

// mtools read the file under its name, byte for byte, of each size: none that fills a cluster, one, and the most.
func TestMtoolsReadTheFile(t *testing.T) {
	for name, params := range map[string][]string{"a few": some, "a cluster": {strings.Repeat("x", sector-1)}, "one more": {strings.Repeat("x", sector)}, "the most": {strings.Repeat("x", Max-1)}} {
		path := written(t, params)
		if got, want := foreign(t, "mtype", "-i", path, "::parameters.txt"), strings.Join(params, "\n")+"\n"; got != want {
			t.Errorf("%s: mtype reads %d bytes (%.80q), want %d", name, len(got), got, len(want))
		}
		if list := foreign(t, "mdir", "-i", path, "::"); !strings.Contains(list, "Volume in drive : is ir-vfd-dev") || !strings.Contains(list, " parameters.txt") {
			t.Errorf("%s: mdir says\n%s", name, list)
		}
	}
}

// fsck finds nothing to mend. It counts the label as a file.
func TestFsckFindsNothing(t *testing.T) {
	if out := foreign(t, "fsck.fat", "-n", "-v", written(t, some)); strings.Contains(out, "Dirty") || !strings.Contains(out, "2 files, 1/2847 clusters") {
		t.Errorf("fsck.fat says\n%s", out)
	}
}

// The programs by which a ramdisk knows a volume find the label.
func TestTheLabelIsFound(t *testing.T) {
	path := written(t, some)
	if out := foreign(t, "blkid", "-p", "-o", "value", "-s", "LABEL", path); strings.TrimSpace(out) != Label {
		t.Errorf("blkid: label %q", out)
	}
	if out := foreign(t, "busybox", "blkid", path); !strings.Contains(out, `LABEL="ir-vfd-dev"`) || !strings.Contains(out, `TYPE="vfat"`) {
		t.Errorf("busybox blkid: %q", out)
	}
}

// The label is in the boot sector, too, where the agent reads it.
func TestTheLabelIsInTheBootSector(t *testing.T) {
	if out := foreign(t, "minfo", "-i", written(t, some), "::"); !strings.Contains(out, `disk label="ir-vfd-dev "`) {
		t.Errorf("minfo says\n%s", out)
	}
}

func TestTooLarge(t *testing.T) {
	if _, err := Image([]string{strings.Repeat("x", Max)}); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
}
