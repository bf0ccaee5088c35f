// Package tftp serves the boot files, and the boot scripts of machines with the boot
// interface pxe, over TFTP: read only, with blksize, tsize and windowsize.
//
// It may import rackd/netboot and what is below it, and rackd/strangers. It needs no authentication, see
// rackd/netboot. TFTP cannot tell a real peer from a forged one before the first
// data is acknowledged. So a request is answered by one small packet and takes no machine's
// place: of requests that are not acknowledged the oldest goes first, and one address has
// a small share (places.go). Why this is not a library's server: decision 061.
package tftp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/pin/tftp/v3/netascii"

	"github.com/ironyard/ironyard/rackd/netboot"
	"github.com/ironyard/ironyard/rackd/netboot/bootfiles"
	"github.com/ironyard/ironyard/rackd/netboot/bootscript"
	"github.com/ironyard/ironyard/rackd/netboot/loaderconfig"
	"github.com/ironyard/ironyard/rackd/strangers"
)

// Server serves files.
type Server struct {
	Files *bootfiles.Files
	// Scripts generates what is asked for under boot/script/; nil: nothing is there.
	Scripts *bootscript.Scripts
	Journal netboot.Journal
	Metrics *netboot.Metrics // nil: nothing is counted
	// Own opens a file that a node brings itself, by its id in the rack's cache; nil: nothing is there.
	Own func(id string) (io.ReadCloser, int64, error)
	// MACOf names the machine behind an address, for the journal.
	MACOf func(ip net.IP) (mac string, ok bool)
	// Strangers bounds what is logged of them; nil: by the defaults.
	Strangers *strangers.Gate
	Log       *slog.Logger
	// MaxTransfers bounds the transfers at a time; 0: maxTransfers.
	MaxTransfers int

	once  sync.Once
	lines *strangers.LineCount
}

// logged counts the lines of the log.
func (s *Server) logged() *strangers.LineCount {
	s.once.Do(func() {
		g := s.Strangers
		if g == nil {
			g = strangers.New(strangers.Budget{}, nil, s.Log)
		}
		s.lines = g.Lines("TFTP")
	})
	return s.lines
}

// Errors that peers are told; TFTP has room for a word or two.
var (
	errMissing = errors.New("file not found")
	errStopped = errors.New("server stops")
)

// Serve serves on conn, which it closes, until ctx ends; transfers that run are
// broken off then.
func (s *Server) Serve(ctx context.Context, conn net.PacketConn) error {
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	local, ok := conn.LocalAddr().(*net.UDPAddr)
	if !ok {
		return fmt.Errorf("serve TFTP on %s: not UDP", conn.LocalAddr())
	}
	most := s.MaxTransfers
	if most == 0 {
		most = maxTransfers
	}
	enlarge(conn)
	held, largest := newPlaces(most), largestBlock(local.IP)
	var transfers sync.WaitGroup
	defer transfers.Wait()
	buf := make([]byte, maxRequest+1)
	for {
		n, from, err := conn.ReadFrom(buf)
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, net.ErrClosed) {
			return fmt.Errorf("serve TFTP on %s: %w", local, err)
		}
		if err != nil {
			s.Log.Error("TFTP read failed, trying again", "on", local.String(), "error", err)
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
			continue
		}
		peer, ok := from.(*net.UDPAddr)
		if !ok {
			continue
		}
		r, err := parseRequest(buf[:n])
		switch {
		case errors.Is(err, errWrite):
			conn.WriteTo(errorPacket(codeRefused, err.Error()), peer) // who asks again is told again
			continue
		case err != nil:
			continue
		}
		own, end := context.WithCancelCause(ctx)
		at := held.open(peer.AddrPort(), end)
		if at == nil {
			end(nil)
			continue
		}
		transfers.Go(func() {
			defer end(nil)
			defer held.close(at)
			s.answer(own, r, local.IP, peer, largest, func() error { return held.confirm(at) })
		})
	}
}

// burst is how many bytes of requests may wait to be read: a stranger's thousands in one
// moment shall not push a machine's request out, which would come again after seconds only.
const burst = 4 << 20

// enlarge makes room for a burst, as far as the system allows.
func enlarge(conn net.PacketConn) {
	u, ok := conn.(*net.UDPConn)
	if !ok {
		return
	}
	forced := false
	if raw, err := u.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) {
			forced = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUFFORCE, burst) == nil
		})
	}
	if !forced {
		u.SetReadBuffer(burst) // less than that does, with smaller bursts
	}
}

// pause after a failed read: an interface that goes down and comes back fails reads in
// between, and the server must outlive that.
const pause = time.Second

// largestBlock is the largest block whose packets stay whole on the interface of an address.
func largestBlock(ip net.IP) int {
	headers := 20 + 8 + 4 // IPv4, UDP, TFTP
	if ip.To4() == nil {
		headers += 20
	}
	list, err := net.Interfaces()
	if err != nil || ip.IsUnspecified() {
		return maxBlock
	}
	for _, i := range list {
		addrs, err := i.Addrs()
		if err != nil {
			continue
		}
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); ok && n.IP.Equal(ip) {
				return max(min(maxBlock, i.MTU-headers), usualBlock)
			}
		}
	}
	return maxBlock
}

// answer answers a request from a port of its own.
func (s *Server) answer(ctx context.Context, r request, from net.IP, to *net.UDPAddr, largest int, heard func() error) {
	conn, err := net.DialUDP("udp", &net.UDPAddr{IP: from}, to)
	if err != nil {
		s.Metrics.File("tftp", "failed", 0)
		if s.logged().OfStranger() {
			s.Log.Warn("TFTP request not answered", "file", strangers.Name(r.name), "from", to.IP.String(), "error", err)
		}
		return
	}
	defer conn.Close()
	// Closing it would be faster, but the peer is told why.
	stop := context.AfterFunc(ctx, func() { conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	name := strings.TrimLeft(r.name, "/") // shim asks with two
	content, size, err := s.open(name, to.IP)
	if err != nil {
		s.Metrics.File("tftp", "missing", 0)
		if s.logged().OfStranger() {
			s.Log.Warn("TFTP file refused", "file", strangers.Name(name), "from", to.IP.String(), "error", strangers.Cause(err))
		}
		conn.Write(errorPacket(codeNotFound, errMissing.Error())) // who misses it asks again
		return
	}
	defer content.Close()
	var body io.Reader = content
	if !r.octet {
		body = netascii.ToReader(body)
	}
	acknowledged, began := false, time.Now()
	t := &transfer{conn: conn, heard: func() error {
		err := heard()
		if err == nil && !acknowledged {
			acknowledged = true
			s.note(name, to.IP)
		}
		return err
	}}
	n, err := t.send(ctx, r, body, size, largest)
	switch {
	case err == nil:
		s.Metrics.File("tftp", "ok", n)
		if s.logged().OfMachine(to.IP.String()) {
			s.Log.Info("TFTP file sent", "file", strangers.Name(name), "to", to.IP.String(), "bytes", n, "took", time.Since(began).Round(time.Millisecond))
		}
		return
	case errors.Is(err, errBusy):
		s.Metrics.File("tftp", "busy", 0)
	case !acknowledged:
		// Anyone can send such requests, from any address: counted, and no line each.
		s.Metrics.File("tftp", "unanswered", 0)
		s.Log.Debug("TFTP request without an acknowledgement", "file", name, "from", to.IP.String(), "error", err)
	default:
		s.Metrics.File("tftp", "failed", n)
		if s.logged().OfMachine(to.IP.String()) {
			s.Log.Info("TFTP transfer ended early", "file", strangers.Name(name), "to", to.IP.String(), "bytes", n, "of", size, "error", err)
		}
	}
	if !errors.Is(err, errDisplaced) { // a stranger has it send nothing more
		conn.Write(errorPacket(codeOther, told(err))) // its loss costs the peer its own time-out
	}
}

// told is what a peer is told of an error.
func told(err error) string {
	for _, e := range []error{errBusy, errSilent, errStopped} {
		if errors.Is(err, e) {
			return e.Error()
		}
	}
	if errors.Is(err, context.Canceled) {
		return errStopped.Error()
	}
	return "transfer failed"
}

// open returns a boot file, or a script made for this request.
func (s *Server) open(name string, peer net.IP) (io.ReadCloser, int64, error) {
	if s.Scripts != nil {
		from, _ := netip.AddrFromSlice(peer)
		if text, made, err := s.made(name, from.Unmap()); made {
			return io.NopCloser(strings.NewReader(text)), int64(len(text)), err
		}
		if own, ok := strings.CutPrefix(name, netboot.OwnFilePath); ok && s.Own != nil {
			mac, kind, _ := strings.Cut(own, "/")
			f, err := s.Scripts.OwnFile(mac, kind, from.Unmap())
			if err != nil {
				return nil, 0, err
			}
			return s.Own(f.ID)
		}
	}
	f, err := s.Files.Open(name)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

// made returns what is made for the request, if it names such a thing.
func (s *Server) made(name string, from netip.Addr) (text string, made bool, err error) {
	if mac, ok := strings.CutPrefix(name, netboot.TFTPScriptPath); ok {
		if mac, ok = strings.CutSuffix(mac, netboot.TFTPAfterVolume); ok {
			text, err = s.Scripts.AfterVolume(mac, "tftp", from)
			return text, true, err
		}
		text, err = s.Scripts.ForMAC(mac, "tftp", from)
		return text, true, err
	}
	if s.Files.Has(bootfiles.Shim) {
		if name == netboot.TFTPGRUBMain || name == netboot.TFTPGRUBMainX64 {
			return loaderconfig.GRUBMain(), true, nil
		}
		if mac, ok := strings.CutPrefix(name, netboot.TFTPGRUBPath); ok {
			text, err = s.Scripts.ForLoader(bootscript.GRUB, mac, from)
			return text, true, err
		}
	}
	if mac, ok := strings.CutPrefix(name, netboot.PXELinuxPath); ok && s.Files.Has(bootfiles.PXELinux) {
		text, err = s.Scripts.ForLoader(bootscript.PXELinux, mac, from)
		return text, true, err
	}
	return "", false, nil
}

// byScripts reports whether Scripts tells the journal of a file: it is made for one machine.
func byScripts(name string) bool {
	return slices.ContainsFunc([]string{netboot.TFTPScriptPath, netboot.TFTPGRUBPath, netboot.PXELinuxPath}, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// note tells the journal what the machine behind peer fetches.
func (s *Server) note(name string, peer net.IP) {
	mac, ok := s.MACOf(peer)
	if !ok || byScripts(name) {
		return
	}
	name = bootfiles.Plain(name)
	s.Journal.Seen(mac, netboot.PhaseTFTP, name)
	switch name {
	case bootfiles.Kernel:
		s.Journal.Seen(mac, netboot.PhaseKernel, "by TFTP")
	case bootfiles.Ramdisk, bootfiles.RescueRamdisk:
		s.Journal.Seen(mac, netboot.PhaseRamdisk, "by TFTP")
	}
	if bootfiles.IsProgram(name) {
		s.Journal.Seen(mac, netboot.PhaseProgram, "by TFTP")
	}
}
