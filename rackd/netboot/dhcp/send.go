package dhcp

import (
	"context"
	"log/slog"
	"net"

	"github.com/ironyard/ironyard/rackd/netboot"
	"github.com/ironyard/ironyard/rackd/strangers"
)

// maxWaiting bounds the replies that wait for the disk; clients ask again.
const maxWaiting = 256

// outgoing is a reply and where it goes; without a packet it makes what a pool noted last.
type outgoing struct {
	packet            []byte
	to                net.Addr
	mac, kind, client string // for the log and the metrics
}

// post is what send needs of its server.
type post struct {
	pools   []*pool
	metrics *netboot.Metrics
	lines   *strangers.LineCount
	log     *slog.Logger
}

// send sends replies until there are no more. What waits together is made to last together,
// in the lease files, before any of it is sent.
func send(ctx context.Context, conn net.PacketConn, waiting <-chan outgoing, p post) {
	for first := range waiting {
		batch := []outgoing{first}
		for more := true; more && len(batch) < maxWaiting; {
			select {
			case o, open := <-waiting:
				if more = open; open {
					batch = append(batch, o)
				}
			default:
				more = false
			}
		}
		for _, each := range p.pools {
			each.flush()
		}
		for _, o := range batch {
			if o.packet == nil {
				continue
			}
			if _, err := conn.WriteTo(o.packet, o.to); err != nil {
				if ctx.Err() == nil {
					p.metrics.DHCPDropped("error")
				}
				if ctx.Err() == nil && p.lines.OfStranger() {
					p.log.Error("DHCP reply not sent", "mac", o.mac, "to", o.to.String(), "error", err)
				}
				continue
			}
			p.metrics.DHCPReply(o.kind, o.client)
		}
	}
}
