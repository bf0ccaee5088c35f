// Package tftp serves the boot files over TFTP, read only, with blksize and tsize.
// It needs no authentication, see rackd/netboot.
//
// It may import rackd/netboot and what is below it.
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
)

// Server serves files; MACOf names the machine behind an address, for the journal.
type Server struct {
	Files   *bootfiles.Files
	Journal netboot.Journal
	MACOf   func(ip net.IP) (mac string, ok bool)
	Log     *slog.Logger
}

// maxBlock keeps packets whole on Ethernet.
const maxBlock = 1428

// Serve serves on conn, which it closes, until ctx ends.
func (s *Server) Serve(ctx context.Context, conn net.PacketConn) error {
	srv := tftp.NewServer(s.read, nil) // no writes
	srv.SetTimeout(2 * time.Second)
	srv.SetRetries(5)
	srv.SetBlockSize(maxBlock)
	srv.SetBlockSizeNegotiation(true)
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		srv.Shutdown() // transfers that run end by their time-outs
	})
	defer func() {
		if !stop() {
			<-ended
		}
	}()
	if err := srv.Serve(conn); err != nil && ctx.Err() == nil {
		return fmt.Errorf("serve TFTP on %s: %w", conn.LocalAddr(), err)
	}
	return nil
}

func (s *Server) read(name string, rf io.ReaderFrom) error {
	out, ok := rf.(tftp.OutgoingTransfer)
	if !ok {
		return errors.New("not a transfer")
	}
	peer := out.RemoteAddr()
	f, err := s.Files.Open(strings.TrimPrefix(name, "/"))
	if err != nil {
		s.Log.Warn("TFTP file refused", "file", name, "from", peer.IP.String())
		return errors.New("file not found")
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil {
		out.SetSize(info.Size())
	}
	if mac, ok := s.MACOf(peer.IP); ok {
		s.Journal.Seen(mac, netboot.PhaseTFTP, name)
		if name == bootfiles.Kernel {
			s.Journal.Seen(mac, netboot.PhaseKernel, "by TFTP")
		}
	}
	began := time.Now()
	n, err := rf.ReadFrom(f)
	if err != nil {
		s.Log.Debug("TFTP transfer ended early", "file", name, "from", peer.IP.String(), "error", err)
		return err
	}
	s.Log.Info("TFTP file sent", "file", name, "to", peer.IP.String(), "bytes", n, "took", time.Since(began).Round(time.Millisecond))
	return nil
}
