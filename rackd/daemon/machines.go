package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/ironyard/ironyard/rackd/agentdoor"
	"github.com/ironyard/ironyard/rackd/bmcevents"
	"github.com/ironyard/ironyard/rackd/imagecache"
	"github.com/ironyard/ironyard/rackd/netboot"
	"github.com/ironyard/ironyard/rackd/netboot/arpprobe"
	"github.com/ironyard/ironyard/rackd/netboot/bootscript"
	"github.com/ironyard/ironyard/rackd/netboot/bootweb"
	"github.com/ironyard/ironyard/rackd/netboot/dhcp"
	"github.com/ironyard/ironyard/rackd/netboot/ipxescript"
	"github.com/ironyard/ironyard/rackd/netboot/mediaweb"
	"github.com/ironyard/ironyard/rackd/netboot/routeradv"
	"github.com/ironyard/ironyard/rackd/netboot/tftp"
)

// listeners are opened before anything starts, so that a port in use is an error
// of the start and not of some later moment.
type listeners struct {
	faces       []faceListeners
	dhcp, proxy net.PacketConn
	dhcp6       net.PacketConn
	further     []net.PacketConn // of the further networks
	servers     dhcpServers
	// solicitations are those of the main network's machines; nil: they are not answered. furtherSolicitations are as further.
	solicitations        routeradv.Link
	furtherSolicitations []routeradv.Link
}

// faceListeners are what machines of one version of IP talk to.
type faceListeners struct {
	face
	web, agents net.Listener
	firmware    net.Listener // the web by TLS; nil: there is none
	tftp        net.PacketConn
}

func (r *rackd) listen(ctx context.Context) (l listeners, err error) {
	k := r.cfg.Rack
	if k == nil {
		return l, err
	}
	for _, f := range k.faces() {
		opened, err := f.listen(ctx)
		if err != nil {
			return l, err
		}
		l.faces = append(l.faces, opened)
	}
	if k.Address.IsValid() {
		err = r.listenDHCP(ctx, &l)
	}
	if err == nil && k.Address6.IsValid() {
		err = r.listenDHCP6(&l)
	}
	for _, n := range k.Further {
		if err == nil {
			err = r.listenFurther(&l, n)
		}
	}
	if err != nil {
		return l, err
	}
	r.leases.Store(&l.servers)
	if k.RouterAdvertisements {
		l.solicitations = r.solicited(k.Interface)
		for _, n := range k.Further {
			l.furtherSolicitations = append(l.furtherSolicitations, r.solicited(n.Interface))
		}
	}
	return l, nil
}

// solicited hears router solicitations on an interface; nil where it cannot. Machines boot without it, and wait: it is no reason to
// serve none.
func (r *rackd) solicited(on string) routeradv.Link {
	link, err := routeradv.Listen(on, r.cfg.Log)
	if err != nil {
		r.cfg.Log.Warn("IPv6 router solicitations are not answered, so iPXE waits 16 s for a router at each boot, and asks no DHCPv6; give rackd CAP_NET_RAW, or --no-router-advertisements", "interface", on, "error", err)
		return nil
	}
	return link
}

// listenFurther opens DHCP in a further network. Its leases have a file of their own.
func (r *rackd) listenFurther(l *listeners, n Network) error {
	if err := n.attached(); err != nil {
		return err
	}
	k, f := r.cfg.Rack, r.cfg.Rack.faceFor(n.Address.Addr())
	file := "dhcp-leases-" + strings.ReplaceAll(f.network.String(), "/", "-") + ".json"
	server, err := dhcp.New(dhcp.Config{Mode: dhcp.Serve, ServerIP: f.address, From: n.From, To: n.To, Mask: net.CIDRMask(n.Address.Bits(), 32), Router: n.Router, DNS: k.names(false),
		LeaseFile: filepath.Join(r.cfg.DataDir, file), HTTP: f.http(), HTTPS: f.https(), TFTP: f.tftp(), Discovery: k.Discovery, Directory: r.directory(f), Journal: r.desk, Metrics: r.netboot,
		Probe: arpprobe.Prober{Interface: n.Interface}.Probe, Serves: r.files.Has, Loaders: len(k.Loaders) > 0, Strangers: r.strangers, Log: r.cfg.Log.With("interface", n.Interface)})
	if err != nil {
		return err
	}
	conn, err := dhcp.Listen(n.Interface, r.cfg.Log)
	if err != nil {
		return fmt.Errorf("listen for DHCP on %s: %w", n.Interface, err)
	}
	l.servers.further, l.further = append(l.servers.further, server), append(l.further, conn)
	return nil
}

func (f face) listen(ctx context.Context) (l faceListeners, err error) {
	l.face = f
	var lc net.ListenConfig
	list := map[string]func() error{
		"machines over HTTP": func() (err error) { l.web, err = lc.Listen(ctx, "tcp", f.at(f.httpPort)); return err },
		"agents":             func() (err error) { l.agents, err = lc.Listen(ctx, "tcp", f.at(f.agentsPort)); return err },
		"TFTP":               func() (err error) { l.tftp, err = lc.ListenPacket(ctx, "udp", f.at(69)); return err },
	}
	if f.httpsPort != 0 {
		list["firmware over HTTPS"] = func() (err error) { l.firmware, err = lc.Listen(ctx, "tcp", f.at(f.httpsPort)); return err }
	}
	for what, open := range list {
		if err := open(); err != nil {
			return l, fmt.Errorf("listen for %s: %w", what, err)
		}
	}
	return l, nil
}

func (r *rackd) listenDHCP(ctx context.Context, l *listeners) (err error) {
	k, f := r.cfg.Rack, r.cfg.Rack.face()
	if l.servers.four, err = dhcp.New(dhcp.Config{Mode: dhcp.Mode(k.DHCP), ServerIP: k.Address, From: k.RangeFrom, To: k.RangeTo, Mask: k.Mask, Relays: k.DHCPRelays, Subnets: k.Subnets,
		Router: k.Router, DNS: k.names(false), LeaseFile: filepath.Join(r.cfg.DataDir, "dhcp-leases.json"), HTTP: f.http(), HTTPS: f.https(), TFTP: f.tftp(), Discovery: k.Discovery,
		Directory: r.directory(f), Journal: r.desk, Metrics: r.netboot, Log: r.cfg.Log,
		Probe: arpprobe.Prober{Interface: k.Interface}.Probe, Serves: r.files.Has, Loaders: len(k.Loaders) > 0, Strangers: r.strangers}); err != nil {
		return err
	}
	if dhcp.Mode(k.DHCP) != dhcp.Off {
		if l.dhcp, err = dhcp.Listen(k.Interface, r.cfg.Log); err != nil {
			return fmt.Errorf("listen for DHCP on %s: %w", k.Interface, err)
		}
	}
	if dhcp.Mode(k.DHCP) == dhcp.Proxy {
		var lc net.ListenConfig
		if l.proxy, err = lc.ListenPacket(ctx, "udp4", f.at(dhcp.BootPort)); err != nil {
			return fmt.Errorf("listen for boot servers' requests: %w", err)
		}
	}
	return nil
}

func (r *rackd) listenDHCP6(l *listeners) (err error) {
	k, f := r.cfg.Rack, r.cfg.Rack.face6()
	if l.servers.six, err = dhcp.New6(dhcp.Config6{Mode: dhcp.Mode(k.DHCP6), ServerIP: k.Address6, Subnets: k.Subnets6, DNS: k.names(true),
		LeaseFile: filepath.Join(r.cfg.DataDir, "dhcp6-leases.json"), HTTP: f.http(), HTTPS: f.https(), TFTP: f.tftp(), Discovery: k.Discovery,
		Directory: r.directory(f), Journal: r.desk, Metrics: r.netboot, Log: r.cfg.Log,
		Neighbour: dhcp.Neighbours{Interface: k.Interface}.MAC, Serves: r.files.Has, Strangers: r.strangers}); err != nil {
		return err
	}
	if dhcp.Mode(k.DHCP6) != dhcp.Off {
		if l.dhcp6, err = dhcp.Listen6(k.Interface, r.cfg.Log); err != nil {
			return fmt.Errorf("listen for DHCPv6 on %s: %w", k.Interface, err)
		}
	}
	return nil
}

// names are the name servers of one version of IP.
func (r *Rack) names(six bool) (list []netip.Addr) {
	for _, d := range r.DNS {
		if d.Is6() == six {
			list = append(list, d)
		}
	}
	return list
}

// directory is what DHCP knows of machines, from memory.
func (r *rackd) directory(f face) directory {
	return directory{c: r.conductor, ramdisks: r.ramdisks, cached: r.stock.cached(f.http()), hears: r.leases.hears(f)}
}

// scripts writes the boot scripts of machines that ask at a face.
func (r *rackd) scripts(f face) *bootscript.Scripts {
	return &bootscript.Scripts{Directory: directory{c: r.conductor, ramdisks: r.ramdisks, cached: r.stock.cached(f.http()), bring: r.instances.bring, asked: true, hears: r.leases.hears(f)}, Journal: r.desk, Metrics: r.netboot,
		Ramdisk: func(m netboot.Machine) ipxescript.Ramdisk { return r.ramdiskAt(f, m) }, Discovery: r.cfg.Rack.Discovery, Group: r.cfg.Group, Log: r.cfg.Log, Lines: r.scriptLines}
}

// bootScript writes the boot script of a node for central, which was asked for it by a
// machine at an address, with that MAC address, or by UUID.
func (r *rackd) bootScript(uuid, mac string, from netip.Addr) (string, error) {
	return r.scripts(r.cfg.Rack.faceFor(from)).ForCentral(uuid, mac, from)
}

// dhcpServers are those of this rackd; nil: it has none for that version of IP.
type dhcpServers struct {
	four    *dhcp.Server
	six     *dhcp.Server6
	further []*dhcp.Server // of the further networks
}

// fours are those of IPv4.
func (d dhcpServers) fours() []*dhcp.Server {
	if d.four == nil {
		return d.further
	}
	return append([]*dhcp.Server{d.four}, d.further...)
}

// MACOf returns the machine that has an address by one of them.
func (d dhcpServers) MACOf(ip net.IP) (mac string, ok bool) {
	for _, s := range d.fours() {
		if mac, ok = s.MACOf(ip); ok {
			return mac, ok
		}
	}
	if !ok && d.six != nil {
		mac, ok = d.six.MACOf(ip)
	}
	return mac, ok
}

// leases is what the DHCP servers know, nothing until there are some.
type leases struct{ atomic.Pointer[dhcpServers] }

// Addresses implements conductor.Leases.
func (l *leases) Addresses(mac string) (list []netip.Addr) {
	d := l.Load()
	if d == nil {
		return nil
	}
	for _, s := range d.fours() {
		if a, ok := s.Address(mac); ok {
			list = append(list, a)
		}
	}
	if d.six != nil {
		list = append(list, d.six.Addresses(mac)...)
	}
	return list
}

// hears reports whether machines that boot speak DHCP with this rackd, so that their addresses are known.
func (l *leases) hears(f face) func() bool {
	return func() bool {
		d := l.Load()
		switch {
		case d == nil:
			return false
		case f.network.IsValid():
			return len(d.further) > 0 // which all give addresses
		case f.six():
			return d.six != nil && d.six.Hears()
		}
		return d.four != nil && d.four.Hears()
	}
}

// serveMachines starts what machines and agents talk to.
func (r *rackd) serveMachines(ctx context.Context, g *errgroup.Group, l listeners) {
	g.Go(func() error { return r.mirror.Run(ctx) })
	door := agentdoor.New(r.desk, agentStatus, r.strangers, r.cfg.Log)
	if r.events != nil {
		door.Beside(bmcevents.Prefix, r.events.Handler())
	}
	for _, f := range l.faces {
		r.serveFace(ctx, g, f, door, l.servers)
	}
	r.serveSolicited(ctx, g, l)
	for i, conn := range l.further {
		g.Go(func() error { return l.servers.further[i].Serve(ctx, conn) })
	}
	if l.proxy != nil {
		g.Go(func() error { return l.servers.four.ServeBoot(ctx, l.proxy) })
	}
	if l.dhcp != nil {
		g.Go(func() error {
			if err := l.servers.four.Serve(ctx, l.dhcp); err != nil && !errors.Is(err, net.ErrClosed) {
				return err
			}
			return nil
		})
	}
	if l.dhcp6 != nil {
		g.Go(func() error { return l.servers.six.Serve(ctx, l.dhcp6) })
	}
}

// serveSolicited answers router solicitations, in further networks without a word of DHCPv6: it is served in the main one alone.
func (r *rackd) serveSolicited(ctx context.Context, g *errgroup.Group, l listeners) {
	answer := func(link routeradv.Link, f face, sends routeradv.DHCP) {
		if link != nil {
			s := routeradv.New(link, r.directory(f), sends, r.netboot, r.cfg.Log)
			g.Go(func() error { return s.Serve(ctx) })
		}
	}
	answer(l.solicitations, r.cfg.Rack.face(), r.cfg.Rack.sends())
	for i, link := range l.furtherSolicitations {
		answer(link, r.cfg.Rack.furtherFaces()[i], routeradv.DHCP{})
	}
}

// sends is what router advertisements tell machines of DHCPv6.
func (r *Rack) sends() (d routeradv.DHCP) {
	if r.Address6.IsValid() && dhcp.Mode(r.DHCP6) == dhcp.Serve {
		d = routeradv.DHCP{Prefix: r.Subnets6[0].Prefix, Discovery: r.Discovery}
	}
	return d
}

// serveFace starts what machines of one version of IP talk to.
func (r *rackd) serveFace(ctx context.Context, g *errgroup.Group, f faceListeners, door *agentdoor.Door, known dhcpServers) {
	scripts := r.scripts(f.face)
	mux := http.NewServeMux()
	boot := bootweb.Handler(bootweb.Config{Journal: r.desk, Metrics: r.netboot, Files: r.files, Scripts: scripts, Kickstarts: r.kickstarts(f.face), Strangers: r.strangers, Log: r.cfg.Log})
	mux.Handle("/boot/", boot)
	mux.Handle("/files/", boot)
	mux.Handle(mediaweb.Prefix, r.mediaHandler())
	mux.Handle(imagecache.Prefix, r.cache.Handler(r.stock.codes.fits))
	g.Go(func() error { return serveHTTP(ctx, f.web, mux, r.cfg.Log) })
	if f.firmware != nil {
		g.Go(func() error { return serveFirmware(ctx, f.firmware, r.strangers, r.firmwareTLS, mux, r.cfg.Log) })
	}
	g.Go(func() error { return door.Serve(ctx, f.agents, r.identities) })
	files := &tftp.Server{Files: r.files, Journal: r.desk, Metrics: r.netboot, MACOf: known.MACOf, Strangers: r.strangers, Log: r.cfg.Log, Scripts: scripts, Own: r.openOwn}
	g.Go(func() error { return files.Serve(ctx, f.tftp) })
}
