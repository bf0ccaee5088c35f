package mediaboot

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/bootorder"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/ownramdisk"
	"github.com/ironyard/ironyard/rackd/netboot/bootfiles"
	"github.com/ironyard/ironyard/rackd/rackramdisk"
)

// server makes media, one for each that is published.
type server struct {
	published int
	withdrawn bool
	told      int // how often parameters were published
	problem   error
	alive     bool
	secure    string
	shown     []string // certificates
	unsigned  bool
	unshown   error // why they cannot be told
	base      string
	lives     []string // bases of other rackds
	wrong     error    // of CheckInstance
	reading   driver.Reading
	instance  string // "published" or "withdrawn"
}

func (s *server) Problem(string) error { return s.problem }
func (s *server) Signed() bool         { return !s.unsigned }
func (s *server) Base() string         { return cmp.Or(s.base, "http://192.0.2.5:8080") }
func (s *server) TLSBase() string      { return s.secure }
func (s *server) TLSCertificates() ([]string, error) {
	if s.unshown != nil {
		return nil, s.unshown
	}
	return s.shown, nil
}
func (s *server) Served(base string) bool {
	return s.alive || slices.Contains(s.lives, base)
}
func (s *server) CheckInstance(*node.Document, bootorder.Load) error { return s.wrong }
func (s *server) PublishInstance()                                   { s.instance = "published" }
func (s *server) WithdrawInstance()                                  { s.instance = "withdrawn" }
func (s *server) InstanceURL(base, work string, part driver.InstancePart) (string, error) {
	return base + "/media/5f0c/secret-" + work + "/" + map[driver.InstancePart]string{driver.InstanceBoot: "boot.iso", driver.InstanceDrive: "configdrive.img"}[part], nil
}
func (s *server) Reading() driver.Reading { return s.reading }
func (s *server) Withdraw()               { s.withdrawn = true }
func (s *server) Publish(base string) (string, error) {
	if s.published++; base == "" {
		base = s.Base()
	}
	return fmt.Sprintf("%s/media/u/secret%d/boot.iso", base, s.published), nil
}

func (s *server) PublishParameters(base string) (string, error) {
	s.told++
	return fmt.Sprintf("%s/media/5f0c/told%d/parameters.img", base, s.told), nil
}

func fine(string) error { return nil }

// Each boot of the ramdisk has a medium of its own in the drive. It is told without its code, and goes when the boot is taken back.
func TestMediaAreMade(t *testing.T) {
	k := task(t, &node.Document{UUID: "made"})
	s := &server{}
	k.Media = s
	i := VirtualMedia(fine)
	if err := i.Validate(k.Node); err != nil {
		t.Error(err)
	}
	for n := range 2 {
		if err := i.PrepareRamdisk(t.Context(), k); err != nil {
			t.Fatal(err)
		}
		if got, want := state(t, k), fmt.Sprintf("http://192.0.2.5:8080/media/u/secret%d/boot.iso cdrom", n+1); got != want {
			t.Errorf("the machine boots %q, want %q", got, want)
		}
	}
	if got := fmt.Sprint(k.Facts); strings.Contains(got, "secret") {
		t.Errorf("the code of a medium stands in the facts: %s", got)
	}
	if i.Deserted(k) != true {
		t.Error("the rackd has gone, and its medium has not")
	}
	if s.alive = true; i.Deserted(k) {
		t.Error("the rackd lives, and its medium is deserted")
	}
	if err := i.CleanUpRamdisk(t.Context(), k); err != nil || !s.withdrawn {
		t.Errorf("%v, withdrawn: %t", err, s.withdrawn)
	}
	if got := state(t, k); got != "cdrom" || i.Deserted(k) {
		t.Errorf("afterwards the machine boots %q", got)
	}
}

// A node may say at which address its BMC reaches rackd. What is behind that no rackd knows.
func TestExternalAddress(t *testing.T) {
	k := task(t, &node.Document{UUID: "ext", DriverInfo: map[string]any{fieldExternal: "https://media.example/rack"}})
	k.Media = &server{}
	if err := VirtualMedia(fine).PrepareRamdisk(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	if got := state(t, k); got != "https://media.example/rack/media/u/secret1/boot.iso cdrom" || VirtualMedia(fine).Deserted(k) {
		t.Errorf("the machine boots %q", got)
	}
}

func TestWhatCannotBeMade(t *testing.T) {
	const net = `{"links":[{"id":"a","type":"%s","ethernet_mac_address":"52:54:00:00:00:01"}],"networks":[{"id":"n","link":"a","type":"ipv4","ip_address":"192.0.2.7/24"}],"services":[]}`
	arm := filepath.Join(t.TempDir(), "arm") // what Documentation/arch/arm64/booting.rst has at byte 56
	if err := os.WriteFile(arm, append(make([]byte, 56), "ARM\x64"...), 0o600); err != nil {
		t.Fatal(err)
	}
	const bonded = `{"links":[{"id":"a","type":"phy","ethernet_mac_address":"52:54:00:00:00:01"},{"id":"b","type":"phy","ethernet_mac_address":"52:54:00:00:00:02"},
		{"id":"c","type":"bond","bond_mode":"802.3ad","bond_links":["a","b"],"ethernet_mac_address":"52:54:00:00:00:01"},
		{"id":"d","type":"vlan","vlan_id":7,"vlan_link":"c","vlan_mac_address":"52:54:00:00:00:01"}],"networks":[{"id":"n","link":"d","type":"ipv6_slaac"}],"services":[]}`
	for name, c := range map[string]struct {
		info    map[string]any
		network string
		mode    string
		arch    string
		problem error
		by      func(func(string) error) Interface
		class   string // of a rack where "gpu" has a program alone, and "arm" a kernel for arm64; empty: of a rack that is not known
		says    string
	}{
		"all in order":            {network: fmt.Sprintf(net, "phy")},
		"no boot loader":          {problem: errors.New("install grub"), says: "install grub"},
		"a second medium":         {info: map[string]any{fieldRemovable: true}, says: "into the image that it makes"},
		"no second medium":        {info: map[string]any{fieldFloppy: false}},
		"a boot loader":           {info: map[string]any{fieldLoader: "http://h/esp"}, says: fieldLoader},
		"an NFS share":            {info: map[string]any{ownramdisk.ImageField: "nfs://h/i.iso"}, says: "scheme nfs"},
		"a CIFS share":            {info: map[string]any{ownramdisk.ImageField: "cifs://h/i.iso"}, says: "http and https alone"},
		"a strange address":       {info: map[string]any{fieldExternal: "ftp://h"}, says: fieldExternal},
		"a kernel by TFTP":        {info: map[string]any{"deploy_kernel": "tftp://h/k", "deploy_ramdisk": "http://h/r"}, says: "scheme tftp"},
		"half a ramdisk":          {info: map[string]any{"deploy_kernel": "http://h/k"}, says: "both or neither"},
		"rackd's own parameters":  {info: map[string]any{"kernel_append_params": "ipa-api-url=https://evil"}, says: "rackd itself sets"},
		"a bond of nothing":       {network: fmt.Sprintf(net, "bond"), says: `link "a": its bond_mode is ""`},
		"a bond":                  {network: bonded},
		"no address":              {network: `{"links":[],"networks":[],"services":[]}`, says: "no interface an address"},
		"a BIOS and HTTP":         {by: HTTPBoot, mode: "bios", says: "only UEFI firmware"},
		"UEFI and HTTP":           {by: HTTPBoot},
		"by TLS alone":            {by: byTLS(true)},
		"without a certificate":   {by: byTLS(false), says: "no --https-certificate"},
		"behind another's":        {by: byTLS(false), info: map[string]any{fieldExternal: "https://h"}},
		"behind one without":      {by: byTLS(true), info: map[string]any{fieldExternal: "http://h"}, says: "by https alone"},
		"its own image by TLS":    {by: byTLS(false), info: map[string]any{ownramdisk.ImageField: "https://h/i.iso"}},
		"its own without":         {by: byTLS(true), info: map[string]any{ownramdisk.ImageField: "http://h/i.iso"}, says: "by https alone"},
		"an image, with a second": {info: map[string]any{ownramdisk.ImageField: ramdiskISO, fieldRemovable: "true"}},
		"by its former name":      {info: map[string]any{ownramdisk.ImageField: ramdiskISO, fieldFloppy: true}},
		"for rescues":             {info: map[string]any{fieldRescue: ramdiskISO, fieldRemovable: "True"}},
		"a second, by HTTP":       {by: HTTPBoot, info: map[string]any{ownramdisk.ImageField: ramdiskISO, fieldRemovable: "true"}, says: "loads one image by HTTP"},
		"perhaps a second":        {info: map[string]any{ownramdisk.ImageField: ramdiskISO, fieldRemovable: "maybe"}, says: "give true or false"},
		"an arm64 machine":        {arch: "aarch64", says: "GRUB for x86_64"},
		"one in capitals":         {arch: "ARM64", says: "GRUB for x86_64"},
		"its own image":           {arch: "aarch64", info: map[string]any{ownramdisk.ImageField: ramdiskISO}},
		"a class for arm64":       {class: "arm", says: "kernel that the rack has for it"},
		"with its own kernel":     {class: "arm", info: map[string]any{"deploy_kernel": "http://h/k", "deploy_ramdisk": "http://h/r"}},
		"another class":           {arch: "x86_64", class: "gpu", says: "--ramdisk-for class=gpu has no kernel= and ramdisk="},
		"how long":                {info: map[string]any{persistField: "Sometimes"}, says: persistField},
	} {
		by := c.by
		if by == nil {
			by = VirtualMedia
		}
		n := &node.Document{UUID: "x", DriverInfo: c.info, NetworkData: []byte(c.network)}
		n.Properties = map[string]any{"cpu_arch": c.arch}
		if c.mode != "" {
			n.Properties["capabilities"] = "boot_mode:" + c.mode
		}
		made := by(func(string) error { return c.problem })
		if n.ResourceClass = c.class; c.class != "" {
			racks, err := rackramdisk.New(bootfiles.Paths{Kernel: "k", Ramdisk: "r"}, []rackramdisk.Ramdisk{{Class: "gpu", UKI: "u"}, {Class: "arm", Kernel: arm, Initramfs: "r"}})
			if err != nil {
				t.Fatal(err)
			}
			made = made.Of(racks)
		}
		err := made.Validate(n)
		if (err == nil) != (c.says == "") || err != nil && (!errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}

// byTLS is of firmware that loads by https alone, in a rack that serves it so or not.
func byTLS(served bool) func(func(string) error) Interface {
	return func(problem func(string) error) Interface { return HTTPSBoot(problem, served) }
}

// Each boot by https has an address of its own, which tells the ramdisk its parameters and ends with the boot. A boot that was prepared
// and never made ends so, too.
func TestImagesByTLSEndWithTheirBoot(t *testing.T) {
	_, k, l, s := loadingTask(t, nil)
	s.secure, k.Node.DriverInfo = "https://192.0.2.5:8443", map[string]any{"kernel_append_params": "quiet"}
	i := HTTPSBoot(fine, true)
	for n := range 2 {
		if err := i.PrepareRamdisk(t.Context(), k); err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("https://192.0.2.5:8443/media/u/secret%d/boot.iso false", n+1); len(l.sets) != n+1 || l.sets[n] != want {
			t.Errorf("the firmware was told %q, want %q as the last", l.sets, want)
		}
		if load, made := i.Medium(k.Node, k.Facts); !made || !slices.Contains(load.Params, "quiet") {
			t.Errorf("the image has %+v, made: %t", load, made)
		}
		if s.withdrawn {
			t.Error("the address of the image has ended before its boot")
		}
		if err := i.CleanUpRamdisk(t.Context(), k); err != nil || !s.withdrawn || k.Facts[factAt] != "" {
			t.Errorf("after the boot: %v, withdrawn: %t, facts: %v", err, s.withdrawn, k.Facts)
		}
		s.withdrawn = false
	}
	if err := i.PrepareRamdisk(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	if err := i.PrepareInstance(t.Context(), k); err != nil || !s.withdrawn || l.is.Device != "disk" {
		t.Errorf("into the instance: %v, withdrawn: %t, the machine boots %q", err, s.withdrawn, l.is.Device)
	}
}

// UEFI firmware is told the URL for one boot. Where management cannot tell it, the pair is refused.
func TestHTTPBoot(t *testing.T) {
	k := task(t, &node.Document{UUID: "http"})
	i := HTTPBoot(fine)
	if _, can := k.Hardware.Management().(driver.HTTPBooter); can {
		t.Fatal("fake management has learnt to set URLs: choose for this test one that cannot")
	}
	if err := i.ValidateWith(k.Hardware, k.Node); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "cannot set a URL") {
		t.Errorf("management without URLs: %v", err)
	}
	k.Media = &server{}
	if err := i.PrepareRamdisk(t.Context(), k); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("prepared with %v", err)
	}
}

// A rackd may die between the drive and the checkpoint. The rackd that ends the flow knows the medium by its address, and takes it out.
func TestAMediumOfAPredecessorIsTakenOut(t *testing.T) {
	k := task(t, &node.Document{UUID: "pre"})
	k.Media = &server{}
	m := k.Hardware.Management().(driver.VirtualMedia)
	for image, stays := range map[string]bool{"http://192.0.2.4:8080/media/pre/secret/boot.iso": false, "http://192.0.2.4:8080/media/other/secret/boot.iso": true} {
		if err := m.AttachMedia(t.Context(), k.Fence, k.Node, "cdrom", image); err != nil {
			t.Fatal(err)
		}
		if err := VirtualMedia(fine).CleanUpRamdisk(t.Context(), k); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(state(t, k), image); got != stays {
			t.Errorf("%s is in the drive afterwards: %t", image, got)
		}
	}
}

// Firmware is sent to the server that speaks TLS, where there is one; a BMC is not, for it trusts other authorities.
func TestFirmwareLoadsByTLS(t *testing.T) {
	for by, want := range map[string]string{"firmware": "https://192.0.2.5:8443/media/u/secret1/boot.iso", "BMC": "http://192.0.2.5:8080/media/u/secret1/boot.iso", "external": "http://e/media/u/secret1/boot.iso"} {
		k := task(t, &node.Document{UUID: "tls"})
		k.Media = &server{secure: "https://192.0.2.5:8443"}
		i := HTTPBoot(fine)
		switch by {
		case "BMC":
			i = VirtualMedia(fine)
		case "external":
			k.Node.DriverInfo = map[string]any{fieldExternal: "http://e"}
		}
		if got, err := i.image(t.Context(), k, cdSlot); err != nil || got != want || !strings.HasPrefix(got, k.Facts[factAt]) {
			t.Errorf("%s: %q at %q, %v, want %q", by, got, k.Facts[factAt], err, want)
		}
	}
}

// Firmware that loads by https alone is told of rackd's own server by TLS, and of no image that comes without it.
func TestFirmwareThatLoadsByTLSAlone(t *testing.T) {
	i := HTTPSBoot(fine, true)
	for what, c := range map[string]struct {
		secure     string
		info       map[string]any
		want, says string
	}{
		"made here":                {secure: "https://192.0.2.5:8443", want: "https://192.0.2.5:8443/media/u/secret1/boot.iso"},
		"rackd has no certificate": {says: "no --https-certificate"},
		"behind a proxy":           {info: map[string]any{fieldExternal: "https://e"}, want: "https://e/media/u/secret1/boot.iso"},
		"the node's own":           {info: map[string]any{ownramdisk.ImageField: "https://h/i.iso"}, want: "https://h/i.iso"},
		"the node's own, by http":  {info: map[string]any{ownramdisk.ImageField: "http://h/i.iso"}, says: "by https alone"},
	} {
		k := task(t, &node.Document{UUID: "tls"})
		k.Media, k.Node.DriverInfo = &server{secure: c.secure}, c.info
		got, err := i.image(t.Context(), k, cdSlot)
		if c.says == "" && (err != nil || got != c.want) || c.says != "" && (!errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %q, %v, want %q %q", what, got, err, c.want, c.says)
		}
	}
	plain := map[string]any{fieldExternal: "http://e"}
	rescued := map[string]any{fieldRescue: "http://h/r.iso"}
	cd := &node.Document{UUID: "u", Interfaces: map[string]string{"deploy": "ramdisk"}, InstanceInfo: map[string]any{fieldInstance: "http://h/i.iso"}}
	for what, err := range map[string]error{"a proxy": i.Validate(&node.Document{UUID: "u", DriverInfo: plain}), "a rescue": i.ValidateRescue(&node.Document{UUID: "u", DriverInfo: rescued}),
		"a CD": i.Validate(cd), "a CD of an instance": i.ValidateInstanceFiles(cd)} {
		if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "by https alone") {
			t.Errorf("%s by http: %v", what, err)
		}
	}
}
