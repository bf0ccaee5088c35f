package dispatch

import (
	"maps"
	"strings"

	"github.com/google/uuid"

	"github.com/ironyard/ironyard/central/store"
)

// wholeDisk is the type of an image that holds a whole disk, in instance_info.
const wholeDisk = "whole-disk"

// nameImageType writes into a node's instance_info that its image holds a whole disk, where
// that can be told from how the request describes the image: Ironic's clients read it there
// from the beginning of a deploy or an adoption. Images that only an image service can describe, those that come with
// a kernel of their own, and paths stay as they are.
func nameImageType(n *store.Node) {
	source, _ := n.InstanceInfo["image_source"].(string)
	if source == "" || n.InstanceInfo["image_type"] != nil || n.InstanceInfo["kernel"] != nil || n.InstanceInfo["ramdisk"] != nil {
		return
	}
	_, err := uuid.Parse(source)
	if err == nil || strings.HasPrefix(source, "glance://") || strings.HasSuffix(source, "/") {
		return
	}
	info := maps.Clone(n.InstanceInfo)
	info["image_type"] = wholeDisk
	n.InstanceInfo = info
}
