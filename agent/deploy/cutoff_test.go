package deploy

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// A raw image that was cut off before its checksum was computed has the right checksum. Its table tells that the end is lacking.
func TestARawImageThatWasCutOffIsRefused(t *testing.T) {
	t.Parallel()
	whole := partitioned(t, "label: gpt\nstart=2048, size=4MiB\n")
	for cut, refused := range map[int]bool{len(whole): false, 5 << 20: false, 5<<20 - 512: true} {
		d, p, path := fixture(t, whole[:cut])
		_, err := d.Prepare(t.Context(), p, ignore)
		if told := err != nil && strings.Contains(err.Error(), "cut off: its partition 1 ends at byte 5242880"); told != refused || err != nil && !told {
			t.Errorf("%d of %d bytes: %v", cut, len(whole), err)
		}
		if !refused {
			continue
		}
		if b, err := os.ReadFile(path); err != nil || bytes.Contains(b, []byte("EFI PART")) {
			t.Errorf("the disk may boot (%v)", err)
		}
	}
}
