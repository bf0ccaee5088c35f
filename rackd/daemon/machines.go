package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"strconv"
	"sync/atomic"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/server4"
	"golang.org/x/sync/errgroup"

	"github.com/ironyard/ironyard/rackd/agentdoor"
	"github.com/ironyard/ironyard/rackd/bmcevents"
	"github.com/ironyard/ironyard/rackd/imagecache"
	"github.com/ironyard/ironyard/rackd/netboot/arpprobe"
	"github.com/ironyard/ironyard/rackd/netboot/bootscript"
	"github.com/ironyard/ironyard/rackd/netboot/bootweb"
	"github.com/ironyard/ironyard/rackd/netboot/dhcp"
	"github.com/ironyard/ironyard/rackd/netboot/mediaweb"
	"github.com/ironyard/ironyard/rackd/netboot/routeradv"
	"github.com/ironyard/ironyard/rackd/netboot/tftp"
)

// listeners are opened before anything starts, so that a port in use is an error
// of the start and not of some later moment.
type listeners struct {
	web, agents       net.Listener
	firmware          net.Listener // the web by TLS; nil: there is none
	tftp, dhcp, proxy net.PacketConn
	dhcpServer        *dhcp.Server
	solicitations     routeradv.Link // nil: they are not answered
}

func (r *rackd) listen(ctx context.Context) (l listeners, err error) {
	var lc net.ListenConfig
	tcp := func(what, address string, to *net.Listener) {
		if err != nil {
			return
		}
		if *to, err = lc.Listen(ctx, "tcp", address); err != nil {
			err = fmt.Errorf("listen for %s: %w", what, err)
		}
	}
	k := r.cfg.Rack
	if k == nil {
		return l, err
	}
	at := func(port int) string { return net.JoinHostPort(k.Address.String(), strconv.Itoa(port)) }
	tcp("machines over HTTP", at(k.HTTPPort), &l.web)
	tcp("agents", at(k.AgentPort), &l.agents)
	if r.firmwareTLS != nil {
		tcp("firmware over HTTPS", at(k.HTTPSPort), &l.firmware)
	}
	if err != nil {
		return l, err
	}
	if l.tftp, err = lc.ListenPacket(ctx, "udp4", at(69)); err != nil {
		return l, fmt.Errorf("listen for TFTP: %w", err)
	}
	if l.dhcpServer, err = dhcp.New(dhcp.Config{Mode: dhcp.Mode(k.DHCP), ServerIP: k.Address, From: k.RangeFrom, To: k.RangeTo, Mask: k.Mask, Relays: k.DHCPRelays, Subnets: k.Subnets,
		Router: k.Router, DNS: k.DNS, LeaseFile: filepath.Join(r.cfg.DataDir, "dhcp-leases.json"), HTTP: k.httpBase(), HTTPS: k.httpsBase(), TFTP: k.tftpBase(), Discovery: k.Discovery,
		Directory: directory{c: r.conductor, cached: r.stock.cached}, Journal: r.desk, Metrics: r.netboot, Log: r.cfg.Log,
		Probe: arpprobe.Prober{Interface: k.Interface}.Probe, Serves: r.files.Has, Loaders: len(k.Loaders) > 0, Strangers: r.strangers}); err != nil {
		return l, err
	}
	r.leases.Store(l.dhcpServer)
	if dhcp.Mode(k.DHCP) != dhcp.Off {
		if l.dhcp, err = server4.NewIPv4UDPConn(k.Interface, &net.UDPAddr{IP: net.IPv4zero, Port: dhcpv4.ServerPort}); err != nil {
			return l, fmt.Errorf("listen for DHCP on %s: %w", k.Interface, err)
		}
	}
	if dhcp.Mode(k.DHCP) == dhcp.Proxy {
		if l.proxy, err = lc.ListenPacket(ctx, "udp4", at(dhcp.BootPort)); err != nil {
			return l, fmt.Errorf("listen for boot servers' requests: %w", err)
		}
	}
	if k.RouterAdvertisements {
		// Machines boot without it, and wait: it is no reason to serve none.
		if l.solicitations, err = routeradv.Listen(k.Interface); err != nil {
			r.cfg.Log.Warn("IPv6 router solicitations are not answered, so iPXE waits 16 s for a router at each boot; give rackd CAP_NET_RAW, or --no-router-advertisements", "error", err)
			err = nil
		}
	}
	return l, err
}

// scripts writes the boot scripts of machines.
func (r *rackd) scripts() *bootscript.Scripts {
	return &bootscript.Scripts{Directory: directory{c: r.conductor, cached: r.stock.cached, bring: r.instances.bring, asked: true}, Journal: r.desk, Metrics: r.netboot,
		Ramdisk: r.ramdisk, Discovery: r.cfg.Rack.Discovery, Group: r.cfg.Group, Log: r.cfg.Log}
}

// bootScript writes the boot script of a node for central, which was asked for it by a
// machine at an address, with that MAC address, or by UUID.
func (r *rackd) bootScript(uuid, mac string, from netip.Addr) (string, error) {
	return r.scripts().ForCentral(uuid, mac, from)
}

// leases is what the DHCP server knows, nothing until there is one.
type leases struct{ atomic.Pointer[dhcp.Server] }

// Address implements conductor.Leases.
func (l *leases) Address(mac string) (netip.Addr, bool) {
	if s := l.Load(); s != nil {
		return s.Address(mac)
	}
	return netip.Addr{}, false
}

// Hears implements conductor.Leases.
func (l *leases) Hears() bool {
	s := l.Load()
	return s != nil && s.Hears()
}

// serveMachines starts what machines and agents talk to.
func (r *rackd) serveMachines(ctx context.Context, g *errgroup.Group, l listeners) {
	scripts := r.scripts()
	mux := http.NewServeMux()
	boot := bootweb.Handler(bootweb.Config{Journal: r.desk, Metrics: r.netboot, Files: r.files, Scripts: scripts, Strangers: r.strangers, Log: r.cfg.Log})
	mux.Handle("/boot/", boot)
	mux.Handle("/files/", boot)
	mux.Handle(mediaweb.Prefix, r.mediaHandler())
	mux.Handle(imagecache.Prefix, r.cache.Handler(r.stock.codes.fits))
	g.Go(func() error { return r.mirror.Run(ctx) })
	g.Go(func() error { return serveHTTP(ctx, l.web, mux, r.cfg.Log) })
	if l.firmware != nil {
		g.Go(func() error { return serveHTTP(ctx, tls.NewListener(l.firmware, r.firmwareTLS), mux, r.cfg.Log) })
	}
	door := agentdoor.New(r.desk, agentStatus, r.strangers, r.cfg.Log)
	if r.events != nil {
		door.Beside(bmcevents.Prefix, r.events.Handler(agentdoor.Known))
	}
	g.Go(func() error { return door.Serve(ctx, l.agents, r.identities) })
	files := &tftp.Server{Files: r.files, Journal: r.desk, Metrics: r.netboot, MACOf: l.dhcpServer.MACOf, Strangers: r.strangers, Log: r.cfg.Log, Scripts: scripts, Own: r.openOwn}
	g.Go(func() error { return files.Serve(ctx, l.tftp) })
	if l.solicitations != nil {
		solicited := routeradv.New(l.solicitations, directory{c: r.conductor, cached: r.stock.cached}, r.netboot, r.cfg.Log)
		g.Go(func() error { return solicited.Serve(ctx) })
	}
	if l.proxy != nil {
		g.Go(func() error { return l.dhcpServer.ServeBoot(ctx, l.proxy) })
	}
	if l.dhcp != nil {
		g.Go(func() error {
			if err := l.dhcpServer.Serve(ctx, l.dhcp); err != nil && !errors.Is(err, net.ErrClosed) {
				return err
			}
			return nil
		})
	}
}
