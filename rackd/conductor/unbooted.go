package conductor

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/conductor/flow"
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
	told := map[string]time.Time{}   // by node
	waits := map[string]work.Event{} // lines that the bus has not confirmed: it may have taken them
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
		line, is := waits[u.node.UUID]
		if !is || u.at.Sub(line.Time) >= unbootedAgain {
			line = flow.HardwareEvent(c.cfg.Name, u.node, &hardware.Observation{})
			line.ID, line.Time = u.node.UUID+"/"+u.sign.Phase+"/"+uuid.NewString(), u.at.UTC()
			line.Before = []work.Line{{Time: u.at.UTC(), Phase: u.sign.Phase, Detail: u.sign.Detail}}
			line.Cut()
		}
		waits[u.node.UUID] = line
		telling, cancel := context.WithTimeout(ctx, unbootedWithin)
		err := c.tellIdle(telling, line)
		cancel()
		if err != nil { // said by then; the machine tries again, and the bus drops what it has
			continue
		}
		delete(waits, u.node.UUID)
		for id, at := range told {
			if u.at.Sub(at) >= unbootedAgain {
				delete(told, id)
			}
		}
		for id, line := range waits {
			if u.at.Sub(line.Time) >= unbootedAgain {
				delete(waits, id)
			}
		}
		told[u.node.UUID] = u.at
	}
}
