// Package fleet simulates hundreds of machines in one process: each with a virtual
// BMC, firmware that boots from the network over IP, an agent that really speaks the
// agent's protocol, and a disk that knows what was written. They boot from virtual media and volumes, too. Thousands of light
// machines, with a BMC and power alone, fit as well.
//
// It may import ops/virtual, ops/operator and, below, what a machine runs: agent and protocol.
// Invariants: every machine has an address of its own, as in a rack, and one listener
// serves all BMCs; what happens is in one journal; a machine that does nothing costs
// nothing but memory.
package fleet

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"syscall"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/ironyard/ironyard/ops/virtual/fleet/cdrom"
	"github.com/ironyard/ironyard/ops/virtual/fleet/disk"
	"github.com/ironyard/ironyard/ops/virtual/fleet/fault"
	"github.com/ironyard/ironyard/ops/virtual/fleet/floppy"
	"github.com/ironyard/ironyard/ops/virtual/fleet/ipxe"
	"github.com/ironyard/ironyard/ops/virtual/fleet/journal"
	"github.com/ironyard/ironyard/ops/virtual/fleet/machine"
	"github.com/ironyard/ironyard/ops/virtual/fleet/pace"
	"github.com/ironyard/ironyard/ops/virtual/fleet/ramdisk"
	"github.com/ironyard/ironyard/ops/virtual/vbmc"
)

// Fleet is safe for concurrent use.
type Fleet struct {
	Journal *journal.Journal
	// Rackds is where machines look for boot scripts.
	Rackds *ipxe.Rackds
	// Members are the machines, in the order of their numbers.
	Members []*Member

	cfg       Config
	byName    map[string]*Member
	byAddress map[netip.Addr]*Member
}

// Member is one machine of the fleet.
type Member struct {
	Name, UUID, MAC string
	Address         netip.Addr
	Machine         *machine.Machine
	Firmware        *ipxe.Client   // nil: of a light machine
	Agent           *ramdisk.Agent // as well
	BMC             *vbmc.BMC
	Disk            *disk.Disk
	Faults          *fault.Faults
	bmcURL          string
}

// New makes the machines, all switched off.
func New(c Config) (*Fleet, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	cert, err := vbmc.SelfSigned(c.Name)
	if err != nil {
		return nil, fmt.Errorf("certificate of the BMCs: %w", err)
	}
	f := &Fleet{cfg: c, Journal: journal.New(c.Keep), Rackds: &ipxe.Rackds{}, byName: map[string]*Member{}, byAddress: map[netip.Addr]*Member{}}
	f.Rackds.Set(c.Rackds)
	for n := range c.Machines {
		m, err := f.member(n, &cert)
		if err != nil {
			return nil, err
		}
		f.Members = append(f.Members, m)
		f.byName[m.Name], f.byAddress[m.Address] = m, m
	}
	return f, nil
}

// parametersLabel is that of the disk which a ramdisk in an image of an operator's looks for, as Ironic has it.
const parametersLabel = "ir-vfd-dev"

func (f *Fleet) member(n int, cert *tls.Certificate) (*Member, error) {
	base := binary.BigEndian.Uint32(f.cfg.Network.Masked().Addr().AsSlice())
	var ip [4]byte
	binary.BigEndian.PutUint32(ip[:], base+uint32(n)+1)
	m := &Member{Name: fmt.Sprintf("%s-%04d", f.cfg.Name, n), Address: netip.AddrFrom4(ip), Faults: &fault.Faults{},
		// Locally administered, and unique as the address is.
		MAC: net.HardwareAddr{0x02, 0x1f, ip[0], ip[1], ip[2], ip[3]}.String()}
	m.UUID = uuid.NewSHA1(uuid.NameSpaceDNS, []byte(m.Name+"."+m.MAC)).String()
	m.bmcURL = "https://" + net.JoinHostPort(m.Address.String(), strconv.Itoa(int(f.cfg.BMCPort)))
	m.Disk = disk.New(m.Name, f.Journal)
	p := pace.New(f.cfg.Timings, f.cfg.Seed, uint64(n))
	cfg := machine.Config{Name: m.Name, MAC: m.MAC, Disk: m.Disk, Journal: f.Journal, Pace: p}
	if !f.cfg.Light {
		m.Firmware = &ipxe.Client{Rackds: f.Rackds, Pace: p, Faults: m.Faults}
		cfg.Firmware = m.Firmware
		cfg.Disc, cfg.Web, cfg.Volumes, cfg.SecureBoot = cdrom.Read, cdrom.NewLoader(f.cfg.Authorities).Load, f.cfg.Volumes, f.cfg.SecureBoot
		cfg.Parameters = func(ctx context.Context, url string) ([]byte, error) { return floppy.Read(ctx, url, parametersLabel) }
		m.Agent = &ramdisk.Agent{Machine: m.Name, MAC: m.MAC, Listen: netip.AddrPortFrom(m.Address, f.cfg.AgentPort), Inventory: m.inventory(),
			Disk: m.Disk, Journal: f.Journal, Pace: p, Faults: m.Faults, Scratch: f.cfg.Scratch, Podman: f.cfg.Podman, SSH: f.cfg.SSH, Log: f.cfg.Log.With("machine", m.Name)}
		cfg.Agent = m.Agent
	}
	m.Machine = machine.New(cfg)
	var err error
	m.BMC, err = vbmc.New(vbmc.Config{Username: f.cfg.User, Password: f.cfg.Password, UEFI: true, Name: m.Name, UUID: m.UUID,
		Manufacturer: "Ironyard", Product: "Simulated Machine", Serial: m.Name, MAC: m.MAC, MemoryMiB: memoryMiB,
		Log: f.cfg.Log, Certificate: cert, Begin: f.noted(m.Name)}, m.Machine)
	return m, err
}

// noted brings a BMC's writes into the journal. Sessions concern no machine.
func (f *Fleet) noted(name string) func(vbmc.Write) func(int) {
	return func(w vbmc.Write) func(int) {
		if strings.Contains(w.Path, "/SessionService/") {
			return func(int) {}
		}
		return f.Journal.Note(journal.Record{Machine: name, Kind: journal.BMCWrite, Work: w.Work, Epoch: w.Epoch,
			Detail: w.Method + " " + w.Path + " " + strings.TrimSpace(w.Body)})
	}
}

// Member returns the machine with that name, nil for none.
func (f *Fleet) Member(name string) *Member { return f.byName[name] }

// Run serves the BMCs until ctx ends; then all machines lose their power. It may be
// called once; ready is called when the BMCs can be reached.
func (f *Fleet) Run(ctx context.Context, ready func()) error {
	defer func() {
		for _, m := range f.Members {
			m.Machine.Close()
		}
	}()
	lc := net.ListenConfig{Control: f.bind}
	l, err := lc.Listen(ctx, "tcp4", ":"+strconv.Itoa(int(f.cfg.BMCPort)))
	if err != nil {
		return fmt.Errorf("listen for BMCs on interface %q: %w", f.cfg.Interface, err)
	}
	if ready != nil {
		ready()
	}
	return vbmc.ServeMany(ctx, l, f.cfg.Log, f.bmcAt)
}

// bind keeps the listener to the interface: there is nothing to see for others.
func (f *Fleet) bind(_, _ string, c syscall.RawConn) error {
	if f.cfg.Interface == "" {
		return nil
	}
	var err error
	return errors.Join(c.Control(func(fd uintptr) { err = unix.BindToDevice(int(fd), f.cfg.Interface) }), err)
}

func (f *Fleet) bmcAt(local net.Addr) *vbmc.BMC {
	tcp, ok := local.(*net.TCPAddr)
	if !ok {
		return nil
	}
	if m := f.byAddress[tcp.AddrPort().Addr().Unmap()]; m != nil {
		return m.BMC
	}
	return nil
}
