// Package tftp serves the boot files, and the boot scripts of machines with the boot
// interface pxe, over TFTP: read only, with blksize and tsize.
//
// It may import rackd/netboot and what is below it. It needs no authentication, see
// rackd/netboot. TFTP cannot tell a real peer from a forged one before the first
// data is acknowledged; so transfers are few, end by time-outs, and a request is
// answered by one small packet until somebody acknowledges.
package tftp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/pin/tftp/v3"

	"github.com/ironyard/ironyard/rackd/netboot"
	"github.com/ironyard/ironyard/rackd/netboot/bootfiles"
	"github.com/ironyard/ironyard/rackd/netboot/bootscript"
)

// Server serves files.
type Server struct {
	Files *bootfiles.Files
	// Scripts generates what is asked for under boot/script/; nil: nothing is there.
	Scripts *bootscript.Scripts
	Journal netboot.Journal
	Metrics *netboot.Metrics // nil: nothing is counted
	// MACOf names the machine behind an address, for the journal.
	MACOf func(ip net.IP) (mac string, ok bool)
	Log   *slog.Logger
	// MaxTransfers bounds the transfers at a time; 0: 256.
	MaxTransfers int
}

const (
	// maxBlock keeps packets whole on Ethernet.
	maxBlock = 1428
	// A peer that answers nothing is given up after timeout × retries, with
	// pauses of up to a second between.
	timeout = 2 * time.Second
	retries = 5
)

// Errors that peers are told; TFTP has room for a word or two.
var (
	errMissing = errors.New("file not found")
	errBusy    = errors.New("too many transfers, try again")
	errStopped = errors.New("server stops")
)

// Serve serves on conn, which it closes, until ctx ends; transfers that run are
// broken off then.
func (s *Server) Serve(ctx context.Context, conn net.PacketConn) error {
	limit := s.MaxTransfers
	if limit == 0 {
		limit = 256
	}
	slots := make(chan struct{}, limit)
	srv := tftp.NewServer(func(name string, rf io.ReaderFrom) error {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
			return s.read(ctx, name, rf)
		default:
			s.Metrics.File("tftp", "busy", 0)
			return errBusy
		}
	}, nil) // no writes
	srv.SetTimeout(timeout)
	srv.SetRetries(retries)
	srv.SetBlockSize(maxBlock)
	srv.SetBlockSizeNegotiation(true)
	defer conn.Close()
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		srv.Shutdown() // returns when the last transfer has ended
	})
	err := srv.Serve(conn)
	if stop() {
		return fmt.Errorf("serve TFTP on %s: %w", conn.LocalAddr(), err)
	}
	<-ended
	return nil
}

func (s *Server) read(ctx context.Context, name string, rf io.ReaderFrom) error {
	out, ok := rf.(tftp.OutgoingTransfer)
	if !ok {
		return errors.New("not a transfer")
	}
	peer := out.RemoteAddr().IP
	name = strings.TrimPrefix(name, "/")
	content, size, err := s.open(name, peer)
	if err != nil {
		s.Metrics.File("tftp", "missing", 0)
		s.Log.Warn("TFTP file refused", "file", name, "from", peer.String(), "error", err)
		return errMissing
	}
	defer content.Close()
	out.SetSize(size)
	s.note(name, peer)
	began := time.Now()
	n, err := rf.ReadFrom(&source{ctx, content})
	if err != nil {
		s.Metrics.File("tftp", "failed", n)
		s.Log.Info("TFTP transfer ended early", "file", name, "to", peer.String(), "bytes", n, "of", size, "error", err)
		return err
	}
	s.Metrics.File("tftp", "ok", n)
	s.Log.Info("TFTP file sent", "file", name, "to", peer.String(), "bytes", n, "took", time.Since(began).Round(time.Millisecond))
	return nil
}

// open returns a boot file, or a script made for this request.
func (s *Server) open(name string, peer net.IP) (io.ReadCloser, int64, error) {
	if mac, ok := strings.CutPrefix(name, netboot.TFTPScriptPath); ok && s.Scripts != nil {
		text, err := s.Scripts.ForMAC(mac, "tftp", peer.String())
		return io.NopCloser(strings.NewReader(text)), int64(len(text)), err
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

// note tells the journal what the machine behind peer fetches.
func (s *Server) note(name string, peer net.IP) {
	mac, ok := s.MACOf(peer)
	if !ok || strings.HasPrefix(name, netboot.TFTPScriptPath) { // scripts are told by Scripts
		return
	}
	s.Journal.Seen(mac, netboot.PhaseTFTP, name)
	switch name {
	case bootfiles.Kernel:
		s.Journal.Seen(mac, netboot.PhaseKernel, "by TFTP")
	case bootfiles.Ramdisk:
		s.Journal.Seen(mac, netboot.PhaseRamdisk, "by TFTP")
	}
}

// source ends with an error when the server stops, so that a long transfer does not
// hold it up.
type source struct {
	ctx context.Context
	r   io.Reader
}

func (s *source) Read(b []byte) (int, error) {
	if s.ctx.Err() != nil {
		return 0, errStopped
	}
	return s.r.Read(b)
}
