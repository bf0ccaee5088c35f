package dhcp

import (
	"net"
	"strings"
	"testing"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/rackd/bootorder"
	"github.com/ironyard/ironyard/rackd/netboot"
)

// direct is a machine whose firmware loads its ramdisk as one program.
type direct struct {
	directory
	order bootorder.Order
}

func (d direct) ByMAC(mac string) (netboot.Machine, bool) {
	d.order.Direct = true
	return netboot.Machine{UUID: "u", Order: d.order}, mac == known
}

// Firmware is given the program, by its own protocol; what is no firmware for it is given what others are.
func TestFirmwareIsGivenItsProgram(t *testing.T) {
	http, tftp := pxe(iana.EFI_X86_64_HTTP, "HTTPClient:Arch:00016"), pxe(iana.EFI_X86_64, "PXEClient:Arch:00007")
	arm := pxe(iana.EFI_ARM64, "PXEClient:Arch:00011")
	program := "http://10.77.0.1:8080/boot/program/52-54-00-00-00-01/ramdisk.efi"
	for _, c := range []struct {
		name  string
		order bootorder.Order
		mods  []dhcpv4.Modifier
		want  string
	}{
		{"HTTP by TLS", bootorder.Ramdisk(bootorder.Load{}), http, "https" + strings.TrimPrefix(program, "http")},
		{"HTTP", bootorder.Ramdisk(bootorder.Load{}), http, program},
		{"HTTP, nothing to load", bootorder.LocalDisk(), http, program}, // the server of it decides when it is asked
		{"PXE", bootorder.Ramdisk(bootorder.Load{}), tftp, "ramdisk.efi"},
		{"PXE, a rescue", bootorder.Ramdisk(bootorder.Load{Rescue: true}), tftp, "rescue-ramdisk.efi"},
		{"PXE, nothing to load", bootorder.LocalDisk(), tftp, "nothing-to-boot"},
		{"iPXE in the card", bootorder.Ramdisk(bootorder.Load{}), append(tftp, dhcpv4.WithUserClass("iPXE", false)), "http://10.77.0.1:8080/boot/script?mac=52%3A54%3A00%3A00%3A00%3A01"},
		{"arm64 by PXE", bootorder.Ramdisk(bootorder.Load{}), arm, "ramdisk-arm64.efi"},
		{"arm64 by PXE, a rescue", bootorder.Ramdisk(bootorder.Load{Rescue: true}), arm, "rescue-ramdisk-arm64.efi"},
		{"arm64 by PXE, nothing to load", bootorder.LocalDisk(), arm, "nothing-to-boot"},
		{"arm64 by HTTP", bootorder.Ramdisk(bootorder.Load{}), pxe(iana.EFI_ARM64_HTTP, "HTTPClient:Arch:00019"), "http://10.77.0.1:8080/boot/program/52-54-00-00-00-01/ramdisk-arm64.efi"},
	} {
		s := newServer(t, func(cfg *Config) {
			cfg.Directory = direct{order: c.order}
			cfg.Serves = func(name string) bool { return name != "snponly-arm64.efi" } // as Debian's ipxe
			if strings.HasPrefix(c.want, "https:") {
				cfg.HTTPS = "https://10.77.0.1:8080"
			}
		})
		if r := answer(t, s, message(t, known, dhcpv4.MessageTypeDiscover, c.mods...)); r == nil || r.BootFileNameOption() != c.want {
			t.Errorf("%s: boot file %q, want %q", c.name, r.BootFileNameOption(), c.want)
		}
	}
	rescue := bootorder.Ramdisk(bootorder.Load{Rescue: true})
	for _, c := range []struct {
		mods      []dhcpv4.Modifier
		order     bootorder.Order
		off, want string
	}{
		{arm, bootorder.Ramdisk(bootorder.Load{}), "ramdisk-arm64.efi", "snponly-arm64.efi"},
		{arm, bootorder.Ramdisk(bootorder.Load{}), "", "ramdisk-arm64.efi"},
		{arm, rescue, "rescue-ramdisk-arm64.efi", "snponly-arm64.efi"},
		{tftp, bootorder.Ramdisk(bootorder.Load{}), "ramdisk.efi", "snponly.efi"},
		{tftp, rescue, "rescue-ramdisk.efi", "snponly.efi"},
		{http, bootorder.Ramdisk(bootorder.Load{}), "ramdisk.efi", "http://10.77.0.1:8080/files/snponly.efi"},
	} {
		s := newServer(t, func(cfg *Config) {
			cfg.Directory, cfg.Serves = direct{order: c.order}, func(name string) bool { return name != c.off }
		})
		if r := answer(t, s, message(t, known, dhcpv4.MessageTypeDiscover, c.mods...)); r.BootFileNameOption() != c.want {
			t.Errorf("without %q: boot file %q, want %q", c.off, r.BootFileNameOption(), c.want)
		}
	}
}

// numbered is a machine whose firmware starts others than the rack's own programs.
type numbered struct{ direct }

func (n numbered) ByMAC(mac string) (netboot.Machine, bool) {
	m, ok := n.direct.ByMAC(mac)
	m.Program, m.ProgramARM64 = 1, 2
	return m, ok
}

// A machine of a class or an architecture is given the program that is for it.
func TestFirmwareIsGivenTheProgramForIt(t *testing.T) {
	for want, c := range map[string]struct {
		order bootorder.Order
		mods  []dhcpv4.Modifier
	}{
		"ramdisk-r1.efi":              {bootorder.Ramdisk(bootorder.Load{}), pxe(iana.EFI_X86_64, "PXEClient:Arch:00007")},
		"rescue-ramdisk-r1.efi":       {bootorder.Ramdisk(bootorder.Load{Rescue: true}), pxe(iana.EFI_X86_64, "PXEClient:Arch:00007")},
		"rescue-ramdisk-arm64-r2.efi": {bootorder.Ramdisk(bootorder.Load{Rescue: true}), pxe(iana.EFI_ARM64, "PXEClient:Arch:00011")},
		"ramdisk-arm64-r2.efi":        {bootorder.Ramdisk(bootorder.Load{}), pxe(iana.EFI_ARM64, "PXEClient:Arch:00011")},
	} {
		s := newServer(t, func(cfg *Config) {
			cfg.Directory, cfg.Serves = numbered{direct{order: c.order}}, func(name string) bool { return name != "ramdisk-arm64.efi" }
		})
		if r := answer(t, s, message(t, known, dhcpv4.MessageTypeDiscover, c.mods...)); r == nil || r.BootFileNameOption() != want {
			t.Errorf("boot file %q, want %q", r.BootFileNameOption(), want)
		}
	}
}

// An agent that came without a boot script is told where to ask: with its lease, and beside another server when it asks all of them.
func TestAgentIsToldWhereToAsk(t *testing.T) {
	agent := dhcpv4.WithOption(dhcpv4.OptClassIdentifier(agentapi.BootClass))
	want := "http://10.77.0.1:8080/boot/parameters?mac=52%3A54%3A00%3A00%3A00%3A01"
	s := newServer(t, nil)
	if r := answer(t, s, message(t, known, dhcpv4.MessageTypeDiscover, agent)); r == nil || r.BootFileNameOption() != want || r.YourIPAddr.IsUnspecified() {
		t.Errorf("with its lease: %v", r)
	}
	proxy := newServer(t, func(c *Config) { c.Mode = Proxy })
	if r := answer(t, proxy, message(t, known, dhcpv4.MessageTypeDiscover, agent)); r != nil {
		t.Errorf("a proxy answers an agent that wants an address: %v", r)
	}
	inform := func(m *dhcpv4.DHCPv4) { m.ClientIPAddr = net.IPv4(10, 77, 0, 150) }
	for mode, s := range map[string]*Server{"serve": s, "proxy": proxy} {
		r := answer(t, s, message(t, known, dhcpv4.MessageTypeInform, agent, inform))
		if r == nil || r.MessageType() != dhcpv4.MessageTypeAck || r.BootFileNameOption() != want || !r.YourIPAddr.IsUnspecified() {
			t.Errorf("%s, to an agent with an address: %v", mode, r)
		}
	}
	if r := answer(t, proxy, message(t, "02:00:00:00:00:09", dhcpv4.MessageTypeInform, agent, inform)); r != nil {
		t.Errorf("a stranger is told: %v", r)
	}
}

// viaTFTP is a machine whose boot interface is pxe.
type viaTFTP struct {
	directory
	order bootorder.Order
}

func (d viaTFTP) ByMAC(mac string) (netboot.Machine, bool) {
	d.order.OverTFTP = true
	return netboot.Machine{UUID: "u", Order: d.order}, mac == known
}

// Firmware of a machine with the interface pxe is given GRUB or pxelinux, where rackd has them and they can do what is ordered.
func TestFirmwareIsGivenItsLoader(t *testing.T) {
	bios, uefi := pxe(iana.INTEL_X86PC, "PXEClient:Arch:00000"), pxe(iana.EFI_X86_64, "PXEClient:Arch:00007")
	load := bootorder.Ramdisk(bootorder.Load{})
	for _, c := range []struct {
		name  string
		order bootorder.Order
		mods  []dhcpv4.Modifier
		off   string // what is not among the boot files
		want  string
	}{
		{"UEFI", load, uefi, "", "shimx64.efi"},
		{"BIOS", load, bios, "", "pxelinux.0"},
		{"BIOS without pxelinux", load, bios, "pxelinux.0", "undionly.kpxe"},
		{"BIOS without iPXE", load, bios, "undionly.kpxe", "pxelinux.0"},
		{"UEFI, its disk", bootorder.LocalDisk(), uefi, "", "nothing-to-boot"},
		{"BIOS, its disk", bootorder.LocalDisk(), bios, "", "pxelinux.0"},
		{"UEFI, later", bootorder.Later("wait"), uefi, "", "shimx64.efi"},
		{"a volume", bootorder.FromVolumes(bootorder.Volumes{}), uefi, "", "snponly.efi"},
		{"arm64", load, pxe(iana.EFI_ARM64, "PXEClient:Arch:00011"), "", "snponly-arm64.efi"},
		{"HTTP", load, pxe(iana.EFI_X86_64_HTTP, "HTTPClient:Arch:00016"), "", "http://10.77.0.1:8080/files/snponly.efi"},
	} {
		s := newServer(t, func(cfg *Config) {
			cfg.Directory, cfg.Loaders, cfg.Serves = viaTFTP{order: c.order}, true, func(name string) bool { return name != c.off }
		})
		if r := answer(t, s, message(t, known, dhcpv4.MessageTypeDiscover, c.mods...)); r == nil || r.BootFileNameOption() != c.want {
			t.Errorf("%s: boot file %q, want %q", c.name, r.BootFileNameOption(), c.want)
		}
	}
	s := newServer(t, func(cfg *Config) { cfg.Directory = viaTFTP{order: load} })
	if r := answer(t, s, message(t, known, dhcpv4.MessageTypeDiscover, uefi...)); r.BootFileNameOption() != "snponly.efi" {
		t.Errorf("without these loaders: %q", r.BootFileNameOption())
	}
}
