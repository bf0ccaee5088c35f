package deploy

import (
	"errors"
	"net/netip"
	"os"
	"testing"

	"github.com/ironyard/ironyard/agent/image"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

// What rackd writes by iSCSI may be cut off as well.
func TestAnImageByISCSIThatWasCutOffIsRefused(t *testing.T) {
	t.Parallel()
	whole := partitioned(t, "label: gpt\nstart=2048, size=4MiB\n")
	for cut, refused := range map[int]bool{len(whole): false, 5 << 20: false, 5<<20 - 512: true} {
		d, _, path := fixture(t, nil)
		d.Target = &plug{}
		got, err := d.Export(t.Context(), agentapi.StartISCSIParams{
			WipeDiskMetadata: true, Image: agentapi.ImageInfo{MinDiskBytes: 1}, ImageBytes: int64(cut),
		}, netip.MustParseAddr("10.0.0.1"))
		if err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(whole[:cut]); err != nil || f.Close() != nil {
			t.Fatal(err)
		}
		_, err = d.Finish(t.Context(), agentapi.FinishISCSIParams{Disk: got.Disk, ImageBytes: int64(cut)})
		if _, is := errors.AsType[*image.FormatError](err); is != refused || err != nil && !is {
			t.Errorf("%d of %d bytes: %v", cut, len(whole), err)
		}
	}
}
