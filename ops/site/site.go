// Package site runs the NATS servers of a site and of the hub from the folder of a
// member (protocol/membership): it writes their configuration, which a stock
// nats-server reads as well, and runs them in the process.
//
// It may import protocol and ops/embeddedbus. Invariants of the configuration:
//   - Every link is mutual TLS under the fleet's authority: clients, cluster, leaf.
//   - A certificate alone opens nothing: clients and leafs need credentials of an
//     account that the server knows, servers of a cluster its password.
//   - A site has one account, which is all that its link to the hub carries.
//   - Nothing listens for leafs at a site: sites dial out.
package site

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ironyard/ironyard/ops/embeddedbus"
	"github.com/ironyard/ironyard/protocol/join"
	"github.com/ironyard/ironyard/protocol/membership"
)

// Options of a server.
type Options struct {
	Dir string // the member's folder
	// Listen is the address to listen on; empty: all.
	Listen string
	Log    *slog.Logger
}

// renewWithin bounds the renewal before a server starts, where central has asked for one soon.
const renewWithin = 10 * time.Second

// Serve runs the NATS server of a folder until ctx ends or the server fails, and keeps the
// folder fresh. ready is called once clients may connect.
func Serve(ctx context.Context, o Options, ready func(*membership.Member)) error {
	m, err := membership.Open(o.Dir)
	if err != nil {
		return err
	}
	if err := ports(m, o.Listen); err != nil {
		return err
	}
	if m.RenewSeconds > 0 { // others of the cluster may have joined since
		renewing, cancel := context.WithTimeout(ctx, renewWithin)
		if _, err := m.Renew(renewing); err != nil {
			o.Log.Warn("membership not renewed before the start: servers that have joined since are not known yet", "member", m.Scope.String(), "error", err)
		}
		cancel()
	}
	path, err := WriteConfig(m, o.Listen)
	if err != nil {
		return err
	}
	b, err := embeddedbus.StartFile(ctx, path, o.Log)
	if err != nil {
		return err
	}
	defer b.Stop()
	if ready != nil {
		ready(m)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		m.KeepFresh(ctx, o.Log, nil, func() {
			if err := reload(m, o.Listen, b); err != nil {
				o.Log.Error("what the renewal brought is not in use: restart the server", "member", m.Scope.String(), "error", err)
			}
		})
		return nil
	})
	g.Go(func() error {
		select {
		case <-ctx.Done():
			return nil
		case err := <-b.Failed():
			return err
		}
	})
	return g.Wait()
}

// ports fails where another process has a port that the server of a folder needs: the server
// itself would log it, and run on without.
func ports(m *membership.Member, listen string) error {
	at, err := join.ParseAddress(m.Scope.Address)
	if err != nil {
		return err
	}
	at = at.On(listen)
	needed := map[string]string{"clients": at.Client()}
	if m.Scope.Role == join.Hub {
		needed["sites' servers"] = at.Leaf()
	}
	if clustered(m) {
		needed["the cluster"] = at.Cluster()
	}
	for _, who := range slices.Sorted(maps.Keys(needed)) {
		l, err := net.Listen("tcp", needed[who])
		if err != nil {
			return fmt.Errorf("listen on %s for %s, as %s does: %w. --listen sets the address. The port is that of the address in the token: "+
				"if another server uses it, make a token with HOST:PORT", needed[who], who, m.Scope, err)
		}
		if err := l.Close(); err != nil {
			return err
		}
	}
	return nil
}

func reload(m *membership.Member, listen string, b *embeddedbus.Bus) error {
	_, err := WriteConfig(m, listen)
	if err == nil {
		err = b.Reload()
	}
	if err != nil {
		return fmt.Errorf("reload: %w", err)
	}
	return nil
}

// errNoServer is for folders of rackds.
var errNoServer = errors.New("this is the folder of a rackd, which runs no NATS server; start 'rackd --member' with it")
