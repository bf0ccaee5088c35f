package dhcp

import (
	"slices"
	"strings"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"

	"github.com/ironyard/ironyard/rackd/netboot"
)

// client is the kind of program that asks.
type client int

const (
	clientPlain client = iota // an operating system: no boot options
	clientBIOS
	clientUEFI64
	clientARM64
	clientHTTP // UEFI HTTP boot
	clientIPXE
)

func (c client) String() string {
	return [...]string{"a running system", "BIOS firmware", "UEFI x64 firmware", "UEFI arm64 firmware", "UEFI HTTP boot", "iPXE"}[c]
}

// optionIPXE is iPXE's encapsulated options.
const optionIPXE = dhcpv4.GenericOptionCode(175)

// clientOf tells the kind by user class, vendor class and architecture (RFC 4578).
func clientOf(m *dhcpv4.DHCPv4) client {
	if slices.ContainsFunc(m.UserClass(), func(c string) bool { return c == "iPXE" }) || m.Options.Has(optionIPXE) ||
		string(m.Options.Get(dhcpv4.OptionUserClassInformation)) == "iPXE" {
		return clientIPXE
	}
	vendor := m.ClassIdentifier()
	if strings.HasPrefix(vendor, "HTTPClient") {
		return clientHTTP
	}
	if !strings.HasPrefix(vendor, "PXEClient") {
		return clientPlain
	}
	for _, a := range m.ClientArch() {
		switch a {
		// Firmware calls itself 9 or 7 for the same thing: RFC 4578 and the registry differ.
		case iana.EFI_X86_64, iana.EFI_BC:
			return clientUEFI64
		case iana.EFI_ARM64:
			return clientARM64
		case iana.EFI_X86_64_HTTP, iana.EFI_ARM64_HTTP:
			return clientHTTP
		}
	}
	return clientBIOS
}

// boot returns the options that make the client boot. iPXE gets the script of its
// machine; firmware gets iPXE. A machine that is to boot its disk gets them too: the
// script says so, and the console shows it.
func (s *Server) boot(m *dhcpv4.DHCPv4, machine netboot.Machine) []dhcpv4.Modifier {
	switch clientOf(m) {
	case clientPlain:
		return nil
	case clientIPXE:
		mac := m.ClientHWAddr.String()
		script := netboot.ScriptURL(s.cfg.HTTP, mac)
		if machine.OverTFTP && s.cfg.TFTP != "" {
			script = netboot.TFTPScriptURL(s.cfg.TFTP, mac)
		}
		// no-pxedhcp (176): do not wait for a proxy. It travels inside option 175.
		return append(bootFile(script), dhcpv4.WithOption(dhcpv4.OptGeneric(optionIPXE, []byte{176, 1, 1})))
	case clientHTTP:
		name := s.cfg.Programs.UEFI64
		if slices.Contains(m.ClientArch(), iana.EFI_ARM64_HTTP) {
			name = s.cfg.Programs.ARM64
		}
		// UEFI 2.10, section 24.7.2: the class tells that the reply is for HTTP boot.
		return append(bootFile(s.cfg.HTTP+"/files/"+name), dhcpv4.WithOption(dhcpv4.OptClassIdentifier("HTTPClient")))
	case clientUEFI64:
		return s.firmware(s.cfg.Programs.UEFI64)
	case clientARM64:
		return s.firmware(s.cfg.Programs.ARM64)
	}
	return s.firmware(s.cfg.Programs.BIOS)
}

func (s *Server) firmware(program string) []dhcpv4.Modifier {
	return append(bootFile(program), dhcpv4.WithOption(dhcpv4.OptTFTPServerName(s.cfg.ServerIP.String())))
}

// bootFile sets option 67, and the header field for clients that do not read it.
func bootFile(name string) []dhcpv4.Modifier {
	mods := []dhcpv4.Modifier{dhcpv4.WithOption(dhcpv4.OptBootFileName(name))}
	if len(name) < 128 {
		mods = append(mods, func(d *dhcpv4.DHCPv4) { d.BootFileName = name })
	}
	return mods
}
