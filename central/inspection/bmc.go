package inspection

import (
	"maps"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/protocol/work"
)

// outOfBand reports whether the node's BMC has told what was found: no ramdisk has run.
func (s *Subject) outOfBand() bool { return s.Source == work.FromBMC }

// toldByBMC sets the properties that an inspection by the BMC sets whichever hooks are chosen:
// the size of memory and of the disk, and the capabilities that a vendor's driver has found. Where an
// operator has said no other, it sets the boot mode. It fails where the size of the memory is told neither by the BMC nor by an operator.
func toldByBMC(s *Subject) error {
	if err := memory(nil, s); err != nil {
		return err
	}
	if s.Node.Properties["memory_mb"] == nil {
		return failed("Failed to discover the following properties: memory_mb on node %s", s.Node.UUID)
	}
	told, _ := s.Plugin["capabilities"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(told)) {
		if value, is := told[name].(string); is {
			if err := s.capability(name, value); err != nil {
				return err
			}
		}
	}
	size, _ := number(s.Plugin["local_gb"])
	s.setProperty("local_gb", int64(size))
	old, _ := s.Node.Properties["capabilities"].(string)
	if strings.Contains(","+old, ",boot_mode:") {
		return nil
	}
	return bootMode(nil, s)
}
