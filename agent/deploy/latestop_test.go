package deploy

import (
	"bytes"
	"net/netip"
	"os"
	"testing"

	"github.com/ironyard/ironyard/protocol/agentapi"
)

// A disk that the agent has written itself since is no longer the one that a rackd has written.
func TestALateStopOfAnExportDoesNotWipeAnotherImage(t *testing.T) {
	d, p, path := fixture(t, bootable(t))
	d.Target = &plug{}
	out, err := d.Export(t.Context(), agentapi.StartISCSIParams{
		WipeDiskMetadata: true, Image: agentapi.ImageInfo{MinDiskBytes: 1}, ImageBytes: size,
	}, netip.MustParseAddr("10.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Prepare(t.Context(), p, ignore); err != nil {
		t.Fatal(err)
	}
	if err := d.StopExport(t.Context(), out.Disk); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil || bytes.Equal(b[:512], make([]byte, 512)) {
		t.Errorf("the image is wiped by the end of an export that was before it (%v)", err)
	}
}
