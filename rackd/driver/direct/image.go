package direct

import (
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/hints"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

const fieldMinDisk = "ironyard_min_disk_bytes"

// image is what instance_info says of the image.
type image struct {
	source      driver.ImageSource
	format      string // raw or qcow2
	compression string // "", gzip, zstd
	root        map[string]any
	skip        any // hints for the disks that are never written to
	minDisk     int64
	// partitions is nil where the image holds a whole disk.
	partitions *agentapi.Partitions
}

// digestBits is the length of a digest in hex digits, by algorithm.
var digestBits = map[string]int{"sha256": 64, "sha512": 128}

var hexDigest = regexp.MustCompile(`^[0-9a-fA-F]+$`)

// imageOf reads the image's fields; an error wraps driver.ErrInvalid and names
// everything that is missing or wrong.
func imageOf(n *node.Document) (image, error) {
	var wrong []string
	bad := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	i := image{format: n.InstanceString("image_disk_format"), compression: n.InstanceString("image_compression")}
	i.source.URL = n.InstanceString("image_source")
	name := ""
	if u, err := url.Parse(i.source.URL); i.source.URL == "" {
		bad("instance_info has no image_source")
	} else if err != nil || (u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "file") || u.Path == "" {
		bad("image_source must be an http, https or file URL of an image file")
	} else {
		name = strings.ToLower(path.Base(u.Path))
	}
	if err := i.checksum(n); err != "" {
		wrong = append(wrong, err)
	}
	i.guess(name)
	if i.format != "raw" && i.format != "qcow2" {
		bad("image_disk_format is %q: give raw or qcow2", i.format)
	}
	if i.compression != "" && i.compression != "gzip" && i.compression != "zstd" {
		bad("image_compression is %q: give gzip or zstd", i.compression)
	}
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

// checksum reads the digest: image_os_hash_algo with image_os_hash_value, or
// image_checksum, whose length tells the algorithm.
func (i *image) checksum(n *node.Document) (wrong string) {
	algo, value := strings.ToLower(n.InstanceString("image_os_hash_algo")), n.InstanceString("image_os_hash_value")
	short := n.InstanceString("image_checksum")
	switch {
	case value != "" && algo == "":
		return "instance_info has image_os_hash_value without image_os_hash_algo"
	case value == "" && short == "":
		return "instance_info has no image_checksum (or image_os_hash_algo and image_os_hash_value)"
	case value == "":
		value = short
		for a, digits := range digestBits {
			if len(value) == digits {
				algo = a
			}
		}
		if algo == "" || len(value) != digestBits[algo] {
			return fmt.Sprintf("image_checksum has %d characters: give a SHA-256 (64) or SHA-512 (128) in hex; MD5 and checksum files are not accepted", len(value))
		}
	}
	digits, known := digestBits[algo]
	if !known {
		return fmt.Sprintf("image_os_hash_algo is %q: give sha256 or sha512", algo)
	}
	if len(value) != digits || !hexDigest.MatchString(value) {
		return fmt.Sprintf("the %s of the image must be %d hex digits", algo, digits)
	}
	i.source.HashAlgo, i.source.HashValue = algo, strings.ToLower(value)
	return ""
}

// guess fills in what the file's name tells.
func (i *image) guess(name string) {
	for suffix, c := range map[string]string{".gz": "gzip", ".zst": "zstd"} {
		if strings.HasSuffix(name, suffix) {
			name = strings.TrimSuffix(name, suffix)
			if i.compression == "" {
				i.compression = c
			}
		}
	}
	switch {
	case i.compression == "none":
		i.compression = ""
	case i.compression == "gz":
		i.compression = "gzip"
	case i.compression == "zst":
		i.compression = "zstd"
	}
	if i.format == "" {
		i.format = "raw"
		if strings.HasSuffix(name, ".qcow2") {
			i.format = "qcow2"
		}
	}
}

// disk reads the root device hints, the disks that are never written to and the smallest disk.
func (i *image) disk(n *node.Document) (wrong string) {
	for _, from := range []map[string]any{n.InstanceInfo, n.Properties} {
		root := from["root_device"]
		if text, is := root.(string); is && text != "" {
			if json.Unmarshal([]byte(text), &root) != nil {
				return "root_device must be an object of hints"
			}
		}
		switch h := root.(type) {
		case nil:
			continue
		case string:
			continue
		case map[string]any:
			i.root = h
		default:
			return "root_device must be an object of hints"
		}
		if len(i.root) > 0 {
			break
		}
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

// params are what the agent is told.
func (i image) params(n *node.Document, known []agentapi.KnownDisk, servedAt []string, configDrive string) agentapi.PrepareImageParams {
	kind := agentapi.ImageWholeDisk
	if i.partitions != nil {
		kind = agentapi.ImagePartition
	}
	return agentapi.PrepareImageParams{ConfigDrive: configDrive, ImageInfo: agentapi.ImageInfo{
		ID: i.source.HashValue, URLs: servedAt, HashAlgo: i.source.HashAlgo, HashValue: i.source.HashValue,
		DiskFormat: i.format, Compression: i.compression, ImageType: kind, BootMode: n.BootMode(), NodeUUID: n.UUID,
		RootDeviceHints: i.root, SkipBlockDevices: i.skip, MinDiskBytes: i.minDisk, KnownDisks: known, Partitions: i.partitions,
	}}
}
