package bootmedium

import (
	"strings"
	"testing"
)

// isoinfo, another reader than xorriso, finds the label, the boot entries, and the files under their names, byte for byte.
func TestIsoinfoReadsIt(t *testing.T) {
	path, kernel, ramdisk, _ := written(t)
	about := tool(t, "isoinfo", "-d", "-i", path)
	for _, want := range []string{"CD-ROM is in ISO 9660 format", "Volume id: config-2", "Rock Ridge signatures version 1 found", "Eltorito validation header:", "Bootid 88 (bootable)"} {
		if !strings.Contains(about, want) {
			t.Errorf("isoinfo says nothing of %q:\n%s", want, about)
		}
	}
	for name, want := range map[string][]byte{kernelPath: kernel, ramdiskPath: ramdisk, networkDataPath: []byte(network)} {
		if got := tool(t, "isoinfo", "-R", "-i", path, "-x", "/"+strings.TrimPrefix(name, "/")); got != string(want) {
			t.Errorf("%s: %d bytes of %d", name, len(got), len(want))
		}
	}
}
