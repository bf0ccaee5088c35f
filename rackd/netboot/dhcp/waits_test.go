package dhcp

import (
	"testing"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"

	"github.com/ironyard/ironyard/rackd/bootorder"
)

// Firmware that loads the ramdisk without a boot program cannot be told to ask later. It gets no answer while a rackd does not know what
// its machine is to do. Boot programs are told by their script. Systems get their addresses.
func TestFirmwareThatIsToAskAgainGetsNoAnswer(t *testing.T) {
	for _, c := range []struct {
		name    string
		mods    []dhcpv4.Modifier
		order   bootorder.Order
		answers bool
	}{
		{"PXE", pxe(iana.EFI_X86_64, "PXEClient:Arch:00007"), bootorder.Later("lost"), false},
		{"HTTP", pxe(iana.EFI_X86_64_HTTP, "HTTPClient:Arch:00016"), bootorder.Later("lost"), false},
		{"PXE, nothing to load", pxe(iana.EFI_X86_64, "PXEClient:Arch:00007"), bootorder.LocalDisk(), true},
		{"iPXE", append(pxe(iana.EFI_X86_64, "PXEClient:Arch:00007"), dhcpv4.WithUserClass("iPXE", false)), bootorder.Later("lost"), true},
		{"BIOS, which has no program", pxe(iana.INTEL_X86PC, "PXEClient:Arch:00000"), bootorder.Later("lost"), true},
		{"a running system", nil, bootorder.Later("lost"), true},
	} {
		s := newServer(t, func(cfg *Config) { cfg.Directory = direct{order: c.order} })
		r, err := s.Answer(message(t, known, dhcpv4.MessageTypeDiscover, c.mods...))
		if err != nil || (r != nil) != c.answers {
			t.Errorf("%s: answered with %v, %v; want an answer: %t", c.name, r, err, c.answers)
		}
	}
}
