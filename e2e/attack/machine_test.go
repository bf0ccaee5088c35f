package attack

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"

	"github.com/ironyard/ironyard/e2e/faults/network"
	"github.com/ironyard/ironyard/e2e/faults/process"
	"github.com/ironyard/ironyard/ops/virtual/fleet/control"
	"github.com/ironyard/ironyard/ops/virtual/fleet/journal"
)

// machine is a simulated machine on a host of its own, with the address that rackd's
// DHCP has leased to it.
type machine struct {
	control.Machine
	host  *network.Host
	fleet *control.Client
	*process.Process
}

// startMachines starts the machines that attacks share, before the rackds. Until an attack takes one, its host is off the
// network: rackd-a probes its range, and sets aside an address that a host has and DHCP did not give.
func (y *yard) startMachines(ctx context.Context) error {
	for i := range machineHosts {
		m, err := y.startMachine(ctx, fmt.Sprintf("m%02d", i), netip.AddrFrom4([4]byte{10, 77, 1, byte(128 + 4*i)}), "rackd-a", "rackd-b")
		if err != nil {
			return err
		}
		if err := m.host.Unplug(); err != nil {
			return err
		}
		y.machines = append(y.machines, m)
	}
	return nil
}

// startMachine starts a machine that asks rackds for boot scripts. It has the network of four
// addresses that begins at network. The first of them is its host's.
func (y *yard) startMachine(ctx context.Context, name string, network netip.Addr, rackds ...string) (*machine, error) {
	h, err := y.host(name, network.Next().String())
	if err != nil {
		return nil, err
	}
	args := []string{"--name", name, "--machines", "1", "--network", network.String() + "/30", "--interface", "", "--control", h.At(7000),
		"--ramdisk", "2s", "--write", "4s", "--firmware", "300ms"}
	for _, r := range rackds {
		args = append(args, "--rackd", "http://"+addresses[r]+":8080")
	}
	p := y.daemon(name, h, y.programs.Fleet, args...)
	if err := p.Start(); err != nil {
		return nil, err
	}
	m := &machine{host: h, Process: p, fleet: &control.Client{Base: "http://" + h.At(7000), HTTP: newCaller(h, "").web}}
	return m, p.Await(ctx, func(ctx context.Context) error {
		all, err := m.fleet.Machines(ctx)
		if err == nil {
			m.Machine = all[0]
		}
		return err
	})
}

// lease has the machine's firmware get its address from rackd-a's DHCP.
func (y *yard) lease(m *machine) error {
	mac, err := net.ParseMAC(m.MAC)
	if err != nil {
		return err
	}
	conn, err := m.host.ListenPacket("udp4", "0.0.0.0:68")
	if err != nil {
		return err
	}
	defer conn.Close()
	wanted := net.IP(m.host.Addr.AsSlice())
	discover, err := dhcpv4.NewDiscovery(mac, dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(wanted)), asBIOS)
	if err != nil {
		return err
	}
	offer, err := exchange(conn, addresses["rackd-a"], discover)
	if err != nil {
		return fmt.Errorf("DHCP discover of %s: %w", m.MAC, err)
	}
	request, err := dhcpv4.NewRequestFromOffer(offer)
	if err != nil {
		return err
	}
	ack, err := exchange(conn, addresses["rackd-a"], request)
	if err != nil {
		return fmt.Errorf("DHCP request of %s: %w", m.MAC, err)
	}
	if !ack.YourIPAddr.Equal(wanted) {
		return fmt.Errorf("DHCP gave %s the address %s instead of %s", m.MAC, ack.YourIPAddr, wanted)
	}
	return nil
}

// exchange sends a message to a DHCP server and returns the answer to it.
func exchange(conn net.PacketConn, server string, m *dhcpv4.DHCPv4) (*dhcpv4.DHCPv4, error) {
	if _, err := conn.WriteTo(m.ToBytes(), &net.UDPAddr{IP: net.ParseIP(server), Port: dhcpv4.ServerPort}); err != nil {
		return nil, err
	}
	conn.SetReadDeadline(time.Now().Add(time.Second))
	buf := make([]byte, 4096)
	for {
		n, _, err := conn.ReadFrom(buf)
		if err != nil {
			return nil, err
		}
		if r, err := dhcpv4.FromBytes(buf[:n]); err == nil && r.TransactionID == m.TransactionID && r.OpCode == dhcpv4.OpcodeBootReply {
			return r, nil
		}
	}
}

// unused is a machine that no attack has used.
func (y *yard) unused(t *testing.T) *machine {
	t.Helper()
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.next == len(y.machines) {
		t.Fatal("there are too few machines: raise machineHosts")
	}
	y.next++
	m := y.machines[y.next-1]
	if err := m.host.Plug(); err != nil {
		t.Fatal(err)
	}
	return m
}

// enrolled is a machine that central knows.
type enrolled struct {
	*machine
	id    string
	group string
}

// enrol makes a node of a machine that no attack has used. In groupA the machine has leased its address.
func (y *yard) enrol(ctx context.Context, t *testing.T, group string, more map[string]any) *enrolled {
	t.Helper()
	return y.enrolMachine(ctx, t, y.unused(t), group, more)
}

// enrolMachine makes a node of a machine.
func (y *yard) enrolMachine(ctx context.Context, t *testing.T, m *machine, group string, more map[string]any) *enrolled {
	t.Helper()
	e := m.Enrolment
	body := map[string]any{"name": m.Name(), "driver": e.Driver, "driver_info": e.DriverInfo, "properties": e.Properties, "conductor_group": group,
		"automated_clean": false, "inspect_interface": e.Interfaces["inspect"],
		"instance_info": map[string]any{"image_source": y.imageURL(), "image_os_hash_algo": "sha256", "image_os_hash_value": y.images.sha256, "image_disk_format": "raw"}}
	for k, v := range more {
		body[k] = v
	}
	var n node
	if err := y.operator.persist(ctx, "POST", "/v1/nodes", body, &n); err != nil {
		t.Fatal(err)
	}
	for _, mac := range e.MACs {
		if err := y.operator.persist(ctx, "POST", "/v1/ports", map[string]any{"node_uuid": n.UUID, "address": mac}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if group == groupA { // rackd answers machines that it knows
		if err := until(ctx, 20*time.Second, func(context.Context) error { return y.lease(m) }); err != nil {
			t.Fatal(err)
		}
	}
	if rackd := addressed[group]; rackd != "" {
		if err := y.uses(ctx, m, rackd); err != nil {
			t.Fatal(err)
		}
	}
	return &enrolled{m, n.UUID, group}
}

// addressed are the rackds, by group, that hear of their machines' addresses without giving them.
var addressed = map[string]string{groupC: "rackd-c", groupD: "rackd-d"}

// asBIOS makes a request that of a PXE client's BIOS, which rackd has a boot program for.
func asBIOS(m *dhcpv4.DHCPv4) {
	m.UpdateOption(dhcpv4.OptClassIdentifier("PXEClient"))
	m.UpdateOption(dhcpv4.OptClientArch(iana.INTEL_X86PC))
}

// uses has a rackd hear that the machine asks for its address, which another server has given it. The
// rackd knows the machine by then.
func (y *yard) uses(ctx context.Context, m *machine, rackd string) error {
	mac, err := net.ParseMAC(m.MAC)
	if err != nil {
		return err
	}
	own := net.IP(m.host.Addr.AsSlice())
	discover, err := dhcpv4.NewDiscovery(mac, asBIOS)
	if err != nil {
		return err
	}
	conn, err := m.host.ListenPacket("udp4", "0.0.0.0:68")
	if err != nil {
		return err
	}
	defer conn.Close()
	answered := func(context.Context) error {
		_, err := exchange(conn, addresses[rackd], discover)
		return err
	}
	if err := until(ctx, 20*time.Second, answered); err != nil {
		return fmt.Errorf("%s does not know %s: %w", rackd, m.MAC, err)
	}
	// A proxy hears the address in the option; a server confirms one that is in use.
	for _, how := range []dhcpv4.Modifier{dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(own)), dhcpv4.WithClientIP(own)} {
		ask, err := dhcpv4.New(dhcpv4.WithHwAddr(mac), dhcpv4.WithMessageType(dhcpv4.MessageTypeRequest), asBIOS, how)
		if err == nil {
			_, err = conn.WriteTo(ask.ToBytes(), &net.UDPAddr{IP: net.ParseIP(addresses[rackd]), Port: dhcpv4.ServerPort})
		}
		if err != nil {
			return err
		}
	}
	return until(ctx, 5*time.Second, answered) // packets of one sender are read in their order
}

// available brings a new node there.
func (y *yard) available(ctx context.Context, t *testing.T, e *enrolled) {
	t.Helper()
	for _, step := range [][2]string{{"manage", "manageable"}, {"provide", "available"}} {
		if err := y.operator.provision(ctx, e.id, step[0], nil); err != nil {
			t.Fatal(err)
		}
		if err := y.operator.awaits(ctx, e.id, step[1], time.Minute); err != nil {
			t.Fatal(err)
		}
	}
}

// What the config drive and the image's URL hold that no stranger may see.
const (
	tenantSecret   = "the-tenants-user-data"
	imageUser      = "reader"
	imagePassword  = "hunter2-of-the-image-server"
	imageSignature = "signature-of-the-image-url"
)

func (y *yard) imageURL() string {
	return fmt.Sprintf("http://%s:%s@%s:8000/image.raw?X-Signature=%s", imageUser, imagePassword, addresses["operator"], imageSignature)
}

// deploy asks for a deploy with a config drive.
func (y *yard) deploy(ctx context.Context, t *testing.T, e *enrolled) {
	t.Helper()
	drive := map[string]any{"meta_data": map[string]any{"hostname": "h"}, "user_data": tenantSecret}
	if err := y.operator.provision(ctx, e.id, "active", map[string]any{"configdrive": drive}); err != nil {
		t.Fatal(err)
	}
}

// noted waits until the machine's journal has a record of a kind.
func (e *enrolled) noted(ctx context.Context, kind journal.Kind) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if _, err := e.fleet.Await(ctx, 0, func(r journal.Record) bool { return r.Kind == kind }); err != nil {
		return fmt.Errorf("machine %s: no %s: %w", e.Name(), kind, err)
	}
	return nil
}

// count is how often the machine's journal has noted a kind.
func (e *enrolled) count(ctx context.Context, t *testing.T, kind journal.Kind) uint64 {
	t.Helper()
	counts, err := e.fleet.Counts(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	return counts[kind]
}

// Name is the machine's.
func (m *machine) Name() string { return m.Machine.Name }

// writes are what the BMC was asked to do.
func (e *enrolled) writes(ctx context.Context, t *testing.T) (list []string) {
	t.Helper()
	records, err := e.fleet.Journal(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		if r.Kind == journal.BMCWrite && strings.Contains(r.Detail, "Reset") {
			list = append(list, r.Detail)
		}
	}
	return list
}

// networkOf is the network of the i-th machine in a part of the floor that no rackd gives addresses of.
func networkOf(part byte, i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, 77, part, byte(4 * i)})
}
