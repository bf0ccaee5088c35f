package ipxescript

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/rackd/netboot"
)

var files = Ramdisk{HTTP: "http://10.77.0.1:8080", TFTP: "tftp://10.77.0.1", Kernel: "kernel", Initramfs: "ramdisk",
	Params: []string{"console=ttyS0", "ipa-api-url=https://10.77.0.1:6386"}}

func TestGolden(t *testing.T) {
	base := netboot.Machine{UUID: "11111111-1111-4111-8111-111111111111", Name: "m1", State: "wait call-back", BootMode: "uefi"}
	for name, change := range map[string]func(*netboot.Machine){
		"ramdisk-http": func(m *netboot.Machine) { m.Order = netboot.Ramdisk },
		"ramdisk-tftp": func(m *netboot.Machine) { m.Order, m.OverTFTP = netboot.Ramdisk, true },
		"local-uefi":   func(m *netboot.Machine) { m.Order = netboot.LocalDisk },
		"local-bios":   func(m *netboot.Machine) { m.Order, m.BootMode = netboot.LocalDisk, "bios" },
		"refuse":       func(m *netboot.Machine) { m.Reason = "Node m1 is in state \"available\": nothing to boot." },
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

// Whatever an operator calls a node, the script has the lines it should have.
func FuzzNamesCannotAddLines(f *testing.F) {
	f.Add("m1", "reason")
	f.Add("m1\nshell", "x || shell")
	f.Add("${net0/mac}", "\x1b[2J")
	f.Fuzz(func(t *testing.T, name, reason string) {
		for order := netboot.Refuse; order <= netboot.LocalDisk; order++ {
			m := netboot.Machine{UUID: "u", Name: name, Reason: reason, Order: order}
			got := Write(m, "52:54:00:00:00:01", files)
			m.Name, m.Reason = "n", "r"
			want := Write(m, "52:54:00:00:00:01", files)
			if strings.Count(got, "\n") != strings.Count(want, "\n") || strings.Count(got, "||") != strings.Count(want, "||") || strings.Contains(got, "${") {
				t.Errorf("name %q, reason %q: script\n%s", name, reason, got)
			}
		}
	})
}
