package inspection

import (
	"fmt"
	"slices"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/hints"
)

// raidDevice finds the root device of a node whose RAID was made since it was last inspected: the
// one disk that was not there then. Who knows the root device has said so, and is right.
func raidDevice(_ *Processor, s *Subject) error {
	if _, known := s.Node.Properties["root_device"]; known {
		return nil
	}
	found := s.serials()
	if len(found) == 0 {
		s.Log.Warn("no disk with a serial number was found, the root device stays unknown", "node", s.Node.UUID)
		return nil
	}
	if s.Serials == nil {
		return nil // there is nothing to compare with
	}
	old := map[string]bool{} // a machine may tell of any number of disks
	for _, serial := range s.Serials {
		old[serial] = true
	}
	fresh := slices.DeleteFunc(found, func(serial string) bool { return old[serial] })
	switch {
	case len(fresh) != 1:
		s.Log.Warn("the root device stays unknown: not exactly one disk is new since the last inspection", "node", s.Node.UUID, "new", len(fresh))
	case !isHint(fresh[0]):
		s.Log.Warn("the root device stays unknown: no hint can name the new disk's serial number", "node", s.Node.UUID, "serial", fmt.Sprintf("%.80s", fresh[0]))
	default:
		s.setProperty("root_device", map[string]any{"serial": fresh[0]})
	}
	return nil
}

// serials are the serial numbers of the disks that were found; nil: the inventory does not tell
// of disks, or not in a list of objects.
func (s *Subject) serials() []string {
	disks, told := s.Inventory["disks"].([]any)
	if !told {
		return nil
	}
	serials := []string{}
	for _, item := range disks {
		disk, readable := item.(map[string]any)
		if !readable {
			return nil
		}
		if serial, _ := disk["serial"].(string); serial != "" {
			serials = append(serials, serial)
		}
	}
	return serials
}

// isHint reports whether a serial number is a hint that names it and no other: one that reads as
// an expression ("s!= 7") would have images written to some other disk, one that does not match
// itself to none.
func isHint(serial string) bool {
	h, err := hints.Parse(map[string]any{"serial": serial})
	return err == nil && h.Match(agentapi.Disk{Serial: serial}) && !h.Match(agentapi.Disk{Serial: serial + "x"})
}
