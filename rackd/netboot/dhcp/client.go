package dhcp

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/rackd/netboot"
	"github.com/ironyard/ironyard/rackd/netboot/bootfiles"
)

// client is the kind of program that asks.
type client int

const (
	clientPlain client = iota // an operating system: no boot options
	clientBIOS
	clientUEFI64
	clientARM64
	clientHTTP64 // UEFI HTTP boot
	clientHTTPARM64
	clientIPXE
	clientAgent // the agent of a ramdisk that came without parameters
	clientOther // firmware that no boot program here is for
)

func (c client) String() string {
	return [...]string{"a running system", "BIOS firmware", "UEFI x64 firmware", "UEFI arm64 firmware", "UEFI HTTP boot", "UEFI HTTP boot, arm64", "iPXE", "the ramdisk's agent", "other firmware"}[c]
}

// architectures are those that a boot program is for, by their numbers in IANA's registry of processor
// architecture types (RFC 5970). Debian has iPXE for no other. EFI byte code (9) is what RFC 4578
// calls x64, and firmware for x64 uses both numbers.
var architectures = map[iana.Arch]client{
	iana.INTEL_X86PC: clientBIOS, iana.EFI_X86_64: clientUEFI64, iana.EFI_BC: clientUEFI64, iana.EFI_ARM64: clientARM64,
	iana.EFI_X86_64_HTTP: clientHTTP64, iana.EFI_ARM64_HTTP: clientHTTPARM64,
}

// optionIPXE is iPXE's encapsulated options.
const optionIPXE = dhcpv4.GenericOptionCode(175)

// clientOf tells the kind by user class, vendor class and architecture (RFC 4578).
func clientOf(m *dhcpv4.DHCPv4) client {
	if slices.ContainsFunc(m.UserClass(), func(c string) bool { return c == "iPXE" }) || m.Options.Has(optionIPXE) ||
		string(m.Options.Get(dhcpv4.OptionUserClassInformation)) == "iPXE" {
		return clientIPXE
	}
	return clientOfClass(m.ClassIdentifier(), m.ClientArch())
}

// clientOfClass tells the kind by a vendor class and the architectures that the client names.
func clientOfClass(vendor string, named []iana.Arch) client {
	if vendor == agentapi.BootClass {
		return clientAgent
	}
	http := strings.HasPrefix(vendor, "HTTPClient")
	if !http && !strings.HasPrefix(vendor, "PXEClient") {
		return clientPlain
	}
	for _, a := range architecturesOf(vendor, named) {
		if c, known := architectures[a]; known {
			return overHTTP(c, http)
		}
	}
	return clientOther
}

// overHTTP is what a client is that asks for HTTP boot by its vendor class. A BIOS that does has no program.
func overHTTP(c client, http bool) client {
	switch {
	case !http || c == clientHTTP64 || c == clientHTTPARM64:
		return c
	case c == clientUEFI64:
		return clientHTTP64
	case c == clientARM64:
		return clientHTTPARM64
	}
	return clientOther
}

var classArch = regexp.MustCompile(`^(?:PXE|HTTP)Client:Arch:(\d{5})`)

// architecturesOf are those that the client names, else that of the vendor class, which PXE writes there too.
func architecturesOf(vendor string, named []iana.Arch) []iana.Arch {
	if len(named) > 0 {
		return named
	}
	if f := classArch.FindStringSubmatch(vendor); f != nil {
		if n, err := strconv.ParseUint(f[1], 10, 16); err == nil {
			return []iana.Arch{iana.Arch(n)}
		}
	}
	return nil
}

// forClient is the boot program for a kind of firmware, empty if there is none. serves says whether a program is there; nil: all are.
func (p Programs) forClient(c client, serves func(string) bool) string {
	name := map[client]string{clientBIOS: p.BIOS, clientUEFI64: p.UEFI64, clientHTTP64: p.UEFI64, clientARM64: p.ARM64, clientHTTPARM64: p.ARM64}[c]
	if name != "" && serves != nil && !serves(name) {
		return ""
	}
	return name
}

func (s *Server) programOf(c client) string { return s.cfg.Programs.forClient(c, s.cfg.Serves) }

func (s *Server) direct(c client, machine netboot.Machine) bool {
	return startsRamdisk(c, machine, s.cfg.Serves)
}

// startsRamdisk reports whether a kind of firmware is to load the ramdisk as one program: the order says so, and there is one for it.
// Other firmware goes on by iPXE.
func startsRamdisk(c client, machine netboot.Machine, serves func(string) bool) bool {
	arm64 := c == clientARM64 || c == clientHTTPARM64
	if !machine.Order.Direct || !arm64 && c != clientUEFI64 && c != clientHTTP64 {
		return false
	}
	return serves == nil || serves(machine.ProgramFile(arm64))
}

// waits reports whether a client is firmware that cannot be told what to do now. It loads its ramdisk without a boot program, and its
// machine is to ask again. A boot program does so by itself. Firmware takes any answer for the last one, and goes on with its next boot
// option. Without an answer it asks for some time, and another rackd may answer.
func waits(c client, machine netboot.Machine, serves func(string) bool) bool {
	return machine.Order.Again && startsRamdisk(c, machine, serves)
}

// directFile is the file that a machine's firmware starts without a boot program. One that has nothing to load is given a
// name that there is not: firmware then goes on with its next boot option at once, and without a name it would ask for a minute.
func directFile(c client, machine netboot.Machine) string {
	if machine.Order.Load == nil {
		return nothing
	}
	return machine.ProgramFile(c == clientARM64)
}

// loader is the boot loader that a kind of firmware gets in place of iPXE; empty for none. The machine's boot interface is pxe, and
// the loader can do what the machine is ordered to.
func (s *Server) loader(c client, machine netboot.Machine) string {
	o := machine.Order
	name := map[client]string{clientBIOS: bootfiles.PXELinux, clientUEFI64: bootfiles.Shim}[c]
	switch {
	case !s.cfg.Loaders || !o.OverTFTP || o.Direct || o.Image != nil || o.Volumes != nil || name == "" || s.cfg.Serves != nil && !s.cfg.Serves(name):
		return ""
	case c == clientUEFI64 && o.Disk:
		return nothing // GRUB ends well only, and firmware shows its menu then
	}
	return name
}

// nothing is the name of a file that there is not: firmware goes on with its next boot option at once.
const nothing = "nothing-to-boot"

// boots reports whether the client is to be told what to boot. For firmware that there is no program
// for it says so in the log: a program of another kind would only hang the machine.
func (s *Server) boots(m *dhcpv4.DHCPv4, machine netboot.Machine) bool {
	c := clientOf(m)
	switch {
	case c == clientPlain:
		return false
	case c == clientIPXE || c == clientAgent || s.programOf(c) != "" || s.direct(c, machine) || s.loader(c, machine) != "":
		return true
	}
	s.cfg.Metrics.DHCPDropped("program")
	s.programLog.Do(func() {
		s.cfg.Log.Warn("DHCP client gets no boot program: there is none for its firmware", "mac", m.ClientHWAddr.String(), "architectures", fmt.Sprint(architecturesOf(m.ClassIdentifier(), m.ClientArch())), "vendor_class", m.ClassIdentifier(),
			"todo", "boot the machine by BIOS, UEFI x64 or UEFI arm64, and see that --boot-programs has the program for it, or give rackd its ramdisk as one program (--uki, --uki-arm64)")
	})
	return false
}

// boot returns the options that make the client boot. iPXE gets the script of its
// machine; firmware gets iPXE. A machine that is to boot its disk gets them too: the
// script says so, and the console shows it.
func (s *Server) boot(m *dhcpv4.DHCPv4, machine netboot.Machine) []dhcpv4.Modifier {
	if !s.boots(m, machine) {
		return nil
	}
	mac, c := m.ClientHWAddr.String(), clientOf(m)
	if s.direct(c, machine) && (c == clientUEFI64 || c == clientARM64) {
		return s.firmware(directFile(c, machine))
	}
	if name := s.loader(c, machine); name != "" {
		return s.firmware(name)
	}
	switch c {
	case clientAgent:
		return bootFile(netboot.ParametersURL(s.cfg.HTTP, mac))
	case clientIPXE:
		script := netboot.ScriptURL(s.cfg.HTTP, mac)
		if machine.Order.OverTFTP && s.cfg.TFTP != "" {
			script = netboot.TFTPScriptURL(s.cfg.TFTP, mac)
		}
		// no-pxedhcp (176): do not wait for a proxy. It travels inside option 175.
		return append(bootFile(script), dhcpv4.WithOption(dhcpv4.OptGeneric(optionIPXE, []byte{176, 1, 1})))
	case clientHTTP64, clientHTTPARM64:
		at := s.cfg.HTTPS + "/files/" + s.programOf(c)
		if s.direct(c, machine) {
			at = netboot.ProgramURL(s.cfg.HTTPS, mac, c == clientHTTPARM64)
		}
		// UEFI 2.10, section 24.7.2: the class tells that the reply is for HTTP boot.
		return append(bootFile(at), dhcpv4.WithOption(dhcpv4.OptClassIdentifier("HTTPClient")))
	default:
		return s.firmware(s.programOf(c))
	}
}

func (s *Server) firmware(program string) []dhcpv4.Modifier {
	// 150 is what some firmware and boot loaders read in place of 66 (RFC 5859): addresses, not a name.
	return append(bootFile(program), dhcpv4.WithOption(dhcpv4.OptTFTPServerName(s.cfg.ServerIP.String())),
		dhcpv4.WithOption(dhcpv4.OptGeneric(dhcpv4.OptionTFTPServerAddress, s.cfg.ServerIP.AsSlice())))
}

// bootFile sets option 67, and the header field for clients that do not read it.
func bootFile(name string) []dhcpv4.Modifier {
	mods := []dhcpv4.Modifier{dhcpv4.WithOption(dhcpv4.OptBootFileName(name))}
	if len(name) < 128 {
		mods = append(mods, func(d *dhcpv4.DHCPv4) { d.BootFileName = name })
	}
	return mods
}
