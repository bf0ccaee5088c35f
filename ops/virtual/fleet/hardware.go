package fleet

import (
	"net/netip"

	"github.com/ironyard/ironyard/ops/operator"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

// What every machine is made of.
const (
	memoryMiB = 64 << 10
	diskBytes = 960 << 30
)

// Enrolment is what an operator tells Ironic's API about the machine. Its agent inspects it: its
// BMC knows nothing of hardware.
func (f *Fleet) Enrolment(m *Member) operator.Machine {
	return operator.Machine{Name: m.Name, Driver: "redfish", MACs: []string{m.MAC}, Properties: map[string]any{"capabilities": "boot_mode:uefi"},
		Interfaces: map[string]string{"inspect": "agent"},
		DriverInfo: map[string]any{"redfish_address": m.bmcURL, "redfish_username": f.cfg.User, "redfish_password": f.cfg.Password, "redfish_verify_ca": false}}
}

// inventory is what the machine's agent finds. Its address is one of a network, as a
// machine's would be; the one that it is reached at here is a loopback address.
func (m *Member) inventory() agentapi.Inventory {
	address := m.Address.As4()
	address[0] = 10
	return agentapi.Inventory{
		Interfaces: []agentapi.NIC{{Name: "eth0", MACAddress: m.MAC, IPv4Address: netip.AddrFrom4(address).String(), HasCarrier: true, SpeedMbps: 25_000}},
		CPU:        agentapi.CPU{ModelName: "Simulated", Count: 32, SocketCount: 2, Architecture: "x86_64"},
		Memory:     agentapi.Memory{Total: memoryMiB << 20, PhysicalMB: memoryMiB},
		Disks: []agentapi.Disk{{Name: "/dev/nvme0n1", Model: "Simulated", Size: diskBytes, Serial: m.Name, WWN: "0x" + m.UUID[:8],
			LogicalSectors: 512, PhysicalSectors: 4096, Tran: "nvme"}},
		SystemVendor: agentapi.SystemVendor{Manufacturer: "Ironyard", ProductName: "Simulated Machine", SerialNumber: m.Name},
		Boot:         agentapi.Boot{CurrentBootMode: "uefi", PXEInterface: m.MAC},
		Hostname:     m.Name,
	}
}
