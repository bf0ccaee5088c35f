package hints

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/protocol/agentapi"
)

// MissingError says that disks which the node's last inspection found are not there.
type MissingError struct {
	Missing []agentapi.KnownDisk
	Have    []agentapi.Disk
}

func (e *MissingError) Error() string {
	var gone []string
	for _, k := range e.Missing {
		gone = append(gone, fmt.Sprintf("serial %q, WWN %q, %d bytes", k.Serial, k.WWN, k.Size))
	}
	return fmt.Sprintf("%d of the disks that the last inspection found are missing (%s); there are %s; nothing is written: look at the disk, its cable and its controller, or inspect the node again if it was removed on purpose",
		len(e.Missing), strings.Join(gone, "; "), list(e.Have))
}

// FaultType names the error in the agent's API as ironic-python-agent does.
func (e *MissingError) FaultType() string { return "DeviceNotFound" }

// Missing returns a *MissingError for the known disks that are not among disks, else nil.
// A disk is known by its WWN, else by its serial number, else only by its size.
func Missing(known []agentapi.KnownDisk, disks []agentapi.Disk) error {
	free := slices.Clone(disks)
	var gone []agentapi.KnownDisk
	for _, k := range slices.SortedStableFunc(slices.Values(known), anonymousLast) {
		i := slices.IndexFunc(free, func(d agentapi.Disk) bool { return is(k, d.Known()) })
		if i < 0 {
			gone = append(gone, k)
			continue
		}
		free = slices.Delete(free, i, i+1)
	}
	if len(gone) == 0 {
		return nil
	}
	return &MissingError{Missing: gone, Have: disks}
}

// anonymousLast keeps a disk without a name from taking the place of one that has a name.
func anonymousLast(a, b agentapi.KnownDisk) int {
	rank := func(k agentapi.KnownDisk) int {
		if k.WWN == "" && k.Serial == "" {
			return 1
		}
		return 0
	}
	return rank(a) - rank(b)
}

func is(k, d agentapi.KnownDisk) bool {
	switch {
	case k.WWN != "" && d.WWN != "":
		return strings.EqualFold(k.WWN, d.WWN)
	case k.Serial != "" && d.Serial != "":
		return strings.EqualFold(k.Serial, d.Serial)
	}
	return k.Size == d.Size
}

// list names disks for people.
func list(disks []agentapi.Disk) string {
	if len(disks) == 0 {
		return "no disks at all"
	}
	var seen []string
	for _, d := range disks {
		kind := ""
		if d.Removable {
			kind = ", removable: used only where properties/root_device names it"
		}
		seen = append(seen, fmt.Sprintf("%s (%d bytes, model %q, serial %q%s)", d.Name, d.Size, d.Model, d.Serial, kind))
	}
	return strings.Join(seen, ", ")
}
