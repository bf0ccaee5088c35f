package deploy

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"os"
	"testing"

	"github.com/ironyard/ironyard/protocol/agentapi"
)

// restless is a machine whose list of disks may not be told at the moment.
type restless struct {
	both
	err error
}

func (r *restless) Settled(_ context.Context, _ bool, check func([]agentapi.Disk, []agentapi.UnfitDisk) error) ([]agentapi.Disk, error) {
	return r.both, errors.Join(check(r.both, nil), r.err)
}

// Rackd has written the image, the agent cannot finish it, and rackd has it wiped: what has no config drive must not boot.
func TestAnImageThatCannotBeFinishedIsWiped(t *testing.T) {
	d, _, path := fixture(t, nil)
	d.Target = &plug{}
	m := &restless{both: both{{Name: path, Size: size}}}
	d.Machine = m
	got, err := d.Export(t.Context(), agentapi.StartISCSIParams{WipeDiskMetadata: true, Image: agentapi.ImageInfo{MinDiskBytes: 1}, ImageBytes: size}, netip.MustParseAddr("10.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(bootable(t)); err != nil || f.Close() != nil {
		t.Fatal(err)
	}
	m.err = errors.New("the list of this machine's disks still changes")
	if _, err := d.Finish(t.Context(), agentapi.FinishISCSIParams{Disk: got.Disk}); err == nil {
		t.Fatal("finished")
	}
	m.err = nil
	if err := d.StopExport(t.Context(), got.Disk); err != nil { // as rackd does after a refusal
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(b[:512], make([]byte, 512)) {
		t.Errorf("the agent says that the disk is wiped, and it boots as it was written (%v)", err)
	}
}
