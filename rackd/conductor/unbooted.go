package conductor

import (
	"context"
	"time"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/work"
)

// A machine that iPXE is to boot from a volume tries for as long as that does not attach, and its node is active. The node's history says
// so, once in a while: its rackds hear of each try.

const (
	// mostUnbooted is how many machines wait for their line; those beyond are told of at their next try.
	mostUnbooted = 64
	// unbootedAgain is how long a line is enough.
	unbootedAgain = 10 * time.Minute
	// unbootedWithin bounds how long the bus may take for a line.
	unbootedWithin = 10 * time.Second
)

// unbooted is a machine that has not booted its volume.
type unbooted struct {
	node *node.Document
	sign ask.Sign
	at   time.Time
}

// unbooted has a line written. It does not wait for it.
func (c *Conductor) unbooted(n *node.Document, s ask.Sign) {
	select {
	case c.volumes <- unbooted{n, s, time.Now()}:
	default:
	}
}

// tellUnbooted writes the lines until ctx ends.
func (c *Conductor) tellUnbooted(ctx context.Context) error {
	told := map[string]time.Time{} // by node
	for {
		var u unbooted
		select {
		case <-ctx.Done():
			return nil
		case u = <-c.volumes:
		}
		if at, was := told[u.node.UUID]; was && u.at.Sub(at) < unbootedAgain {
			continue
		}
		telling, cancel := context.WithTimeout(ctx, unbootedWithin)
		err := c.TellLog(telling, u.node, &hardware.Observation{}, []work.Line{{Time: u.at.UTC(), Phase: u.sign.Phase, Detail: u.sign.Detail}})
		cancel()
		if err != nil { // said by then; the machine tries again
			continue
		}
		for id, at := range told {
			if u.at.Sub(at) >= unbootedAgain {
				delete(told, id)
			}
		}
		told[u.node.UUID] = u.at
	}
}
