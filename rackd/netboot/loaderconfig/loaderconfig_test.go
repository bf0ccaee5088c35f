package loaderconfig

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/rackd/bootorder"
	"github.com/ironyard/ironyard/rackd/netboot"
	"github.com/ironyard/ironyard/rackd/netboot/ipxescript"
)

const mac = "52:54:00:00:00:01"

var files = ipxescript.Ramdisk{Server: ipxescript.Server{HTTP: "http://10.77.0.1:8080", TFTP: "tftp://10.77.0.1"}, Kernel: "kernel", Initramfs: "ramdisk", RescueInitramfs: "rescue-ramdisk",
	Params: []string{"console=ttyS0"}, Fingerprint: "f00d", Doors: []string{"https://10.77.0.1:6386"}}

func machine(o bootorder.Order) netboot.Machine {
	o.OverTFTP = true
	return netboot.Machine{UUID: "11111111-1111-4111-8111-111111111111", Name: "m1", State: "wait call-back", BootID: "s3cret", Order: o}
}

// cases are what a machine may be ordered, and words that its configurations hold: of GRUB, of pxelinux.
var cases = map[string]struct {
	order          bootorder.Order
	grub, pxelinux []string
}{
	"the rack's ramdisk": {bootorder.Ramdisk(bootorder.Load{Params: []string{"nomodeset"}}),
		[]string{"linux '/kernel' 'console=ttyS0' 'nomodeset' 'ironyard-api-fingerprint=f00d'", "boot/s3cret'", "'BOOTIF=01-52-54-00-00-00-01'", "initrd '/ramdisk'", "boots the ramdisk, state wait call-back"},
		[]string{"LINUX /kernel\nINITRD /ramdisk\nAPPEND console=ttyS0 nomodeset ironyard-api-fingerprint=f00d ", "ONERROR again", "LABEL again\nKERNEL /pxelinux.0\n"}},
	"a rescue": {bootorder.Ramdisk(bootorder.Load{Rescue: true}), []string{"initrd '/rescue-ramdisk'"}, []string{"INITRD /rescue-ramdisk"}},
	"files of its own": {bootorder.Ramdisk(bootorder.Load{Kernel: bootorder.File{URL: "http://10.77.0.1:8080/images/x", ID: "sha256-a"}, Initramfs: bootorder.File{URL: "tftp://10.0.0.9/dir/initrd"}}),
		[]string{"linux '/boot/own/52-54-00-00-00-01/kernel'", "initrd '(tftp,10.0.0.9)/dir/initrd'"}, []string{"LINUX /boot/own/52-54-00-00-00-01/kernel", "INITRD tftp://10.0.0.9/dir/initrd"}},
	"a hostile place":    {bootorder.Ramdisk(bootorder.Load{Kernel: bootorder.File{URL: "tftp://10.0.0.9/a' b"}, Initramfs: bootorder.File{URL: "tftp://h/i"}}), []string{"is no place that GRUB"}, []string{"is no place that GRUB"}},
	"hostile parameters": {bootorder.Ramdisk(bootorder.Load{Params: []string{"a=$(reboot)\n;{x}", `b="c"`}}), []string{"'a=_(reboot)_;{x}'", "'b=c'"}, []string{"a=_(reboot)_;{x}"}},
	"a space in quotes":  {bootorder.Instance(bootorder.Load{Kernel: bootorder.File{URL: "http://h/k", ID: "a"}, Initramfs: bootorder.File{URL: "http://h/r", ID: "b"}, Params: []string{`a="b`, `c"`}}), []string{"space within quotes", "reboot"}, []string{`a="b c"`}},
	"an apostrophe":      {bootorder.Ramdisk(bootorder.Load{Params: []string{"a='b'"}}), []string{"holds an apostrophe", "reboot"}, []string{"APPEND console=ttyS0 a='b'"}},
	"too long":           {bootorder.Ramdisk(bootorder.Load{Params: []string{strings.Repeat("x", 2100)}}), []string{"shorten these"}, []string{"shorten these", "PROMPT 1"}},
	"an instance":        {bootorder.Instance(bootorder.Load{Kernel: bootorder.File{URL: "http://h/k", ID: "a"}, Initramfs: bootorder.File{URL: "http://h/r", ID: "b"}, Params: []string{"root=/dev/ram0"}}), []string{"boots the instance", "linux '/boot/own/52-54-00-00-00-01/kernel' 'console=ttyS0' 'root=/dev/ram0'; then"}, []string{"APPEND console=ttyS0 root=/dev/ram0\n"}},
	"an installer": {bootorder.Install(bootorder.Load{Kernel: bootorder.File{URL: "http://h/k", ID: "a"}, Initramfs: bootorder.File{URL: "http://h/r", ID: "b"}, Instance: true, Params: []string{"text"}, Installer: &bootorder.Installer{Repository: "http://mirror.example/os/"}}),
		[]string{"boots the installer", "'text' 'inst.ks=http://10.77.0.1:8080/boot/installer/11111111-1111-4111-8111-111111111111/s3cret/ks.cfg' 'inst.repo=http://mirror.example/os/' 'BOOTIF=01-52-54-00-00-00-01'; then"}, []string{"boots the installer", " inst.repo=http://mirror.example/os/ BOOTIF="}},
	"an instance's no more":    {bootorder.Instance(bootorder.Load{}), []string{"names no kernel and ramdisk any more"}, []string{"names no kernel and ramdisk any more"}},
	"its disk":                 {bootorder.LocalDisk(), []string{"from its disk", "exit"}, []string{"LOCALBOOT 0"}},
	"a volume of its firmware": {bootorder.FirmwareVolume(), []string{"from its volume, which its firmware attaches", "exit"}, []string{"from its volume, which its firmware attaches", "LOCALBOOT 0"}},
	"later":                    {bootorder.Later("Node m1 asked 'too' early."), []string{"Node m1 asked _too_ early."}, []string{"TIMEOUT 50\n", "KERNEL /pxelinux.0"}},
	"nothing":                  {bootorder.Refuse(`Node m1 is in state "available".`), []string{`is in state "available".`, "reboot"}, []string{"TIMEOUT 300"}},
	"a volume":                 {bootorder.FromVolumes(bootorder.Volumes{}), []string{"use the boot interface ipxe"}, []string{"use the boot interface ipxe"}},
}

func TestConfigurations(t *testing.T) {
	for name, c := range cases {
		grub, pxelinux := GRUB(machine(c.order), mac, files), PXELinux(machine(c.order), mac, files)
		for _, w := range c.grub {
			if !strings.Contains(grub, w) {
				t.Errorf("%s: GRUB is not told %q:\n%s", name, w, grub)
			}
		}
		for _, w := range c.pxelinux {
			if !strings.Contains(pxelinux, w) {
				t.Errorf("%s: pxelinux is not told %q:\n%s", name, w, pxelinux)
			}
		}
		if c.order.Load == nil && strings.Contains(grub+pxelinux, "s3cret") {
			t.Errorf("%s: the id of the boot is told to a machine without a ramdisk", name)
		}
		check(t, name, grub)
	}
	for name, text := range map[string]string{"main": GRUBMain(), "unknown": GRUBUnknown("the address " + mac), "foreign": GRUBForeign(), "unheard": GRUBUnheard(machine(bootorder.Order{}), mac, files)} {
		check(t, name, text)
		if strings.Contains(text, "m1") {
			t.Errorf("%s: a stranger is told of the node:\n%s", name, text)
		}
	}
	for name, text := range map[string]string{"unknown": PXELinuxUnknown("the address " + mac), "foreign": PXELinuxForeign(), "unheard": PXELinuxUnheard(machine(bootorder.Order{}), mac, files)} {
		if strings.Contains(text, "m1") || !strings.Contains(text, "DEFAULT again") {
			t.Errorf("%s: a stranger is told:\n%s", name, text)
		}
	}
}

// check has GRUB's own parser read a configuration, where it is installed.
func check(t *testing.T, name, text string) {
	t.Helper()
	tool, err := exec.LookPath("grub-script-check")
	if err != nil {
		t.Logf("%s: NOT CHECKED by grub-script-check: needs Debian's package grub-common", name)
		return
	}
	cmd := exec.Command(tool)
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s: GRUB does not read its configuration: %v: %s\n%s", name, err, out, text)
	}
}
