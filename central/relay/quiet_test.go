package relay_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/metrics"
	"github.com/ironyard/ironyard/central/relay"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/central/store/storetest"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// A site has open work, and many other works are those of other sites. So many are looked at by page. The site is not quiet
// when a page holds none of its works: each look asks for its store of config drives too.
func TestWorkAmongThatOfOtherSites(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ours := f.enroll("ours", "")
	f.update(func(ctx context.Context, tx *store.Tx) error {
		for i := range 300 { // more than are looked at at once
			n := storetest.NewNode(fmt.Sprint("n", i))
			n.UUID, n.ConductorGroup = fmt.Sprintf("ffffffff-ffff-4fff-bfff-%012d", i), "elsewhere" // they come last
			if err := tx.InsertNode(ctx, n); err != nil {
				return err
			}
			n.Accept(provision.Deploying, provision.Active, time.Now())
			if err := errors.Join(tx.UpdateNode(ctx, n), tx.InsertWork(ctx, storetest.NewWork(n, work.Deploy))); err != nil {
				return err
			}
		}
		return nil
	})
	w := f.request(ours, work.Deploy, provision.Deploying, provision.Active)
	f.follow(relay.New(relay.Config{Store: f.store, Key: f.key, Metrics: metrics.New(f.store.Statements), Log: discard,
		SiteOf: func(group string) string { return group }, Look: 50 * time.Millisecond, Drained: func(context.Context, *bus.Site) error { return nil }}))
	f.eventually("work", f.site.Work, bus.NodeKey("", ours.UUID), document(func(d work.Document) bool { return d.ID == w.ID }))
	// A look asks for the bucket of works, then for that of nodes, then for the drives. Others ask for the works' too.
	asks, err := f.site.Conn.SubscribeSync("$JS.API.STREAM.INFO.>")
	if err != nil {
		t.Fatal(err)
	}
	const nodes, drives = "$JS.API.STREAM.INFO.KV_" + bus.NodesBucket, "$JS.API.STREAM.INFO.OBJ_" + bus.ConfigDrives
	for looks, asked := 0, true; looks < 12; {
		msg, err := asks.NextMsg(patience)
		if err != nil {
			t.Fatal(err)
		}
		switch msg.Subject {
		case nodes:
			if !asked {
				t.Fatalf("look %d did not ask the site for its store of config drives", looks)
			}
			looks, asked = looks+1, false
		case drives:
			asked = true
		}
	}
}
