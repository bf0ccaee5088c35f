package powersync

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	pools "github.com/ironyard/ironyard/rackd/driver/bmc"
)

// chassis is the BMC of all nodes of a rack, behind a driver's pool.
type chassis struct {
	pool    *pools.Pool[session]
	refuses atomic.Bool
	silent  atomic.Bool
	logins  atomic.Int64
}

type session struct{}

func (session) Close(context.Context) {}
func (session) Drop()                 {}

// behind puts the nodes of a rack behind a BMC that refuses their password.
func behind(t *testing.T, r *rack) *chassis {
	c := &chassis{pool: pools.NewPool[session](pools.PoolOptions{Driver: "t"})}
	c.refuses.Store(true)
	for id := range r.nodes {
		r.change(id, func(n *node.Document) { n.DriverInfo = map[string]any{"account": "old password"} })
	}
	r.asks = c.ask
	t.Cleanup(func() { _ = c.pool.Close(context.Background()) })
	return c
}

// ask reads the power of a node.
func (c *chassis) ask(ctx context.Context, n *node.Document) error {
	var sum [32]byte
	copy(sum[:], n.DriverString("account"))
	err := c.pool.Use(ctx, pools.Account{Address: "chassis", Sum: sum, Node: n}, func(context.Context) (session, error) {
		if c.silent.Load() {
			return session{}, &pools.Lost{Err: errors.New("no answer")}
		}
		c.logins.Add(1)
		if c.refuses.Load() {
			return session{}, pools.RefusedLogin(&pools.Failure{Class: pools.Denied, Said: "401"})
		}
		return session{}, nil
	}, func(session) error { return nil })
	return pools.Attempt{Node: n, Doing: "read the power state", BMC: "chassis", User: "admin"}.Explain(err)
}

// Refused twice, the credentials of eight nodes are tried no more in days. All of the nodes are in maintenance, told what to do. What is
// held back counts for nothing, and is looked at no more often than a healthy node. The request of a person brings all of them back.
func TestRefusedCredentialsAreHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRack(8)
		c := behind(t, r)
		_, stop := running(t, r)
		defer stop()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		for id := range r.nodes {
			if got := r.faults()[id]; got != "+" {
				t.Fatalf("%s: faults %q within ten minutes", id, got)
			}
		}
		if e := r.events[0]; !e.SetMaintenance || !strings.Contains(e.Error, "does not log in again by itself") || !strings.Contains(e.Error, "baremetal node power on "+e.Node) {
			t.Errorf("the operator is told %q", e.Error)
		}
		time.Sleep(3 * 24 * time.Hour)
		synctest.Wait()
		if got := c.logins.Load(); got != 2 || r.counts["denied"] != 2 || r.counts["unreachable"]+r.counts["failed"] != 0 {
			t.Errorf("%d logins in three days, reads counted %v; want 2, and those", got, r.counts)
		}
		for id := range r.nodes {
			if got, most := r.count(id), 3*24*30*11/10; got > most {
				t.Errorf("%s was looked at %d times in three days, want no more than each two minutes", id, got)
			}
		}
		// The password is corrected at the BMC, which the request of a person finds out.
		c.refuses.Store(false)
		time.Sleep(time.Hour)
		if got := c.logins.Load(); got != 2 {
			t.Errorf("%d logins without a request, want 2", got)
		}
		if err := c.ask(driver.WithTry(t.Context()), r.nodes["n5"]); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		for id := range r.nodes {
			if got := r.faults()[id]; got != "+-" {
				t.Errorf("%s: faults %q after the request", id, got)
			}
		}
	})
}

// An operator who ends the maintenance has the BMC tried once.
func TestTheEndOfMaintenanceLogsInOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRack(1)
		c := behind(t, r)
		s, stop := running(t, r)
		defer stop()
		ends := func(logins int64, faults string) {
			t.Helper()
			s.NodeChanged("n0") // the task sees the fault
			time.Sleep(5 * time.Second)
			r.mu.Lock()
			r.change("n0", func(n *node.Document) { n.Maintenance, n.Fault = false, "" })
			r.mu.Unlock()
			s.NodeChanged("n0")
			time.Sleep(time.Hour)
			synctest.Wait()
			if got := r.faults()["n0"]; c.logins.Load() != logins || got != faults {
				t.Errorf("%d logins and faults %q, want %d and %q", c.logins.Load(), got, logins, faults)
			}
		}
		time.Sleep(time.Hour)
		ends(3, "++")
		c.refuses.Store(false)
		ends(4, "++")
	})
}

// The login that the end of a maintenance asks for is made by the first read that reaches the BMC. One that is held back, because
// another request was refused a moment ago, and one that the BMC is silent to, leave it to the next.
func TestTheLoginOfAnOperatorIsSpentByALogin(t *testing.T) {
	for name, before := range map[string]func(c *chassis, n *node.Document){
		"another request was refused a moment ago": func(c *chassis, n *node.Document) { _ = c.ask(driver.WithTry(context.Background()), n) },
		"the BMC is silent for a while":            func(c *chassis, _ *node.Document) { c.silent.Store(true) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRack(1)
				c := behind(t, r)
				s, stop := running(t, r)
				defer stop()
				time.Sleep(time.Hour)
				s.NodeChanged("n0") // the task sees the fault
				time.Sleep(5 * time.Second)
				before(c, r.nodes["n0"])
				c.refuses.Store(false)
				logins := c.logins.Load()
				r.mu.Lock()
				r.change("n0", func(n *node.Document) { n.Maintenance, n.Fault = false, "" })
				r.mu.Unlock()
				s.NodeChanged("n0")
				time.Sleep(5 * time.Second)
				c.silent.Store(false)
				time.Sleep(time.Hour)
				synctest.Wait()
				r.mu.Lock()
				n := r.nodes["n0"]
				r.mu.Unlock()
				if got := c.logins.Load() - logins; n.Maintenance || got != 1 {
					t.Errorf("an hour after the end of its maintenance the node has maintenance %t and fault %q, with %d logins; want one, and neither", n.Maintenance, n.Fault, got)
				}
			})
		})
	}
}
