package ssh

import (
	"regexp"
	"strings"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/libvirt"
)

// dialect is how a virtualisation is told what to do: commands, and what is read from what they print.
type dialect struct {
	base   string // the program with what stands before each command
	list   string
	listIn func(text string) []string
	macs   func(id string) string
	macsIn func(text string) []string
	// state prints what on reads.
	state func(id string) string
	on    func(text string) bool
	// start, stop and shutdown are orders; shutdown asks the system.
	start, stop, shutdown func(id string) string
	// devices are the words for boot devices; empty: it knows none.
	devices map[driver.BootDevice]string
	// boot prints what first reads: the word of the first device.
	boot  func(id string) string
	first func(text string) string
	// setBoot is the command that makes a device the first. input is for its standard input, from what boot printed.
	setBoot func(id, word string) string
	input   func(text, word string) (string, error)
	// offOnly: a boot device is taken only while the machine is off.
	offOnly bool
}

// quoted is a word for a shell.
func quoted(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// lines are those of a text that are not empty.
func lines(text string) (list []string) {
	for _, l := range strings.Split(text, "\n") {
		if l = strings.TrimSpace(l); l != "" {
			list = append(list, l)
		}
	}
	return list
}

// every returns a reader of what a pattern captures, as MAC addresses without separators or as it is.
func every(pattern string, turn func(string) string) func(string) []string {
	p := regexp.MustCompile(pattern)
	return func(text string) (list []string) {
		for _, m := range p.FindAllStringSubmatch(text, -1) {
			list = append(list, turn(m[1]))
		}
		return list
	}
}

// one returns a reader of the first that a pattern captures.
func one(pattern string) func(string) string {
	p := regexp.MustCompile(pattern)
	return func(text string) string {
		if m := p.FindStringSubmatch(text); m != nil {
			return m[1]
		}
		return ""
	}
}

func same(s string) string { return s }

// dialects are Ironic's ssh_virt_types. Each is made for a node: libvirt's URI, and whether VirtualBox has a display.
var dialects = map[string]func(uri string, headless bool) dialect{
	"virsh": func(uri string, _ bool) dialect {
		base := "LC_ALL=C /usr/bin/virsh --quiet --connect " + quoted(uri) + " "
		of := func(verb string) func(string) string {
			return func(id string) string { return base + verb + " " + quoted(id) }
		}
		return dialect{base: base, list: base + "list --all --uuid", listIn: lines,
			macs: of("dumpxml --inactive"), macsIn: every(`<mac address='([0-9A-Fa-f:]+)'`, bare),
			state: of("domstate"), on: func(text string) bool {
				text = strings.TrimSpace(text)
				return text != "shut off" && text != "crashed"
			},
			start: of("start"), stop: of("destroy"), shutdown: of("shutdown"),
			devices: map[driver.BootDevice]string{driver.BootDisk: "hd", driver.BootPXE: "network", "cdrom": "cdrom"},
			boot:    of("dumpxml --inactive --security-info"), first: libvirt.FirstDevice,
			setBoot: func(string, string) string { return base + "define /dev/stdin" }, input: libvirt.BootFrom}
	},
	"vbox": func(_ string, headless bool) dialect {
		base := "LC_ALL=C /usr/bin/VBoxManage "
		of := func(before, after string) func(string) string {
			return func(id string) string { return base + before + " " + quoted(id) + after }
		}
		mode := ""
		if headless {
			mode = " --type headless"
		}
		state := one(`(?m)^VMState="([a-z]+)"`)
		return dialect{base: base, list: base + "list vms", listIn: every(`\{([0-9a-f-]+)\}`, same),
			macs: of("showvminfo --machinereadable", ""), macsIn: every(`macaddress[0-9]+="([0-9A-Fa-f]+)"`, bare),
			state: of("showvminfo --machinereadable", ""), on: func(text string) bool {
				switch state(text) {
				case "poweroff", "saved", "aborted", "":
					return false
				}
				return true
			},
			start: of("startvm", mode), stop: of("controlvm", " poweroff"), shutdown: of("controlvm", " acpipowerbutton"),
			devices: map[driver.BootDevice]string{driver.BootDisk: "disk", driver.BootPXE: "net", "cdrom": "dvd"},
			boot:    of("showvminfo --machinereadable", ""), first: one(`(?m)^boot1="([a-z]+)"`),
			setBoot: func(id, word string) string { return base + "modifyvm " + quoted(id) + " --boot1 " + word }, offOnly: true}
	},
	"vmware": func(string, bool) dialect {
		base := "LC_ALL=C /bin/vim-cmd "
		of := func(verb string) func(string) string {
			return func(id string) string { return base + verb + " " + quoted(id) }
		}
		return dialect{base: base, list: base + "vmsvc/getallvms", listIn: every(`(?m)^([0-9]+)\s`, same),
			macs: of("vmsvc/device.getdevices"), macsIn: every(`macAddress = "([0-9A-Fa-f:]+)"`, bare),
			state: of("vmsvc/power.getstate"), on: func(text string) bool {
				return strings.Contains(text, "Powered on") || strings.Contains(text, "Suspended")
			},
			start: of("vmsvc/power.on"), stop: of("vmsvc/power.off"), shutdown: of("vmsvc/power.shutdown")}
	},
	"parallels": func(string, bool) dialect {
		base := "LC_ALL=C /usr/bin/prlctl "
		of := func(before, after string) func(string) string {
			return func(id string) string { return base + before + " " + quoted(id) + after }
		}
		return dialect{base: base, list: base + "list -a -o uuid", listIn: every(`\{([0-9a-f-]+)\}`, same),
			macs: of("list -i -j", ""), macsIn: every(`"mac":\s*"([0-9A-Fa-f:]+)"`, bare),
			state: of("list -i", ""), on: func(text string) bool { return one(`(?m)^State: (\w+)`)(text) != "stopped" },
			start: of("start", ""), stop: of("stop", " --kill"), shutdown: of("stop", ""),
			devices: map[driver.BootDevice]string{driver.BootDisk: "hdd0", driver.BootPXE: "net0", "cdrom": "cdrom0"},
			boot:    of("list -i", ""), first: one(`(?m)^Boot order: (\S+)`),
			setBoot: func(id, word string) string {
				return base + "set " + quoted(id) + " --device-bootorder " + quoted(word)
			}, offOnly: true}
	},
	"xenserver": func(string, bool) dialect {
		base := "LC_ALL=C /opt/xensource/bin/xe "
		of := func(before, after string) func(string) string {
			return func(id string) string { return base + before + "=" + quoted(id) + after }
		}
		return dialect{base: base, list: base + "vm-list is-control-domain=false --minimal", listIn: every(`([0-9a-f]{8}-[0-9a-f-]{27})`, same),
			macs: of("vif-list params=MAC --minimal vm-uuid", ""), macsIn: every(`([0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){5})`, bare),
			state: of("vm-param-get param-name=power-state uuid", ""), on: func(text string) bool { return strings.TrimSpace(text) != "halted" },
			start: of("vm-start uuid", ""), stop: of("vm-shutdown uuid", " force=true"), shutdown: of("vm-shutdown uuid", ""),
			devices: map[driver.BootDevice]string{driver.BootDisk: "c", driver.BootPXE: "n", "cdrom": "d"},
			boot:    of("vm-param-get param-name=HVM-boot-params param-key=order uuid", ""), first: func(text string) string { return string([]byte(strings.TrimSpace(text) + " ")[:1]) },
			setBoot: func(id, word string) string {
				return base + "vm-param-set uuid=" + quoted(id) + " HVM-boot-params:order=" + word
			}}
	},
}
