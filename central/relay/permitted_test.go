package relay_test

import (
	"testing"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/bus/bustest"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// A relay that may do no more on the bus than the fleet's central sends works out, and finds that one
// of several was deleted.
func TestDeletedWorkKeyWithCentralsPermissions(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	site, central := bustest.Fleet(t)
	f.site = central
	f.follow(f.relay)
	b := &busy{fixture: f, idle: f.enroll("idle", ""), deploying: f.enroll("deploying", "")}
	f.request(f.enroll("other", ""), work.Deploy, provision.Deploying, provision.Active)
	b.work = f.request(b.deploying, work.Deploy, provision.Deploying, provision.Active)
	b.there("at first", 0)
	b.report(4)
	if err := site.Work.Purge(t.Context(), bus.NodeKey("", b.deploying.UUID)); err != nil {
		t.Fatal(err)
	}
	b.there("after the key was deleted", far)
}
