package dhcp

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"
)

// Each architecture of IANA's registry gets the program that is for it, or none: never one of another
// kind. Where option 93 is missing the vendor class tells.
func TestEachArchitectureGetsItsProgramOrNone(t *testing.T) {
	const http = "http://10.77.0.1:8080/files/"
	want := map[int]string{0: "undionly.kpxe", 7: "snponly.efi", 9: "snponly.efi", 11: "snponly-arm64.efi", 16: http + "snponly.efi", 19: http + "snponly-arm64.efi"}
	for arch := range 45 {
		class := fmt.Sprintf("PXEClient:Arch:%05d:UNDI:003016", arch)
		if arch >= 15 && arch <= 20 {
			class = strings.Replace(class, "PXE", "HTTP", 1)
		}
		withOption := pxe(iana.Arch(arch), class)
		for how, mods := range map[string][]dhcpv4.Modifier{"option 93": withOption, "the class alone": withOption[:1]} {
			check(t, fmt.Sprintf("architecture %d by %s", arch, how), mods, want[arch])
		}
	}
	for what, c := range map[string]struct {
		mods []dhcpv4.Modifier
		want string
	}{
		"neither option nor class say it":       {pxe(0, "PXEClient")[:1], ""},
		"several, the first is unknown":         {[]dhcpv4.Modifier{dhcpv4.WithOption(dhcpv4.OptClassIdentifier("PXEClient")), dhcpv4.WithOption(dhcpv4.OptClientArch(6, 7))}, "snponly.efi"},
		"HTTP boot of x64 by TFTP's number":     {pxe(iana.EFI_X86_64, "HTTPClient:Arch:00007"), http + "snponly.efi"},
		"HTTP boot of a BIOS, by TFTP's number": {pxe(iana.INTEL_X86PC, "HTTPClient:Arch:00000"), ""},
	} {
		check(t, what, c.mods, c.want)
	}
}

func check(t *testing.T, what string, mods []dhcpv4.Modifier, want string) {
	t.Helper()
	var log bytes.Buffer
	s := newServer(t, func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	r := answer(t, s, message(t, known, dhcpv4.MessageTypeDiscover, mods...))
	if r == nil || r.YourIPAddr.IsUnspecified() {
		t.Fatalf("%s: no address: %v", what, r)
	}
	if r.BootFileNameOption() != want || r.BootFileName != want || (r.ServerHostName != "" || r.TFTPServerName() != "") && want == "" {
		t.Errorf("%s: boot file %q, want %q", what, r.BootFileNameOption(), want)
	}
	if said := strings.Contains(log.String(), "no boot program"); said != (want == "") {
		t.Errorf("%s: the log says why: %v", what, said)
	}
	proxy := newServer(t, func(c *Config) { c.Mode = Proxy })
	m := message(t, known, dhcpv4.MessageTypeDiscover, mods...)
	if r := answer(t, proxy, m); (r != nil) != (want != "") || r != nil && r.BootFileNameOption() != want {
		t.Errorf("%s: the proxy says %v, want boot file %q", what, r, want)
	}
	if r, err := proxy.AnswerBoot(m); err != nil || (r != nil) != (want != "") {
		t.Errorf("%s: the boot server says %v, %v", what, r, err)
	}
}

// A program that the folder of boot programs does not have is offered to no machine.
func TestAProgramThatIsNotThereIsNotOffered(t *testing.T) {
	s := newServer(t, func(c *Config) { c.Serves = func(name string) bool { return name != "snponly-arm64.efi" } })
	for arch, want := range map[iana.Arch]string{iana.EFI_ARM64: "", iana.EFI_X86_64: "snponly.efi"} {
		if got := answer(t, s, message(t, known, dhcpv4.MessageTypeDiscover, pxe(arch, "PXEClient")...)).BootFileNameOption(); got != want {
			t.Errorf("architecture %d: %q, want %q", arch, got, want)
		}
	}
}
