package command

import (
	"github.com/ironyard/ironyard/central/api"
	"github.com/ironyard/ironyard/central/inspection"
)

// inspectionFlags say how inspections are processed.
type inspectionFlags struct {
	InspectionHooks               []string          `help:"What is done with the data of an inspection, in this order. Default: ramdisk-error, validate-interfaces, ports, architecture. Others: accelerators, boot-mode, cpu-capabilities, cpus, extra-hardware, local-link-connection, memory, parse-lldp, pci-devices, physical-network, raid-device, root-device." env:"CENTRAL_INSPECTION_HOOKS" placeholder:"HOOK,…" group:"Inspection"`
	InspectionAddPorts            string            `help:"Interfaces that get a port: the one that the ramdisk booted from (pxe), those with an address (active), all, or none (disabled)." enum:"pxe,active,all,disabled" default:"pxe" env:"CENTRAL_INSPECTION_ADD_PORTS" group:"Inspection"`
	InspectionKeepPorts           string            `help:"Ports that stay: all, those whose interface was found (present), or those that would have been added (added)." enum:"all,present,added" default:"all" env:"CENTRAL_INSPECTION_KEEP_PORTS" group:"Inspection"`
	InspectionPhysicalNetwork     map[string]string `help:"For the hook physical-network: the name of the physical network whose interfaces have addresses of a network; may be repeated." env:"CENTRAL_INSPECTION_PHYSICAL_NETWORKS" placeholder:"CIDR=NAME" group:"Inspection"`
	InspectionPCIAlias            map[string]string `help:"For the hook pci-devices: the capability that counts a device; may be repeated." env:"CENTRAL_INSPECTION_PCI_ALIASES" placeholder:"VENDOR:PRODUCT=NAME" group:"Inspection"`
	InspectionExtraHardwareStrict bool              `help:"For the hook extra-hardware: use no data of which a single fact does not have four parts, and remove what is not used." env:"CENTRAL_INSPECTION_EXTRA_HARDWARE_STRICT" group:"Inspection"`
	DiscoveryDriver               string            `help:"Enrol machines that nobody has enrolled when their ramdisks send inspection data, as nodes with this driver. Whoever reaches continue_inspection, without an account, can have nodes made so. Default: nobody is enrolled." env:"CENTRAL_DISCOVERY_DRIVER" placeholder:"DRIVER" group:"Inspection"`
	DiscoveryLimit                int               `help:"How many nodes there may be in enroll, whoever has enrolled them, for one more to be enrolled so; others get 503 and may come back." default:"1000" env:"CENTRAL_DISCOVERY_LIMIT" placeholder:"N" group:"Inspection"`
}

func (f *inspectionFlags) processor() (*inspection.Processor, error) {
	return inspection.New(inspection.Settings{Hooks: f.InspectionHooks, AddPorts: f.InspectionAddPorts, KeepPorts: f.InspectionKeepPorts,
		PhysicalNetworks: f.InspectionPhysicalNetwork, PCIAliases: f.InspectionPCIAlias, ExtraHardwareStrict: f.InspectionExtraHardwareStrict})
}

func (f *inspectionFlags) discovery() api.Discovery {
	return api.Discovery{Driver: f.DiscoveryDriver, Most: f.DiscoveryLimit}
}
