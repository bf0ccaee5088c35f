package inspection

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/hints"
)

// ramdiskError fails an inspection whose ramdisk says that it failed.
func ramdiskError(_ *Processor, s *Subject) error {
	if v := s.Plugin["error"]; v != nil && v != "" {
		return failed("The ramdisk reported an error: %.1000s", Text(v))
	}
	return nil
}

// part is an object within the inventory, empty when there is none.
func (s *Subject) part(name string) map[string]any {
	m, _ := s.Inventory[name].(map[string]any)
	return m
}

func architecture(_ *Processor, s *Subject) error {
	arch, _ := s.part("cpu")["architecture"].(string)
	if arch == "" && s.outOfBand() {
		return nil // few BMCs leave it out, and what an operator has set holds
	}
	if arch == "" {
		return failed("Inventory of node %s is not valid: it does not say the CPU's architecture", s.Node.UUID)
	}
	s.setProperty("cpu_arch", arch)
	return nil
}

func cpus(_ *Processor, s *Subject) error {
	if n, ok := number(s.part("cpu")["count"]); ok && n > 0 {
		s.setProperty("cpus", int64(n))
	}
	return nil
}

func memory(_ *Processor, s *Subject) error {
	if n, ok := number(s.part("memory")["physical_mb"]); ok && n > 0 {
		s.setProperty("memory_mb", int64(n))
	}
	return nil
}

func bootMode(_ *Processor, s *Subject) error {
	mode, _ := s.part("boot")["current_boot_mode"].(string)
	if mode != "uefi" && mode != "bios" {
		return nil
	}
	return s.capability("boot_mode", mode)
}

// capabilityOf says what a CPU's flag is called among capabilities.
var capabilityOf = map[string]string{"vmx": "cpu_vt", "svm": "cpu_vt", "aes": "cpu_aes", "pse": "cpu_hugepages",
	"pdpe1gb": "cpu_hugepages_1g", "smx": "cpu_txt"}

func cpuCapabilities(_ *Processor, s *Subject) error {
	flags, _ := s.part("cpu")["flags"].([]any)
	for _, v := range flags {
		flag, _ := v.(string)
		if name := capabilityOf[flag]; name != "" {
			if err := s.capability(name, "true"); err != nil {
				return err
			}
		}
	}
	return nil
}

// rootDevice finds the disk that an image would be written to, and its size: the one that the
// node's hints name, else the one that the ramdisk says it would take.
func rootDevice(_ *Processor, s *Subject) error {
	raw, err := json.Marshal(s.Inventory["disks"])
	if err != nil {
		return err
	}
	var disks []agentapi.Disk
	if err := json.Unmarshal(raw, &disks); err != nil {
		return fmt.Errorf("the disks that were found cannot be read: %w", err)
	}
	kept, err := hints.ParseKept(s.Node.Properties["skip_block_devices"])
	if err != nil {
		return failed("No root device can be chosen for node %s: %v", s.Node.UUID, err)
	}
	disks = kept.Others(disks)
	wanted, byInstance, err := hints.RootDevice(s.Node.InstanceInfo, s.Node.Properties)
	if err != nil {
		return failed("No disks could be found using the root device hints of node %s: %v", s.Node.UUID, err)
	}
	parsed, err := hints.Parse(wanted)
	if err != nil {
		return failed("No disks could be found using the root device hints of node %s, they are not valid: %v", s.Node.UUID, err)
	}
	parsed.ByInstance = byInstance
	least := int64(hints.DefaultMinBytes)
	if len(wanted) > 0 {
		least = 0
	}
	chosen, _ := s.Plugin["root_disk"].(map[string]any)
	bytes, said := number(chosen["size"])
	if len(wanted) > 0 || !said {
		disk, err := parsed.Choose(disks, least)
		switch {
		case err != nil && len(wanted) > 0:
			return failed("No disks satisfied root device hints for node %s", s.Node.UUID)
		case err == nil:
			s.Plugin["root_disk"] = asObject(disk)
			bytes = float64(disk.Size)
		}
	}
	size := max(int64(bytes)>>30-1, 0) // a partition table needs some room
	s.Plugin["local_gb"] = size
	s.setProperty("local_gb", size)
	return nil
}

// asObject is v as JSON has it.
func asObject(v any) map[string]any {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	dec := json.NewDecoder(strings.NewReader(string(raw)))
	dec.UseNumber()
	var m map[string]any
	if dec.Decode(&m) != nil {
		return nil
	}
	return m
}
