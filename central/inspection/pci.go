package inspection

import (
	"fmt"
	"maps"
	"slices"
)

// pciDevice is a device that was found.
type pciDevice struct{ vendor, product, bus string }

// pci returns the PCI devices, from the plugin data or the inventory.
func (s *Subject) pci() []pciDevice {
	list, _ := s.Plugin["pci_devices"].([]any)
	if len(list) == 0 {
		list, _ = s.Inventory["pci_devices"].([]any)
	}
	var out []pciDevice
	for _, item := range list {
		m, _ := item.(map[string]any)
		var d pciDevice
		d.vendor, _ = m["vendor_id"].(string)
		d.product, _ = m["product_id"].(string)
		if d.bus, _ = m["bus"].(string); d.vendor != "" && d.product != "" {
			out = append(out, d)
		}
	}
	return out
}

// pciDevices counts the devices that the settings have a name for, as capabilities.
func pciDevices(p *Processor, s *Subject) error {
	counts := map[string]int{}
	for _, d := range s.pci() {
		if name := p.set.PCIAliases[d.vendor+":"+d.product]; name != "" {
			counts[name]++
		}
	}
	for _, name := range slices.Sorted(maps.Values(p.set.PCIAliases)) {
		value := ""
		if counts[name] > 0 {
			value = fmt.Sprint(counts[name])
		}
		if err := s.capability(name, value); err != nil {
			return err
		}
	}
	return nil
}

// accelerator is a device that computes.
type accelerator struct{ vendor, device, kind, info string }

// known are accelerators by their PCI identifiers (pci-ids.ucw.cz).
var known = []accelerator{
	{"10de", "1eb8", "GPU", "NVIDIA Corporation Tesla T4"},
	{"10de", "1df6", "GPU", "NVIDIA Corporation GV100GL [Tesla V100S PCIe 32GB]"},
	{"10de", "20f1", "GPU", "NVIDIA Corporation GA100 [A100 PCIe 40GB]"},
	{"10de", "20b5", "GPU", "NVIDIA Corporation GA100 [A100 PCIe 80GB]"},
	{"10de", "2331", "GPU", "NVIDIA Corporation GH100 [H100 PCIe]"},
}

// accelerators lists the accelerators in the node's properties. Without PCI devices at
// all nothing is known, and nothing changed.
func accelerators(_ *Processor, s *Subject) error {
	devices := s.pci()
	if len(devices) == 0 {
		return nil
	}
	found := []any{}
	for _, d := range devices {
		i := slices.IndexFunc(known, func(a accelerator) bool { return a.vendor == d.vendor && a.device == d.product })
		if i >= 0 {
			a := known[i]
			found = append(found, map[string]any{"vendor_id": a.vendor, "device_id": a.device, "type": a.kind, "device_info": a.info, "pci_address": d.bus})
		}
	}
	s.setProperty("accelerators", found)
	return nil
}
