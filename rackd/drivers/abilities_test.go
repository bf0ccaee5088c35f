package drivers

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// abilities are what management interfaces may be able to do besides, by the interface of package driver. What calls one leaves a
// machine out in silence whose management has it not.
var abilities = []struct {
	of, shown string
	has       func(driver.Management) bool
}{
	{"Sensors", "sensors", can[driver.Sensors]},
	{"EventLog", "event log", can[driver.EventLog]},
	{"EventSource", "events", can[driver.EventSource]},
	{"EventSender", "events posted", can[driver.EventSender]},
	{"Indicators", "light", can[driver.Indicators]},
	{"HealthReader", "health", can[driver.HealthReader]},
	{"Observer", "all states at once", can[driver.Observer]},
	{"VendorDetector", "vendor", can[driver.VendorDetector]},
	{"Clock", "clock", can[driver.Clock]},
	{"SecureBooter", "secure boot", can[driver.SecureBooter]},
	{"HTTPBooter", "UEFI HTTP", can[driver.HTTPBooter]},
	{"VirtualMedia", "virtual media", can[driver.VirtualMedia]},
	{"MediaTruster", "media verified by TLS", can[driver.MediaTruster]},
	{"ISCSIBooter", "iSCSI target", can[driver.ISCSIBooter]},
	{"OneStartClearer", "a device for one start taken back", can[driver.OneStartClearer]},
	{"StartTeller", "how far a start is", can[driver.StartTeller]},
}

func can[A any](m driver.Management) bool { _, is := m.(A); return is }

// notAbilities are the other interfaces of package driver: kinds of interfaces, what other kinds than management may be, what tells of a
// management interface where nothing is asked of the machine, and what tasks are lent.
var notAbilities = strings.Fields(`Power Management Boot Deploy Inspect Rescuer BIOS Firmware RAID Console Serial Graphical Vendor Interface StepSource
	MediumBooter VolumeBooter RescueBooter Sourced Paired NetworkBooter Adopter InstanceBooter InstallerBooter MediaBooter InBand Remembers InstanceReader
	Located FixedBootOrder Keeper Accounted Resting Withheld Line Fence EventStream Media MediumMaker Secrets Recorder Agent Images ImageFiles
	InstanceMediumMaker ParametersMaker MediumWatcher Bootless InstanceIgnorer InfoIgnorer InstanceLoader ByPorts`)

// A new interface of package driver is asked here whether it is an ability of management.
func TestEveryAbilityIsInTheTable(t *testing.T) {
	known := slices.Clone(notAbilities)
	for _, a := range abilities {
		known = append(known, a.of)
	}
	files, err := filepath.Glob("../driver/*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	found := 0
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			spec, is := n.(*ast.TypeSpec)
			if !is || !spec.Name.IsExported() {
				return true
			}
			if _, is := spec.Type.(*ast.InterfaceType); is {
				found++
				if !slices.Contains(known, spec.Name.Name) {
					t.Errorf("%s: %s is neither in abilities nor in notAbilities", name, spec.Name.Name)
				}
			}
			return true
		})
	}
	if found < len(abilities) {
		t.Errorf("%d interfaces were found", found)
	}
}

// watched are the abilities by which machines are watched. A management interface that reaches a BMC has them, or the reason stands in
// unwatched.
var watched = []string{"Sensors", "EventLog", "Indicators", "VendorDetector"}

// unwatched are management interfaces without some of these, each with its reason.
var unwatched = map[string]string{
	"libvirt":    "a virtual machine has none of them",
	"virtualbox": "a virtual machine has none of them",
	"ssh":        "a virtual machine has none of them",
	"rpc":        "the hooks have no words for them",
	"amt":        "AMT has no sensors, and its log and lights are not spoken",
	"seamicro":   "the chassis's API tells none of a server",
	"msftocs":    "the Chassis Manager's API tells none that the driver reads",
	"ucsm":       "the XML API's faults and sensors are not read; the vendor is",
	"cimc":       "the XML API's faults and sensors are not read, which Redfish of the same IMC tells; the vendor is",
	"asrockrack": "bmclib's provider tells of the sensors whether all are well, and no reading; the interface ipmitool of the same boards has them",
	"noop":       "it reaches nothing",
	"fake":       "it has a light and no BMC",
}

const hardwarePage = "../../docs/hardware.md"

const tableBegins, tableEnds = "<!-- abilities: written by UPDATE_DOCS=1 go test ./rackd/drivers -->\n", "<!-- /abilities -->\n"

// Each management interface of each hardware type and what it can do, as the page shows it. A type that loses one in silence differs.
func TestWhatEachTypeCanDo(t *testing.T) {
	s, err := Open(all)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close(t.Context()) }()
	var table strings.Builder
	table.WriteString("| hardware type: management |")
	for _, a := range abilities {
		table.WriteString(" " + a.shown + " |")
	}
	table.WriteString("\n|---|" + strings.Repeat("---|", len(abilities)) + "\n")
	kinds := s.Describe()
	for _, name := range all.Enabled {
		for _, impl := range kinds[name]["management"] {
			hw, err := s.Resolve(&node.Document{UUID: "u", Driver: name, Interfaces: map[string]string{"management": impl}})
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&table, "| `%s`: `%s` |", name, impl)
			for _, a := range abilities {
				has := a.has(hw.Management())
				table.WriteString(map[bool]string{true: " yes |", false: " – |"}[has])
				if !has && slices.Contains(watched, a.of) && unwatched[impl] == "" {
					t.Errorf("%s, management interface %s: no %s, and no reason in unwatched", name, impl, a.of)
				}
			}
			table.WriteString("\n")
		}
	}
	page, err := os.ReadFile(hardwarePage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(page), tableBegins)
	shown, after, ends := strings.Cut(rest, tableEnds)
	if !begins || !ends {
		t.Fatalf("%s has no place for the table", hardwarePage)
	}
	want := "\n" + table.String() + "\n"
	if os.Getenv("UPDATE_DOCS") != "" {
		if err := os.WriteFile(hardwarePage, []byte(before+tableBegins+want+tableEnds+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if shown != want {
		t.Errorf("%s is not of this code; `make docs` writes it. The table is\n%s", hardwarePage, want)
	}
}
