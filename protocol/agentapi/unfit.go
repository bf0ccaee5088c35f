package agentapi

import (
	"fmt"
	"strings"
)

// UnfitDisk is a disk that nothing can be written to.
type UnfitDisk struct {
	Disk
	Why string // "read-only"
}

// String names the disk for people.
func (u UnfitDisk) String() string {
	return fmt.Sprintf("%s (%d bytes, serial %q), which is %s", u.Name, u.Size, u.Serial, u.Why)
}

// List names disks for people.
func List(disks []UnfitDisk) string {
	names := make([]string, len(disks))
	for i, d := range disks {
		names[i] = d.String()
	}
	return strings.Join(names, ", ")
}
