package ipxescript

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/rackd/bootorder"
	"github.com/ironyard/ironyard/rackd/netboot"
)

var files = Ramdisk{Server: Server{HTTP: "http://10.77.0.1:8080", TFTP: "tftp://10.77.0.1"}, Kernel: "kernel", Initramfs: "ramdisk",
	Params: []string{"console=ttyS0"}, Fingerprint: "f00d", Doors: []string{"https://10.77.0.1:6386", "https://10.77.0.2:6386"}}

func TestGolden(t *testing.T) {
	base := netboot.Machine{UUID: "11111111-1111-4111-8111-111111111111", Name: "m1", State: "wait call-back", BootMode: "uefi", BootID: "s3cret"}
	for name, change := range map[string]func(*netboot.Machine){
		"ramdisk-http": func(m *netboot.Machine) { m.Order = bootorder.Ramdisk(bootorder.Load{}) },
		"ramdisk-tftp": func(m *netboot.Machine) { m.Order = bootorder.Order{Load: &bootorder.Load{}, OverTFTP: true} },
		"later":        func(m *netboot.Machine) { m.Order = bootorder.Later("Node m1 asked too early.") },
		"local-uefi":   func(m *netboot.Machine) { m.Order = bootorder.LocalDisk() },
		"local-bios":   func(m *netboot.Machine) { m.Order, m.BootMode = bootorder.LocalDisk(), "bios" },
		"ramdisk-own": func(m *netboot.Machine) {
			m.Name = ""
			m.Order = bootorder.Ramdisk(bootorder.Load{Kernel: bootorder.File{URL: "https://files.example/vmlinuz?a=1&b=2"}, Initramfs: bootorder.File{URL: "tftp://10.0.0.9/initrd"}})
			m.Order.Load.Params = []string{"nomodeset", "quiet=${x} || shell", "ipa-api-url=https://evil.example", "ironyard-api-fingerprint=bad", "initrd=other", `x="`}
		},
		"volume": func(m *netboot.Machine) {
			m.Order = bootorder.FromVolumes(bootorder.Volumes{Initiator: "iqn.2026-11.org.example:m1", List: []bootorder.Volume{
				{Name: "boot", URIs: []string{"iscsi:10.0.0.9::3260:1:iqn.2026-11.org.example:boot", "iscsi:[2001:db8::9]::3260:1:iqn.2026-11.org.example:boot"}, User: "m1", Secret: "se ${x}#|"},
				{Name: "data", URIs: []string{"iscsi:10.0.0.9::3261:a:iqn.2026-11.org.example:data"}}}})
		},
		"volume-mutual": func(m *netboot.Machine) {
			m.Order = bootorder.FromVolumes(bootorder.Volumes{List: []bootorder.Volume{
				{Name: "boot", URIs: []string{"iscsi:10.0.0.9::3260:1:iqn.2026-11.org.example:boot"}, User: "m1", Secret: "mine", TargetUser: "t", TargetSecret: "the${x}irs"},
				{Name: "data", URIs: []string{"iscsi:10.0.0.9::3261:a:iqn.2026-11.org.example:data"}, User: "m1", Secret: "mine"}}})
		},
		"ramdisk-too-long": func(m *netboot.Machine) {
			m.Order = bootorder.Ramdisk(bootorder.Load{Params: []string{strings.Repeat("x", 2000)}})
		},
		"ramdisk-bad-url": func(m *netboot.Machine) {
			m.Order = bootorder.Ramdisk(bootorder.Load{Kernel: bootorder.File{URL: "file:///etc/shadow"}})
		},
		"instance": func(m *netboot.Machine) {
			m.State = "active"
			m.Order = bootorder.Instance(bootorder.Load{Kernel: bootorder.File{URL: "http://10.77.0.1:8080/images/k"}, Initramfs: bootorder.File{URL: "http://10.77.0.1:8080/images/r"},
				Params: []string{"root=/dev/ram0", "text", "console=tty0 || shell", "a=b"}})
		},
		"installer": func(m *netboot.Machine) {
			m.Order = bootorder.Install(bootorder.Load{Kernel: bootorder.File{URL: "http://10.77.0.1:8080/images/k"}, Initramfs: bootorder.File{URL: "http://10.77.0.1:8080/images/r"},
				Instance: true, Params: []string{"text", "inst.sshd"}, Installer: &bootorder.Installer{Stage2: bootorder.File{URL: "http://10.77.0.1:8080/images/s"}, Ending: ".tgz"}})
		},
		"installer-repository": func(m *netboot.Machine) {
			m.Order = bootorder.Install(bootorder.Load{Kernel: bootorder.File{URL: "http://10.77.0.1:8080/images/k"}, Initramfs: bootorder.File{URL: "http://10.77.0.1:8080/images/r"},
				Instance: true, Params: []string{"text"}, Installer: &bootorder.Installer{Repository: "http://mirror.example/os/ || shell"}})
		},
		"firmware-volume": func(m *netboot.Machine) { m.State, m.Order, m.BootMode = "active", bootorder.FirmwareVolume(), "uefi" },
		"instance-gone":   func(m *netboot.Machine) { m.Order = bootorder.Instance(bootorder.Load{}) },
		"instance-image": func(m *netboot.Machine) {
			m.State, m.BootMode = "active", "bios"
			m.Order = bootorder.Image(bootorder.File{URL: "http://10.77.0.1:8080/images/i"})
		},
		"instance-image-gone": func(m *netboot.Machine) { m.Order = bootorder.Image(bootorder.File{}) },
		"refuse": func(m *netboot.Machine) {
			m.Order = bootorder.Refuse("Node m1 is in state \"available\": nothing to boot.")
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := base
			change(&m)
			got := Write(m, "52:54:00:00:00:01", files)
			golden := filepath.Join("testdata", name+".ipxe")
			if os.Getenv("UPDATE_GOLDEN") != "" {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

// A machine whose rackd dies while it boots finds another one.
func TestOthersAreAskedWhenTheServerHasGone(t *testing.T) {
	r := files
	r.Others = []Server{{"http://10.77.0.2:8080", "tftp://10.77.0.2"}, {"http://10.77.0.3:8080", "tftp://10.77.0.3"}}
	m := netboot.Machine{UUID: "11111111-1111-4111-8111-111111111111", Order: bootorder.Ramdisk(bootorder.Load{})}
	for _, c := range []struct {
		mac, path string
		tftp      bool
	}{
		{"52:54:00:00:00:01", "/boot/script?mac=52%3A54%3A00%3A00%3A00%3A01", false},
		{"52:54:00:00:00:01", "/boot/script/52-54-00-00-00-01", true},
		{"", "/boot/script?uuid=11111111-1111-4111-8111-111111111111", false},
	} {
		m.Order.OverTFTP = c.tftp
		want := "sleep 5\n"
		for _, s := range []Server{r.Server, r.Others[0], r.Others[1]} {
			base := s.HTTP
			if c.tftp {
				base = s.TFTP
			}
			want += "chain --replace " + base + c.path + " || "
		}
		if got := Write(m, c.mac, r); !strings.HasSuffix(got, want+"reboot\n") {
			t.Errorf("script\n%s\ndoes not end with\n%s", got, want)
		}
	}
}

// An installer tries the kickstart and the system of each rackd, this one's last: an old installer knows the last alone.
func TestInstallersKnowTheOthers(t *testing.T) {
	r := files
	r.Others = []Server{{"http://10.77.0.2:8080", "tftp://10.77.0.2"}}
	m := netboot.Machine{UUID: "u", BootID: "b/?", Order: bootorder.Install(bootorder.Load{Kernel: bootorder.File{URL: "http://x/k"}, Initramfs: bootorder.File{URL: "http://x/r"},
		Instance: true, Installer: &bootorder.Installer{Stage2: bootorder.File{URL: "http://x/s"}}})}
	want := "inst.ks=http://10.77.0.2:8080/boot/installer/u/b%2F%3F/ks.cfg inst.ks=" + r.HTTP + "/boot/installer/u/b%2F%3F/ks.cfg inst.ks.all " +
		"inst.stage2=http://10.77.0.2:8080/boot/installer/u/b%2F%3F/stage2 inst.stage2=" + r.HTTP + "/boot/installer/u/b%2F%3F/stage2 inst.stage2.all BOOTIF=01-52-54-00-00-00-01 "
	if got := Write(m, "52:54:00:00:00:01", r); !strings.Contains(got, want) || strings.Contains(got, "ipa-") {
		t.Errorf("the script is\n%s\nwant %s", got, want)
	}
}

func TestByUUIDTheInterfaceIsLeftToIPXE(t *testing.T) {
	got := Write(netboot.Machine{UUID: "11111111-1111-4111-8111-111111111111", Order: bootorder.Ramdisk(bootorder.Load{})}, "", files)
	for _, want := range []string{"BOOTIF=01-${netX/mac:hexhyp}", "/boot/script?uuid=11111111-1111-4111-8111-111111111111", "/files/kernel initrd=ramdisk"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

// What is said to a caller that is not known to be the machine names no node, no state and no boot.
func TestStrangersAreToldNothingOfTheNode(t *testing.T) {
	m := netboot.Machine{UUID: "11111111-1111-4111-8111-111111111111", Name: "m1", State: "wait call-back", Order: bootorder.Ramdisk(bootorder.Load{}), BootID: "s3cret"}
	for name, got := range map[string]string{"unheard": WriteUnheard(m, "52:54:00:00:00:01", files), "foreign": WriteForeign(), "elsewhere": WriteElsewhere("", "52:54:00:00:00:01", files)} {
		for _, secret := range []string{m.UUID, m.Name, string(m.State), m.BootID, "kernel"} {
			if strings.Contains(got, secret) {
				t.Errorf("%s: %q is in\n%s", name, secret, got)
			}
		}
		if !strings.HasPrefix(got, "#!ipxe\n") || !strings.Contains(got, "reboot\n") {
			t.Errorf("%s: no script that ends:\n%s", name, got)
		}
	}
	if got := WriteUnheard(m, "52:54:00:00:00:01", files); !strings.Contains(got, "\ndhcp netX ||\nchain --replace http://10.77.0.1:8080/boot/script?mac=") {
		t.Errorf("the machine does not speak DHCP before it asks again:\n%s", got)
	}
}

// Whom the agent calls and believes comes last on the line, where it wins, and no node's
// parameter of that name is on it.
// By IPv6 a machine speaks DHCPv6 before it asks again, and URLs hold the address as iPXE reads it.
func TestByIPv6(t *testing.T) {
	r := files
	r.Server, r.Doors = Server{HTTP: "http://[fd00::1]:8080", TFTP: "tftp://[fd00::1]"}, []string{"https://[fd00::1]:6386"}
	m := netboot.Machine{UUID: "11111111-1111-4111-8111-111111111111", Order: bootorder.Ramdisk(bootorder.Load{}), BootID: "s3cret"}
	if got := WriteUnheard(m, "52:54:00:00:00:01", r); !strings.Contains(got, "\nifconf --configurator ipv6 netX ||\nchain --replace http://[fd00::1]:8080/boot/script?mac=") {
		t.Errorf("an address is not known:\n%s", got)
	}
	got := Write(m, "52:54:00:00:00:01", r)
	for _, want := range []string{"kernel http://[fd00::1]:8080/files/kernel?mac=", "initrd --name ramdisk http://[fd00::1]:8080/files/ramdisk?mac=", " ipa-api-url=https://[fd00::1]:6386/boot/s3cret "} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

func TestOwnWordsWin(t *testing.T) {
	m := netboot.Machine{UUID: "u", Order: bootorder.Ramdisk(bootorder.Load{}), State: "inspect wait", BootID: "s3cret"}
	for _, name := range []string{"ipa-api-url", "IPA-API-URL", "ipa_api_url", `"ipa-api-url`, "ironyard-api-fingerprint", "ironyard-node", "BOOTIF", "initrd", "ipa-guard-special-filesystems", "ipa-insecure", "ipa-inspection-callback-url"} {
		m.Order.Load.Params = append(m.Order.Load.Params, name+"=evil", name)
	}
	m.Order.Load.Params = append(m.Order.Load.Params, "console=ttyS1")
	r := files
	r.Inspection = true
	got := Write(m, "52:54:00:00:00:01", r)
	_, line, _ := strings.Cut(got, "initrd=ramdisk ")
	line, _, _ = strings.Cut(line, " || goto")
	want := "console=ttyS0 console=ttyS1 ironyard-api-fingerprint=f00d ipa-api-url=https://10.77.0.1:6386/boot/s3cret,https://10.77.0.2:6386/boot/s3cret" +
		" ipa-inspection-callback-url=https://10.77.0.1:6386/boot/s3cret/v1/continue_inspection ironyard-node=u BOOTIF=01-52-54-00-00-00-01"
	if line != want {
		t.Errorf("command line\n%s\nwant\n%s", line, want)
	}
}

// Whatever an operator calls a node and tells its kernel, the script has the
// commands that it should have.
func FuzzTextCannotAddCommands(f *testing.F) {
	f.Add("m1", "reason", "quiet", "http://h/k")
	f.Add("m1\nshell", "x || shell", "a b", "tftp://h/k?a=${b}")
	f.Add("${net0/mac}", "\x1b[2J", "&& shell", "http://h/ || shell")
	f.Add("-n", "--help", "#", "http://h/\nshell")
	f.Add("", "&&&", "&|&|", "http://h/&&")
	f.Add("\xd3", "\x9eK", "\"", "http\xa0:")
	f.Fuzz(func(t *testing.T, name, reason, param, kernel string) {
		orders := func(reason, param, kernel string) []bootorder.Order {
			load := bootorder.Load{Params: []string{param}, Kernel: bootorder.File{URL: kernel}}
			return []bootorder.Order{bootorder.Refuse(reason), bootorder.Ramdisk(load), bootorder.LocalDisk(), bootorder.Later(reason),
				bootorder.FromVolumes(bootorder.Volumes{Initiator: "iqn." + param, List: []bootorder.Volume{{Name: "v" + name, URIs: []string{"iscsi:" + kernel}, User: "u" + param, Secret: "s" + reason}}})}
		}
		for i, order := range orders(reason, param, kernel) {
			got := Write(netboot.Machine{UUID: "u", Name: name, Order: order}, "52:54:00:00:00:01", files)
			plain := netboot.Machine{UUID: "u", Name: "n", Order: orders("r", "p", "http://h/k")[i]}
			if agentapi.Reserved(param) && plain.Order.Load != nil {
				plain.Order.Load.Params = nil
			}
			if strings.Contains(got, "nothing to boot") {
				plain.Order = bootorder.Refuse("r")
			}
			want := strings.Split(Write(plain, "52:54:00:00:00:01", files), "\n")
			lines := strings.Split(got, "\n")
			if len(lines) != len(want) || strings.Contains(got, "${") || strings.Contains(got, "&&") ||
				strings.Count(got, "||") != strings.Count(strings.Join(want, "\n"), "||") {
				t.Fatalf("name %q, reason %q, parameter %q, kernel %q: script\n%s", name, reason, param, kernel, got)
			}
			for i, l := range lines {
				for _, r := range l {
					if r < ' ' || r > '~' {
						t.Fatalf("line %d has %q", i, r)
					}
				}
				command, _, _ := strings.Cut(l, " ")
				expected, _, _ := strings.Cut(want[i], " ")
				if command != expected || command == "echo" && strings.Contains(l, " -") {
					t.Fatalf("line %d is %q, want a %s", i, l, expected)
				}
				if command == "kernel" && len(strings.Fields(l)) > len(strings.Fields(want[i])) {
					t.Fatalf("the parameter %q became several: %s", param, l)
				}
			}
		}
	})
}

// The kernel cuts off the end of a command line that is too long. What it reads whole is written, and one byte more is refused.
func TestTheLengthOfACommandLine(t *testing.T) {
	m := netboot.Machine{UUID: "11111111-1111-4111-8111-111111111111", Order: bootorder.Ramdisk(bootorder.Load{Params: []string{"x"}})}
	const mac = "52:54:00:00:00:01"
	words, err := CommandLine(m, mac, files)
	if err != nil {
		t.Fatal(err)
	}
	room := agentapi.MaxCommandLine - len("initrd=ramdisk "+strings.Join(words, " "))
	m.Order.Load.Params[0] += strings.Repeat("x", room)
	if script := Write(m, mac, files); !strings.Contains(script, "initrd=ramdisk console=ttyS0 "+m.Order.Load.Params[0]+" ") {
		t.Errorf("what fits is not written:\n%s", script)
	}
	m.Order.Load.Params[0] += "x"
	if words, err := CommandLine(m, mac, files); err == nil || !strings.Contains(err.Error(), "--kernel-params") {
		t.Errorf("one byte more: %q, %v", words, err)
	}
	if script := Write(m, mac, files); strings.Contains(script, "xx") || !strings.Contains(script, "nothing to boot") {
		t.Errorf("one byte more is written:\n%s", script)
	}
}
