package conductor

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// While the bus is away the log has a line when that begins and one, with the count, when it is over, for each
// kind of write: not one a second for each open work.
func TestBusThatIsAwayDoesNotFloodTheLog(t *testing.T) {
	const nodes = 50
	synctest.Test(t, func(t *testing.T) {
		s, log := newShelf(), new(bytes.Buffer)
		for i := range nodes {
			id := fmt.Sprintf("n%02d", i)
			s.nodes[id] = &node.Document{UUID: id, Driver: "t", State: provision.Available}
		}
		s.nodes["idle"] = &node.Document{UUID: "idle", Driver: "t", State: provision.Active}
		m := &machine{deploy: []driver.Step{{Interface: "deploy", Name: "write", Priority: 50, Kind: driver.Repeatable,
			Run: func(_ context.Context, t *driver.Task) (driver.Outcome, error) {
				t.Record.Phase("write", "begun")
				return driver.Wait(time.Second), nil
			}}}}
		c, _, kill := conductorOn(t, s, "a", owned("a"), m, func(cfg *Config) { cfg.Log = slog.New(slog.NewTextHandler(log, nil)) })
		defer kill()
		away := func(cut bool) {
			s.mu.Lock()
			s.cut = cut
			s.mu.Unlock()
		}
		away(true) // before any work is taken, so that no write succeeds that began while the bus was there
		for i := range nodes {
			s.request(fmt.Sprintf("n%02d", i), work.Deploy, provision.Deploying, work.Args{})
		}
		for range 60 {
			_ = c.SawPower(t.Context(), s.Node("idle"), driver.PowerOn, time.Now(), false)
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if n := strings.Count(log.String(), "level=WARN"); n == 0 || n > 3 {
			t.Errorf("%d lines while the bus was away for a minute:\n%.2000s", n, log)
		}
		log.Reset()
		away(false)
		if err := c.SawPower(t.Context(), s.Node("idle"), driver.PowerOn, time.Now(), false); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := strings.Count(log.String(), "level=WARN"); n == 0 || n > 3 || strings.Count(log.String(), "failures=") != n {
			t.Errorf("%d lines when it was back, want what began before, with counts:\n%.2000s", n, log)
		}
	})
}
