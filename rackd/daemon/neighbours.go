package daemon

import (
	"net"
	"net/url"
	"strings"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/rackd/netboot/bootfiles"
	"github.com/ironyard/ironyard/rackd/netboot/ipxescript"
)

// neighbours picks, of the live members, the other rackds of this one's group that
// serve machines: any of them can take this one's place.
func neighbours(self Config, members []bus.Member) []bus.Member {
	var list []bus.Member
	for _, m := range members {
		if m.Name != self.Name && strings.EqualFold(m.Group, self.Group) && m.AgentURL != "" && m.BootURL != "" {
			list = append(list, m)
		}
	}
	return list
}

func (r *rackd) neighbours() []bus.Member { return neighbours(r.cfg, r.lease.Members()) }

// ramdisk says what machines boot at this moment: this rackd's files, and an agent
// that knows the others too, so that it finds one of them when this one has gone.
func (k *Rack) ramdisk(fingerprint string, others []bus.Member) ipxescript.Ramdisk {
	r := ipxescript.Ramdisk{Server: ipxescript.Server{HTTP: k.httpBase(), TFTP: k.tftpBase()},
		Kernel: bootfiles.Kernel, Initramfs: bootfiles.Ramdisk}
	doors := []string{k.agentBase()}
	for _, m := range others {
		boot, err := url.Parse(m.BootURL)
		if err != nil || boot.Hostname() == "" {
			continue // a rackd of another make; machines do without it
		}
		doors = append(doors, m.AgentURL)
		// A rackd serves TFTP at the address of its boot web, on TFTP's own port.
		r.Others = append(r.Others, ipxescript.Server{HTTP: m.BootURL, TFTP: "tftp://" + host(boot.Hostname())})
	}
	// The group's rackds show agents one certificate, so one fingerprint does for all.
	r.Params = append([]string{agentapi.ParamAPIURL + "=" + strings.Join(doors, ","), agentapi.ParamAPIFingerprint + "=" + fingerprint}, k.KernelParams...)
	return r
}

// host is a host name as URLs write it.
func host(name string) string {
	if ip := net.ParseIP(name); ip != nil && ip.To4() == nil {
		return "[" + name + "]"
	}
	return name
}
