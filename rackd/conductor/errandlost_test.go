package conductor

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// losing is a bus that loses the first end of an errand after it has taken it, as one does that comes back from an older copy.
type losing struct {
	eyes
	lost *atomic.Int32
}

func (l losing) Publish(ctx context.Context, e work.Event) error {
	if e.Kind == work.ErrandEnded && l.lost.CompareAndSwap(0, 1) {
		return nil
	}
	return l.eyes.Publish(ctx, e)
}

// The bus loses that a request beside a hold has ended. States are told again every five minutes, ends of works every minute, secrets too.
// Until central knows of this end, it refuses with 409 to let the flow go and to switch the machine. So it does with an abort of a
// step that must not be cut. A hold has no deadline (central/dispatch.openFlow).
func TestTheEndOfARequestBesideAHoldIsToldAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lost atomic.Int32
		s := newShelf()
		hw := fakeHardware(t, s)
		_, _, kill := conductorOn(t, s, "a", owned("a"), &machine{}, func(c *Config) { hw(c); c.Documents = losing{eyes{s, "a"}, &lost} })
		defer kill()
		inHold(t, s)
		s.errand(nodeA, work.Args{PowerTarget: string(driver.PowerOn)})
		time.Sleep(time.Hour)
		synctest.Wait()
		if told := s.errands(); len(told) == 0 {
			t.Errorf("an hour later central has not been told, lost %d; the checkpoint says %+v", lost.Load(), s.Work(nodeA).Doc.Checkpoint.Errand)
		}
	})
}
