package command

import (
	"github.com/ironyard/ironyard/central/api"
	"github.com/ironyard/ironyard/central/inspection"
)

// inspectionFlags say how inspections are processed.
type inspectionFlags struct {
	InspectionHooks               []string          `help:"Inspection hooks, in the order in which they run. Default: ramdisk-error, validate-interfaces, ports, architecture. Others: accelerators, boot-mode, cpu-capabilities, cpus, extra-hardware, local-link-connection, memory, parse-lldp, pci-devices, physical-network, raid-device, root-device." env:"CENTRAL_INSPECTION_HOOKS" placeholder:"HOOK,…" group:"Inspection"`
	InspectionAddPorts            string            `help:"Interfaces that get a port: the one that the ramdisk booted from (pxe), those with an address (active), all, or none (disabled)." enum:"pxe,active,all,disabled" default:"pxe" env:"CENTRAL_INSPECTION_ADD_PORTS" group:"Inspection"`
	InspectionKeepPorts           string            `help:"Ports that are kept: all, those whose interface was found (present), or those that this inspection would add (added)." enum:"all,present,added" default:"all" env:"CENTRAL_INSPECTION_KEEP_PORTS" group:"Inspection"`
	InspectionPhysicalNetwork     map[string]string `help:"Hook physical-network: name of the physical network for interfaces with an address in the given network. May be repeated." env:"CENTRAL_INSPECTION_PHYSICAL_NETWORKS" placeholder:"CIDR=NAME" group:"Inspection"`
	InspectionPCIAlias            map[string]string `help:"Hook pci-devices: capability that counts a device. May be repeated." env:"CENTRAL_INSPECTION_PCI_ALIASES" placeholder:"VENDOR:PRODUCT=NAME" group:"Inspection"`
	InspectionExtraHardwareStrict bool              `help:"Hook extra-hardware: ignore the data if any fact does not have four parts, and remove data that is not used." env:"CENTRAL_INSPECTION_EXTRA_HARDWARE_STRICT" group:"Inspection"`
	DiscoveryDriver               string            `help:"Enrol unknown machines as nodes with this driver when their ramdisks send inspection data. Anyone who reaches continue_inspection can create nodes in this way, without an account. Default: off." env:"CENTRAL_DISCOVERY_DRIVER" placeholder:"DRIVER" group:"Inspection"`
	DiscoveryLimit                int               `help:"Maximum number of nodes in the state enroll for discovery to add another. Beyond it ramdisks get 503 and may try again." default:"1000" env:"CENTRAL_DISCOVERY_LIMIT" placeholder:"N" group:"Inspection"`
}

func (f *inspectionFlags) processor() (*inspection.Processor, error) {
	return inspection.New(inspection.Settings{Hooks: f.InspectionHooks, AddPorts: f.InspectionAddPorts, KeepPorts: f.InspectionKeepPorts,
		PhysicalNetworks: f.InspectionPhysicalNetwork, PCIAliases: f.InspectionPCIAlias, ExtraHardwareStrict: f.InspectionExtraHardwareStrict})
}

func (f *inspectionFlags) discovery() api.Discovery {
	return api.Discovery{Driver: f.DiscoveryDriver, Most: f.DiscoveryLimit}
}
