package lab

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/google/uuid"

	"github.com/ironyard/ironyard/ops/virtual/machine"
)

const descriptionFile = "lab.json"

// Ports of BMCs on the bridge's address: of the first machine's Redfish BMC, and of its
// further ones. A machine has room for furtherBMCs of them.
const (
	firstBMCPort     = 8001
	firstFurtherPort = 9001
	furtherBMCs      = 10
)

var validName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,31}$`)

// Lab is a rack as lab.json holds it. The file has the BMCs' passwords, which
// protect nothing but this rack; it is readable by its owner only.
type Lab struct {
	Name string `json:"name"`
	Dir  string `json:"dir"`
	// Bridge is the rack's network and the address of its bridge in it.
	Bridge   netip.Prefix `json:"bridge"`
	Machines []Machine    `json:"machines"`

	wanted []wantedBMC // until New has given them addresses
}

// Machine is a machine and how to reach its BMC.
type Machine struct {
	machine.Config
	BMCAddress  string `json:"bmc_address"`
	BMCUser     string `json:"bmc_user"`
	BMCPassword string `json:"bmc_password"`
	// FurtherBMCs are its BMCs of protocols other than Redfish: the address of each, by
	// the protocol's name. They have the same user and password.
	FurtherBMCs map[string]string `json:"further_bmcs,omitempty"`
}

// BMCURL is the root of the machine's BMC, reachable inside the lab's namespace.
func (m Machine) BMCURL() string { return "https://" + m.BMCAddress }

// Option changes a new lab.
type Option func(*Lab)

// WithBridge sets the rack's network; the default is 10.77.0.1/24.
func WithBridge(p netip.Prefix) Option { return func(l *Lab) { l.Bridge = p } }

// WithMachines replaces the default machines, uefi-0 and bios-0. Folder, tap and
// what is left empty of MAC, UUID and serial are filled in.
func WithMachines(machines ...machine.Config) Option {
	return func(l *Lab) {
		l.Machines = nil
		for _, m := range machines {
			l.Machines = append(l.Machines, Machine{Config: m})
		}
	}
}

// WithBMC gives a machine a further BMC, of a protocol that Serve is told to know.
func WithBMC(machine, protocol string) Option {
	return func(l *Lab) { l.wanted = append(l.wanted, wantedBMC{machine, protocol}) }
}

type wantedBMC struct{ machine, protocol string }

// Machines are those of a lab that is not told otherwise.
func Machines() []machine.Config {
	return []machine.Config{{Name: "uefi-0", Firmware: machine.UEFI}, {Name: "bios-0", Firmware: machine.BIOS}}
}

// New describes a lab in memory; Up makes it.
func New(name, dir string, options ...Option) (*Lab, error) {
	if !validName.MatchString(name) {
		return nil, fmt.Errorf("lab %q: a name has up to 32 lower-case letters, digits and '-'", name)
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("lab %s: %w", name, err)
	}
	l := &Lab{Name: name, Dir: dir, Bridge: netip.MustParsePrefix("10.77.0.1/24")}
	WithMachines(Machines()...)(l)
	for _, o := range options {
		o(l)
	}
	seen := map[string]bool{}
	for i := range l.Machines {
		m := &l.Machines[i]
		if seen[m.Name] {
			return nil, fmt.Errorf("lab %s: two machines are called %s", name, m.Name)
		}
		seen[m.Name] = true
		l.complete(i, m)
	}
	for _, w := range l.wanted {
		if err := l.addBMC(w); err != nil {
			return nil, fmt.Errorf("lab %s: %w", name, err)
		}
	}
	return l, nil
}

func (l *Lab) addBMC(w wantedBMC) error {
	i := slices.IndexFunc(l.Machines, func(m Machine) bool { return m.Name == w.machine })
	if i < 0 {
		return fmt.Errorf("a BMC of protocol %s for machine %q, which is not there", w.protocol, w.machine)
	}
	m := &l.Machines[i]
	if len(m.FurtherBMCs) == furtherBMCs {
		return fmt.Errorf("machine %s has %d further BMCs; there is no room for one of protocol %s", w.machine, furtherBMCs, w.protocol)
	}
	if m.FurtherBMCs == nil {
		m.FurtherBMCs = map[string]string{}
	}
	if _, has := m.FurtherBMCs[w.protocol]; !has {
		m.FurtherBMCs[w.protocol] = netip.AddrPortFrom(l.Bridge.Addr(), uint16(firstFurtherPort+i*furtherBMCs+len(m.FurtherBMCs))).String()
	}
	return nil
}

// Differs says in what machines of the lab are other than wanted ones of the same name:
// what is fixed when a lab is made. Nil is in nothing.
func (l *Lab) Differs(wanted *Lab) error {
	for _, w := range wanted.Machines {
		i := slices.IndexFunc(l.Machines, func(m Machine) bool { return m.Name == w.Name })
		if i < 0 {
			return fmt.Errorf("lab %s has no machine %s", l.Name, w.Name)
		}
		m := l.Machines[i]
		switch {
		case m.Firmware != w.Firmware:
			return fmt.Errorf("machine %s of lab %s has firmware %s", w.Name, l.Name, m.Firmware)
		case cmp.Or(m.Arch, machine.X8664) != cmp.Or(w.Arch, machine.X8664):
			return fmt.Errorf("machine %s of lab %s has architecture %s", w.Name, l.Name, cmp.Or(m.Arch, machine.X8664))
		case m.BootByVariables != w.BootByVariables:
			return fmt.Errorf("for machine %s of lab %s, booting by variables is %t", w.Name, l.Name, m.BootByVariables)
		case len(m.FurtherCards) != len(w.FurtherCards):
			return fmt.Errorf("machine %s of lab %s has %d further network cards", w.Name, l.Name, len(m.FurtherCards))
		case m.SecureBoot != w.SecureBoot:
			return fmt.Errorf("for machine %s of lab %s, secure boot is %t", w.Name, l.Name, m.SecureBoot)
		}
		have, want := slices.Sorted(maps.Keys(m.FurtherBMCs)), slices.Sorted(maps.Keys(w.FurtherBMCs))
		if !slices.Equal(have, want) {
			return fmt.Errorf("machine %s of lab %s has further BMCs %q, not %q", w.Name, l.Name, have, want)
		}
	}
	return nil
}

// complete fills in what the caller left open, the same for the same lab each time
// but for the password.
func (l *Lab) complete(i int, m *Machine) {
	m.Dir = filepath.Join(l.Dir, "machines", m.Name)
	m.Tap = fmt.Sprintf("tap%d", i)
	id := uuid.NewSHA1(uuid.NameSpaceDNS, []byte(m.Name+"."+l.Name+".lab.ironyard"))
	if m.UUID == "" {
		m.UUID = id.String()
	}
	if m.MAC == "" {
		m.MAC = net.HardwareAddr{0x52, 0x54, 0x00, id[0], id[1], byte(i)}.String()
	}
	m.FurtherCards = slices.Clone(m.FurtherCards)
	for n := range m.FurtherCards {
		m.FurtherCards[n] = machine.Card{MAC: net.HardwareAddr{0x52, 0x54, byte(n + 1), id[0], id[1], byte(i)}.String(), Tap: fmt.Sprintf("%s-%d", m.Tap, n+1)}
	}
	if m.Serial == "" {
		m.Serial = "IY-" + l.Name + "-" + m.Name
	}
	if m.Manufacturer == "" {
		m.Manufacturer, m.Product = "Ironyard", "Virtual Rack"
	}
	if m.MemoryMiB == 0 {
		m.MemoryMiB = 1024
	}
	m.BMCAddress = netip.AddrPortFrom(l.Bridge.Addr(), uint16(firstBMCPort+i)).String()
	m.BMCUser, m.BMCPassword = "admin", rand.Text()
}

// Load reads the lab in dir; its error is os.ErrNotExist if there is none.
func Load(dir string) (*Lab, error) {
	data, err := os.ReadFile(filepath.Join(dir, descriptionFile))
	if err != nil {
		return nil, fmt.Errorf("loading lab: %w", err)
	}
	var l Lab
	if err := json.Unmarshal(data, &l); err != nil {
		return nil, fmt.Errorf("loading lab from %s: %w", filepath.Join(dir, descriptionFile), err)
	}
	return &l, nil
}

func (l *Lab) save() error {
	if err := os.MkdirAll(l.Dir, 0o755); err != nil {
		return err
	}
	data, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(l.Dir, descriptionFile)
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
