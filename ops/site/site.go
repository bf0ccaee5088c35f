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

	"github.com/ironyard/ironyard/ops/embeddedbus"
	"github.com/ironyard/ironyard/protocol/membership"
)

// Options of a server.
type Options struct {
	Dir string // the member's folder
	// Listen is the address to listen on; empty: all.
	Listen string
	Log    *slog.Logger
}

// Serve runs the NATS server of a folder until ctx ends, and keeps the folder fresh.
// ready is called once clients may connect.
func Serve(ctx context.Context, o Options, ready func(*membership.Member)) error {
	m, err := membership.Open(o.Dir)
	if err != nil {
		return err
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
	m.KeepFresh(ctx, o.Log, func() {
		if err := reload(m, o.Listen, b); err != nil {
			o.Log.Error("what the renewal brought is not in use: restart the server", "member", m.Scope.String(), "error", err)
		}
	})
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
var errNoServer = errors.New("the folder is a rackd's: it has no NATS server to run")
