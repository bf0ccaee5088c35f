package daemon

import (
	"net"
	"net/netip"
	"net/url"
	"strings"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/rackd/netboot"
	"github.com/ironyard/ironyard/rackd/netboot/ipxescript"
)

// standsIn reports whether a rackd of group by serves the nodes of group when need
// be: its own, or one that it is a failover of.
type standsIn func(by, group string) bool

// neighbours picks, of the live members, the rackds other than name that serve
// machines and may serve those of group: the group's own first, then its failovers.
func neighbours(name, group string, members []bus.Member, serves standsIn) []bus.Member {
	var own, failover []bus.Member
	for _, m := range members {
		switch {
		case m.Name == name || m.AgentURL == "" || m.BootURL == "":
		case strings.EqualFold(m.Group, group):
			own = append(own, m)
		case serves(m.Group, group):
			failover = append(failover, m)
		}
	}
	return append(own, failover...)
}

// partners picks the rackds that this one may inherit work from, or leave work to.
func partners(name, group string, members []bus.Member, serves standsIn) []bus.Member {
	return neighbours(name, group, members, func(by, _ string) bool { return serves(by, group) || serves(group, by) })
}

func (r *rackd) partners() []bus.Member {
	return partners(r.cfg.Name, r.cfg.Group, r.lease.Members(), r.groups.Serves)
}

// ramdisk says what a machine boots at this moment. It is shown the
// certificate of its own group, which whoever inherits it has too.
func (r *rackd) ramdisk(m netboot.Machine) ipxescript.Ramdisk {
	return r.ramdiskAt(r.cfg.Rack.face(), m)
}

// ramdiskAt is ramdisk for a machine that asked at a face, and so speaks its version of IP.
func (r *rackd) ramdiskAt(f face, m netboot.Machine) ipxescript.Ramdisk {
	found := r.cfg.Rack.ramdisk(f, r.identities.Of(m.Group).Fingerprint, neighbours(r.cfg.Name, m.Group, r.lease.Members(), r.groups.Serves))
	r.nameFiles(&found, m)
	return found
}

// nameFiles names the files that a machine loads, as they are now.
func (r *rackd) nameFiles(found *ipxescript.Ramdisk, m netboot.Machine) {
	names := r.ramdisks.Names(m.Class, m.Arch)
	found.Kernel, found.Initramfs, found.RescueKernel, found.RescueInitramfs = names.Kernel, names.Initramfs, names.RescueKernel, names.RescueInitramfs
	for _, name := range []*string{&found.Kernel, &found.Initramfs, &found.RescueKernel, &found.RescueInitramfs} {
		if *name != "" {
			*name = r.files.Now(*name)
		}
	}
}

// How many URLs agents are told to call, and how long one may be: the kernel cuts its
// command line off where it gets too long. A script names as many rackds to ask next: iPXE
// reads it into little memory. Neighbours are in the order in which they stand in.
const (
	maxDoors  = 4
	maxOthers = maxDoors - 1
	maxDoor   = 80
)

// ramdisk is where this rackd's files are, without their names. An agent is told of the others too: it finds one of them when this
// one has gone.
func (r *Rack) ramdisk(f face, fingerprint string, others []bus.Member) ipxescript.Ramdisk {
	found := ipxescript.Ramdisk{Server: ipxescript.Server{HTTP: f.http(), TFTP: f.tftp()}}
	found.Doors, found.Fingerprint, found.Params = []string{f.agents()}, fingerprint, r.KernelParams
	for _, m := range others {
		bootURL, agentURL := f.urlsOf(m)
		boot, err := url.Parse(bootURL)
		if err != nil || boot.Hostname() == "" || !f.six() && strings.Contains(boot.Host, "[") {
			continue // a rackd of another make, or one that the machine cannot reach
		}
		if len(found.Doors) < maxDoors && len(agentURL) <= maxDoor {
			found.Doors = append(found.Doors, agentURL)
		}
		if len(found.Others) == maxOthers {
			continue
		}
		// A rackd serves TFTP at the address of its boot web, on TFTP's own port.
		found.Others = append(found.Others, ipxescript.Server{HTTP: bootURL, TFTP: "tftp://" + host(boot.Hostname())})
	}
	if len(r.AgentAPIURLs) > 0 {
		found.Doors, found.Inspection = r.AgentAPIURLs, true
	}
	return found // all doors show the group's agents one certificate, so one fingerprint does
}

// urlsOf are where a machine that is served at this face finds another rackd; empty: it cannot reach that one.
func (f face) urlsOf(m bus.Member) (bootURL, agentURL string) {
	switch {
	case f.network.IsValid():
		for _, n := range m.Further {
			if u, err := url.Parse(n.BootURL); err == nil && within(f.network, u.Hostname()) {
				return n.BootURL, n.AgentURL
			}
		}
		return "", ""
	case f.six():
		return m.BootURL6, m.AgentURL6
	}
	return m.BootURL, m.AgentURL
}

// within reports whether a host is named by an address of a network.
func within(network netip.Prefix, host string) bool {
	a, err := netip.ParseAddr(host)
	return err == nil && network.Contains(a.Unmap())
}

// host is a host name as URLs write it.
func host(name string) string {
	if ip := net.ParseIP(name); ip != nil && ip.To4() == nil {
		return "[" + name + "]"
	}
	return name
}
