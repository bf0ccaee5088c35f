package direct

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/imagefields"
	"github.com/ironyard/ironyard/rackd/driver/instancefiles"
	"github.com/ironyard/ironyard/rackd/driver/volume"
)

// Fields of instance_info that lay out the disk of a partition image, Ironic's.
const (
	fieldRootGB            = "root_gb"
	fieldSwapMB            = "swap_mb"
	fieldEphemeralGB       = "ephemeral_gb"
	fieldEphemeralFormat   = "ephemeral_format"
	fieldPreserveEphemeral = driver.FieldPreserveEphemeral
	capDiskLabel           = "disk_label"
)

// layoutFields are the fields that only partition images have a use for.
var layoutFields = []string{fieldSwapMB, fieldEphemeralGB, fieldEphemeralFormat, fieldPreserveEphemeral}

// defaultEphemeralFormat is Ironic's default_ephemeral_format.
const defaultEphemeralFormat = "ext4"

var ephemeralFormats = []string{"ext2", "ext3", "ext4", "xfs", "btrfs", "vfat"}

// isPartition reports whether the image holds a file system and no disk. As in Ironic image_type says so, else that the image has a
// kernel or a ramdisk of its own.
func isPartition(n *node.Document) bool {
	switch n.InstanceString("image_type") {
	case agentapi.ImagePartition:
		return true
	case "":
		return n.InstanceString("kernel") != "" || n.InstanceString("ramdisk") != ""
	}
	return false
}

// loadsKernel reports whether the instance's kernel and ramdisk come by the network at each start, and mount the root partition that a
// deploy has written, as Ironic had it.
func loadsKernel(n *node.Document) bool {
	return driver.NetbootAsked(n) && isPartition(n) && !volume.Boots(n)
}

// Ignored implements driver.InstanceIgnorer: nothing is written for a volume, and a partition image that boots from its disk has a kernel
// of its own there.
func (Interface) Ignored(n *node.Document) map[string]string {
	ignored := map[string]string{}
	switch {
	case volume.Boots(n):
		for _, field := range append(imagefields.InstanceFields(), "root_device") {
			ignored[field] = "the instance boots from a volume, and no image is written"
		}
	case isPartition(n) && !driver.NetbootAsked(n):
		for _, field := range []string{instancefiles.Kernel, instancefiles.Ramdisk, instancefiles.Arguments} {
			ignored[field] = "a partition image boots from its disk; the capability boot_option:netboot has it boot these"
		}
	}
	return ignored
}

// partitionsOf reads what a partition image's disk is to be, and names all that is wrong with it.
func partitionsOf(n *node.Document) (p *agentapi.Partitions, wrong []string) {
	invalid := func(param, format string, args ...any) {
		wrong = append(wrong, fmt.Sprintf("Cannot validate parameter for driver deploy. Invalid parameter %s. Reason: %s", param, fmt.Sprintf(format, args...)))
	}
	number := func(field string, most int64) int64 {
		text := n.InstanceString(field)
		if text == "" {
			return 0
		}
		// JSON numbers arrive as floating point.
		f, err := strconv.ParseFloat(text, 64)
		switch {
		case err != nil || f != math.Trunc(f):
			invalid(field, "%s is not an integer value.", text)
		case f < 0 || f > float64(most):
			invalid(field, "%s is no size: give 0 to %d", text, most)
		default:
			return int64(f)
		}
		return 0
	}
	const most = 1 << 20 // GiB, which no disk has
	if n.InstanceString(fieldRootGB) == "" {
		wrong = append(wrong, "Cannot validate driver deploy. Some parameters were missing in node's instance_info. Missing are: ['instance_info.root_gb']")
	}
	p = &agentapi.Partitions{RootMB: 1024 * number(fieldRootGB, most), SwapMB: number(fieldSwapMB, most), EphemeralMB: 1024 * number(fieldEphemeralGB, most),
		DiskLabel: n.InstanceCapability(capDiskLabel)}
	if len(wrong) == 0 && p.RootMB == 0 {
		invalid(fieldRootGB, "a partition image needs a root partition: give its size in GiB")
	}
	if p.EphemeralFormat = n.InstanceString(fieldEphemeralFormat); p.EphemeralFormat == "" && p.EphemeralMB > 0 {
		p.EphemeralFormat = defaultEphemeralFormat
	}
	if f := p.EphemeralFormat; f != "" && !slices.Contains(ephemeralFormats, f) {
		invalid(fieldEphemeralFormat, "%s is none of %s", f, strings.Join(ephemeralFormats, ", "))
	}
	var known bool
	if p.PreserveEphemeral, known = truth(n.InstanceString(fieldPreserveEphemeral)); !known {
		invalid(fieldPreserveEphemeral, "Unrecognized value '%s', acceptable values are: '0', '1', 'f', 'false', 'n', 'no', 'off', 'on', 't', 'true', 'y', 'yes'", n.InstanceString(fieldPreserveEphemeral))
	} else if p.PreserveEphemeral && p.EphemeralMB == 0 {
		invalid(fieldPreserveEphemeral, "there is no ephemeral partition to preserve: ephemeral_gb is 0")
	}
	switch p.DiskLabel {
	case "", "gpt":
	case "msdos":
		if n.BootMode() == "uefi" {
			wrong = append(wrong, "the capability disk_label is \"msdos\", and the boot mode is uefi: give gpt, or boot_mode bios")
		}
	default:
		wrong = append(wrong, fmt.Sprintf("the capability disk_label is %q: give gpt or msdos", p.DiskLabel))
	}
	return p, wrong
}

// truth reads a boolean as Ironic does; nothing is false.
func truth(text string) (is, known bool) {
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "1", "t", "true", "on", "y", "yes":
		return true, true
	case "", "0", "f", "false", "off", "n", "no":
		return false, true
	}
	return false, false
}
