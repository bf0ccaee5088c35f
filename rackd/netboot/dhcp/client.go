package dhcp

import (
	"net"
	"net/url"
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

// program is the first thing that each kind of client loads by TFTP.
var program = map[client]string{
	clientBIOS:   "undionly.kpxe",
	clientUEFI64: "snponly.efi",
	clientARM64:  "snponly-arm64.efi",
}

// boot returns the options that make the client boot. iPXE gets the script of its
// machine; firmware gets iPXE. A machine that is to boot its disk gets them too: the
// script says so, and the console shows it.
func (s *Server) boot(m *dhcpv4.DHCPv4, _ netboot.Machine) []dhcpv4.Modifier {
	kind := clientOf(m)
	switch kind {
	case clientPlain:
		return nil
	case clientIPXE:
		script := s.cfg.HTTP + "/boot/script?mac=" + url.QueryEscape(m.ClientHWAddr.String())
		return []dhcpv4.Modifier{bootFile(script), dhcpv4.WithOption(dhcpv4.OptBootFileName(script)),
			// no-pxedhcp: do not wait for a proxy.
			dhcpv4.WithOption(dhcpv4.OptGeneric(optionIPXE, []byte{176, 1, 1}))}
	case clientHTTP:
		name := "snponly.efi"
		if slices.Contains(m.ClientArch(), iana.EFI_ARM64_HTTP) {
			name = "snponly-arm64.efi"
		}
		return []dhcpv4.Modifier{dhcpv4.WithOption(dhcpv4.OptClassIdentifier("HTTPClient")),
			dhcpv4.WithOption(dhcpv4.OptBootFileName(s.cfg.HTTP + "/files/" + name))}
	}
	self := net.IP(s.cfg.ServerIP.AsSlice())
	return []dhcpv4.Modifier{bootFile(program[kind]), dhcpv4.WithOption(dhcpv4.OptBootFileName(program[kind])),
		dhcpv4.WithOption(dhcpv4.OptTFTPServerName(self.String()))}
}

// bootFile sets the header field as well, for clients that do not read option 67.
func bootFile(name string) dhcpv4.Modifier {
	return func(d *dhcpv4.DHCPv4) {
		if len(name) < 128 {
			d.BootFileName = name
		}
	}
}
