package direct

import (
	"context"
	"fmt"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// Order is what a Writer writes.
type Order struct {
	// Prepare brings the image into the rack's cache, verified, and says what it is there. A Writer asks when it begins: by then
	// another rackd may run the work.
	Prepare func(context.Context) (driver.DiskImage, error)
	// Info says which disk the image is for, and what it is; it has no URLs.
	Info func(driver.DiskImage) agentapi.ImageInfo
}

// Writer brings an image onto the machine's disk in a way of its own.
type Writer interface {
	// CanWrite refuses an image that cannot be written in this way, with the reason. Empty fields are not known yet. A partition image
	// holds a file system and no disk.
	CanWrite(i driver.DiskImage, partition bool) error
	// Seeks reports whether a qcow2 file is read out of order here. If so, the rack's cache gives it without a compression around it.
	Seeks() bool
	// WriteImage brings the write forward. It is the run of a step that may be re-attached, so the step's handle is its own.
	WriteImage(ctx context.Context, t *driver.Task, o Order) (agentapi.PrepareImageResult, driver.Outcome, error)
}

// By returns an interface whose images are written by w.
func (i Interface) By(w Writer) Interface { i.by = w; return i }

// canWrite refuses an image that the Writer of the interface, if it has one, cannot write.
func (i Interface) canWrite(n *node.Document, img image, known driver.DiskImage) error {
	if i.by == nil {
		return nil
	}
	if err := i.by.CanWrite(known, img.partitions != nil); err != nil {
		return fmt.Errorf("node %s: %w: %w", n.Label(), err, driver.ErrInvalid)
	}
	return nil
}

// byWriter is writeImage of an interface that has a Writer.
func (i Interface) byWriter(ctx context.Context, t *driver.Task, img image) (driver.Outcome, error) {
	known, err := knownDisks(t)
	if err != nil {
		return driver.Outcome{}, err
	}
	written, out, err := i.by.WriteImage(ctx, t, Order{
		Prepare: func(ctx context.Context) (driver.DiskImage, error) { return i.prepare(ctx, t, img) },
		Info: func(served driver.DiskImage) agentapi.ImageInfo {
			served.URLs = nil
			info := img.params(t.Node, known, served, "").ImageInfo
			info.VolumesChanged = volumesChanged(t)
			return info
		},
	})
	if _, waits := out.Waiting(); err != nil || waits {
		return out, err
	}
	wrote(t, written)
	if img.partitions != nil {
		if err := i.partitionUUIDs(ctx, t, written); err != nil {
			return driver.Outcome{}, err
		}
	}
	return out, nil
}

// wrote keeps what later steps read of a write that has ended.
func wrote(t *driver.Task, written agentapi.PrepareImageResult) {
	t.Facts[factRootDevice], t.Facts[factRootUUID] = written.RootDevice, written.RootUUID
	if written.Written.DoneBytes > 0 { // ironic-python-agent does not say, and may hold some of the image in memory
		t.Facts[factReadBack] = "true"
	}
	if written.RootDevice == "" {
		return // who wrote it does not say
	}
	t.Record.Phase("write", fmt.Sprintf("%.0f MB at %.0f MB/s to %s", float64(written.Written.DoneBytes)/1e6, written.Written.MBPerSec, written.RootDevice))
}
