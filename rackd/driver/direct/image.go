package direct

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/hints"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/imagefields"
)

const fieldMinDisk = "ironyard_min_disk_bytes"

// image is what instance_info says of the image.
type image struct {
	source driver.ImageSource
	root   map[string]any
	// rootByInstance: root is what the instance asks for.
	rootByInstance bool
	skip           any // hints for the disks that are never written to
	minDisk        int64
	// partitions is nil where the image holds a whole disk.
	partitions *agentapi.Partitions
}

// imageOf reads the image's fields; an error wraps driver.ErrInvalid and names
// everything that is missing or wrong.
func imageOf(n *node.Document) (image, error) {
	var i image
	var wrong []string
	bad := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	i.source, wrong = imagefields.Source(n)
	if kind := n.InstanceString("image_type"); kind != "" && kind != agentapi.ImageWholeDisk && kind != "whole-disk-image" && kind != agentapi.ImagePartition {
		bad("image_type is %q: give whole-disk or partition", kind)
	}
	if isPartition(n) {
		var more []string
		i.partitions, more = partitionsOf(n)
		wrong = append(wrong, more...)
	}
	if err := i.disk(n); err != "" {
		wrong = append(wrong, err)
	}
	if len(wrong) > 0 {
		return image{}, fmt.Errorf("node %s: %s: %w", n.Label(), strings.Join(wrong, "; "), driver.ErrInvalid)
	}
	return i, nil
}

// disk reads the root device hints, the disks that are never written to and the smallest disk.
func (i *image) disk(n *node.Document) (wrong string) {
	var err error
	if i.root, i.rootByInstance, err = hints.RootDevice(n.InstanceInfo, n.Properties); err != nil {
		return err.Error()
	}
	if _, err := hints.Parse(i.root); err != nil {
		return err.Error()
	}
	i.skip = n.Properties["skip_block_devices"]
	if _, err := hints.ParseKept(i.skip); err != nil {
		return "properties " + err.Error()
	}
	if text := n.DriverString(fieldMinDisk); text != "" {
		// JSON numbers arrive as floating point: "6.7108864e+07".
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || !(f >= 1 && f < math.MaxInt64/2) {
			return fmt.Sprintf("driver_info %s is %q: give a number of bytes", fieldMinDisk, text)
		}
		i.minDisk = int64(f)
	}
	return ""
}

// declared is the image as far as the fields tell it.
func (i image) declared() driver.DiskImage {
	d := driver.DiskImage{HashAlgo: i.source.HashAlgo, HashValue: i.source.HashValue, Format: i.source.Format}
	if i.source.Compression != driver.NotCompressed {
		d.Compression = i.source.Compression
	}
	return d
}

// params are what the agent is told.
func (i image) params(n *node.Document, known []agentapi.KnownDisk, served driver.DiskImage, configDrive string) agentapi.PrepareImageParams {
	kind := agentapi.ImageWholeDisk
	if i.partitions != nil {
		kind = agentapi.ImagePartition
	}
	return agentapi.PrepareImageParams{ConfigDrive: configDrive, ImageInfo: agentapi.ImageInfo{
		ID: served.HashValue, URLs: served.URLs, HashAlgo: served.HashAlgo, HashValue: served.HashValue,
		DiskFormat: served.Format, Compression: served.Compression, ImageType: kind, BootMode: n.BootMode(), NodeUUID: n.UUID,
		RootDeviceHints: i.root, RootByInstance: i.rootByInstance, SkipBlockDevices: i.skip, MinDiskBytes: i.minDisk, KnownDisks: known, Partitions: i.partitions,
	}}
}
