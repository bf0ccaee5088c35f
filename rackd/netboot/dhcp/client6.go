package dhcp

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/insomniacslk/dhcp/dhcpv6"

	"github.com/ironyard/ironyard/rackd/netboot"
)

// enterprisePXE is Intel's number, under which firmware gives its vendor class (UEFI 2.10, section 24.3.3.2).
const enterprisePXE = 343

// client6Of tells the kind by user class, vendor class and architecture (RFC 5970).
func client6Of(m *dhcpv6.Message) client {
	if slices.ContainsFunc(m.Options.UserClasses(), func(c []byte) bool { return bytes.Equal(c, []byte("iPXE")) }) {
		return clientIPXE
	}
	for _, v := range m.Options.VendorClasses() {
		for _, class := range v.Data {
			if c := clientOfClass(string(class), m.Options.ArchTypes()); c != clientPlain {
				return c
			}
		}
	}
	return clientPlain
}

// bootOptions make the client boot, as Server.boot's do. Firmware that boots by PXE takes a tftp URL.
func (s *Server6) bootOptions(a asked, machine netboot.Machine, mac string) []dhcpv6.Modifier {
	c := client6Of(a.Message)
	switch c {
	case clientPlain:
		return nil
	case clientAgent:
		return bootURL(netboot.ParametersURL(s.cfg.HTTP, mac))
	case clientIPXE:
		if machine.Order.OverTFTP {
			return bootURL(netboot.TFTPScriptURL(s.cfg.TFTP, mac))
		}
		return bootURL(netboot.ScriptURL(s.cfg.HTTP, mac))
	}
	program, direct := s.cfg.Programs.forClient(c, s.cfg.Serves), startsRamdisk(c, machine, s.cfg.Serves)
	if program == "" && !direct {
		s.cfg.Metrics.DHCPDropped("program")
		s.programLog.Do(func() {
			s.cfg.Log.Warn("DHCPv6 client gets no boot program: there is none for its firmware", "mac", mac, "architectures", fmt.Sprint(a.Options.ArchTypes()),
				"todo", "boot the machine by UEFI x64 or UEFI arm64, and see that --boot-programs has the program for it, or give rackd its ramdisk as one program (--uki, --uki-arm64)")
		})
		return nil
	}
	switch {
	case c != clientHTTP64 && c != clientHTTPARM64:
		if direct {
			program = directFile(c, machine)
		}
		return bootURL(s.cfg.TFTP + "/" + program)
	case direct:
		return overHTTP6(netboot.ProgramURL(s.cfg.HTTPS, mac, c == clientHTTPARM64))
	}
	return overHTTP6(s.cfg.HTTPS + "/files/" + program)
}

func bootURL(url string) []dhcpv6.Modifier {
	return []dhcpv6.Modifier{dhcpv6.WithOption(dhcpv6.OptBootFileURL(url))}
}

// overHTTP6 is for firmware's HTTP boot, to which the class tells that the reply is for it (UEFI 2.10, section 24.7.3).
func overHTTP6(url string) []dhcpv6.Modifier {
	return append(bootURL(url), dhcpv6.WithOption(&dhcpv6.OptVendorClass{EnterpriseNumber: enterprisePXE, Data: [][]byte{[]byte("HTTPClient")}}))
}
