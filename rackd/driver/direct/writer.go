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
	Source driver.ImageSource
	// Info says what the image is and which disk it is for; it has no URLs.
	Info agentapi.ImageInfo
}

// Writer brings an image onto the machine's disk in a way of its own.
type Writer interface {
	// WriteImage brings the write forward. It is the run of a step that may be re-attached, so the step's handle is its own.
	WriteImage(ctx context.Context, t *driver.Task, o Order) (agentapi.PrepareImageResult, driver.Outcome, error)
}

// By returns an interface whose images are written by w.
func (i Interface) By(w Writer) Interface { i.by = w; return i }

// Format returns format and compression of the node's image, as far as its fields or its name tell them.
func Format(n *node.Document) (format, compression string) {
	img, err := imageOf(n)
	if err != nil {
		return "", ""
	}
	return img.format, img.compression
}

// byWriter is writeImage of an interface that has a Writer.
func (i Interface) byWriter(ctx context.Context, t *driver.Task, img image) (driver.Outcome, error) {
	known, err := knownDisks(t)
	if err != nil {
		return driver.Outcome{}, err
	}
	written, out, err := i.by.WriteImage(ctx, t, Order{img.source, img.params(t.Node, known, nil, "").ImageInfo})
	if _, waits := out.Waiting(); err != nil || waits {
		return out, err
	}
	wrote(t, written)
	return out, nil
}

// wrote keeps what later steps read of a write that has ended.
func wrote(t *driver.Task, written agentapi.PrepareImageResult) {
	t.Facts[factRootDevice], t.Facts[factRootUUID] = written.RootDevice, written.RootUUID
	if written.Written.DoneBytes > 0 { // ironic-python-agent does not say, and may hold some of the image in memory
		t.Facts[factReadBack] = "true"
	}
	t.Record.Phase("write", fmt.Sprintf("%.0f MB at %.0f MB/s to %s", float64(written.Written.DoneBytes)/1e6, written.Written.MBPerSec, written.RootDevice))
}
