package direct

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/instancefiles"
	"github.com/ironyard/ironyard/rackd/driver/volume"
)

// refusedFields are those of instance_info that ask for what no deploy to a disk does, with the reason. Fields with which clients
// only say what they have chosen (local_gb, vcpus, memory_mb, display_name) are kept and not read, as in Ironic.
var refusedFields = map[string]string{
	instancefiles.ISO: forRamdisk,
	"ks_template":     "it is for the deploy interface anaconda",
	"ks_cfg":          "it is for the deploy interface anaconda",
	"stage2":          "it is for the deploy interface anaconda",
}

// forRamdisk is why no other deploy interface takes the image of a CD.
const forRamdisk = "it is for the deploy interface ramdisk, which writes no disk"

// refuseISO refuses the image of a CD, perhaps of an instance before, where nothing else of refusedFields is.
func refuseISO(n *node.Document) error {
	if !asksFor(n.InstanceString(instancefiles.ISO)) {
		return nil
	}
	return fmt.Errorf("node %s: instance_info has %s: %s: remove it: %w", n.Label(), instancefiles.ISO, forRamdisk, driver.ErrInvalid)
}

// unmet refuses what the instance asks for and would not get.
func unmet(n *node.Document) error {
	var wrong []string
	for field, why := range refusedFields {
		if asksFor(n.InstanceString(field)) {
			wrong = append(wrong, fmt.Sprintf("instance_info has %s: %s", field, why))
		}
	}
	switch {
	case volume.Boots(n):
		wrong = append(wrong, unmetByVolume(n)...)
	case !isPartition(n):
		wrong = append(wrong, unmetByDisk(n)...)
	}
	if len(wrong) == 0 {
		return nil
	}
	slices.Sort(wrong)
	return fmt.Errorf("node %s: %s: %w", n.Label(), strings.Join(wrong, "; "), driver.ErrInvalid)
}

// unmetByDisk is what the instance asks for and would not get of an image that holds a whole disk.
func unmetByDisk(n *node.Document) (wrong []string) {
	for _, field := range layoutFields {
		if asksFor(n.InstanceString(field)) {
			wrong = append(wrong, fmt.Sprintf("instance_info has %s: Cannot deploy whole disk image with swap or ephemeral size set. A partition image (image_type partition) has room for them", field))
		}
	}
	for _, field := range []string{"kernel", "ramdisk"} {
		if n.InstanceString(field) != "" {
			wrong = append(wrong, fmt.Sprintf("instance_info has %s, and image_type says that the image holds a whole disk: remove one of the two", field))
		}
	}
	if l := n.InstanceCapability(capDiskLabel); l != "" {
		wrong = append(wrong, fmt.Sprintf("the capability disk_label is %q: a whole-disk image brings its own partition table", l))
	}
	return wrong
}

// unmetByVolume is what the instance asks for and would not get of a volume.
func unmetByVolume(n *node.Document) (wrong []string) {
	const why = "the instance boots from a volume, which has its own partitions and kernel, and rackd writes nothing to it"
	for _, field := range layoutFields {
		if asksFor(n.InstanceString(field)) {
			wrong = append(wrong, fmt.Sprintf("instance_info has %s: %s", field, why))
		}
	}
	for _, field := range []string{instancefiles.Kernel, instancefiles.Ramdisk, instancefiles.Arguments} {
		if n.InstanceString(field) != "" {
			wrong = append(wrong, fmt.Sprintf("instance_info has %s: %s", field, why))
		}
	}
	if l := n.InstanceCapability(capDiskLabel); l != "" {
		wrong = append(wrong, fmt.Sprintf("the capability disk_label is %q: %s", l, why))
	}
	return wrong
}

// asksFor reports whether a field's text asks for anything. Clients send 0 and False too.
func asksFor(text string) bool {
	if f, err := strconv.ParseFloat(text, 64); err == nil {
		return f != 0
	}
	return text != "" && !strings.EqualFold(text, "false") && !strings.EqualFold(text, "none")
}
