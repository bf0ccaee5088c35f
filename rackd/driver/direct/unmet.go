package direct

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// refusedFields are those of instance_info that ask for what a deploy of a whole-disk image does not do, with the reason.
// Fields with which clients only say what they have chosen (root_gb, local_gb, vcpus, memory_mb, display_name) are kept
// and read by nobody, as in Ironic.
var refusedFields = map[string]string{
	"kernel":           "partition images are not supported: give a whole-disk image, and remove kernel and ramdisk",
	"ramdisk":          "partition images are not supported: give a whole-disk image, and remove kernel and ramdisk",
	"boot_iso":         "it is for the deploy interface ramdisk, which writes no disk",
	"swap_mb":          "the disk gets only the partitions of the image",
	"ephemeral_gb":     "the disk gets only the partitions of the image",
	"ephemeral_format": "the disk gets only the partitions of the image",
	"ks_template":      "it is for the deploy interface anaconda, which is not supported",
	"ks_cfg":           "it is for the deploy interface anaconda, which is not supported",
	"stage2":           "it is for the deploy interface anaconda, which is not supported",
}

// unmet refuses what the instance asks for and would not get.
func unmet(n *node.Document) error {
	var wrong []string
	for field, why := range refusedFields {
		if asksFor(n.InstanceString(field)) {
			wrong = append(wrong, fmt.Sprintf("instance_info has %s: %s", field, why))
		}
	}
	if asksFor(n.InstanceString("preserve_ephemeral")) {
		wrong = append(wrong, "instance_info has preserve_ephemeral: the whole disk is written")
	}
	if l := n.InstanceCapability("disk_label"); l != "" {
		wrong = append(wrong, fmt.Sprintf("the capability disk_label is %q: a whole-disk image brings its own partition table", l))
	}
	if len(wrong) == 0 {
		return nil
	}
	slices.Sort(wrong)
	return fmt.Errorf("node %s: %s: %w", n.Label(), strings.Join(wrong, "; "), driver.ErrInvalid)
}

// asksFor reports whether a field's text asks for anything. Clients send 0 and False too.
func asksFor(text string) bool {
	if f, err := strconv.ParseFloat(text, 64); err == nil {
		return f != 0
	}
	return text != "" && !strings.EqualFold(text, "false") && !strings.EqualFold(text, "none")
}
