package membership

import (
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/ironyard/ironyard/protocol/join"
)

// Dialer dials the servers of the member's site that the folder names at that moment, and no others. A client of NATS
// keeps the servers that it was once told of for as long as it runs, and what they say of each other: one that was revoked
// would be dialled on, though the folder has not named it since the renewal.
func (m *Member) Dialer() interface {
	Dial(network, address string) (net.Conn, error)
} {
	return dialer{m.Dir, slices.Clone(m.Servers)}
}

type dialer struct {
	dir     string
	servers []string // where the folder cannot be read
}

// dialWithin bounds a connection attempt.
const dialWithin = 5 * time.Second

// Dial implements nats.CustomDialer.
func (d dialer) Dial(network, address string) (net.Conn, error) {
	servers := d.servers
	if now, err := Open(d.dir); err == nil {
		servers = now.Servers
	}
	if !slices.ContainsFunc(servers, func(s string) bool {
		a, err := join.ParseAddress(s)
		return err == nil && a.Client() == address
	}) {
		return nil, fmt.Errorf("%s is not dialled: it is not one of the site's servers that the folder %s names, %q", address, d.dir, servers)
	}
	return net.DialTimeout(network, address, dialWithin)
}
