package wan_test

import (
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/provision"
)

// A site that loses its whole bus while its link is down gets it back: what central
// makes anew, its rackds find, and what was asked for meanwhile is done.
func TestSiteLosesItsBusWhileAway(t *testing.T) {
	f := start(t)
	idle := f.node("east", "idle", nil)
	east := f.Sites["east"]
	east.Link.Cut()
	f.until("east is away", 10*time.Second, func() bool { return f.dead() != "" })
	f.ask(idle, "active")
	for _, name := range []string{"KV_" + bus.NodesBucket, "KV_" + bus.WorkBucket, "KV_" + bus.AliveBucket, "KV_" + bus.GroupsBucket,
		"OBJ_" + bus.ConfigDrives, bus.EventsStream} {
		if err := east.Bus.JS.DeleteStream(t.Context(), name); err != nil {
			t.Fatalf("delete stream %s: %v", name, err)
		}
	}
	east.Link.Mend()
	f.wait(idle, 40*time.Second, provision.Active)
	f.until("all conductors are alive", 20*time.Second, func() bool { return f.dead() == "" && len(f.Roster.Conductors()) == 3 })
	for _, kv := range []string{bus.NodesBucket, bus.WorkBucket, bus.AliveBucket, bus.GroupsBucket} {
		if _, err := east.Bus.JS.KeyValue(t.Context(), kv); err != nil {
			t.Errorf("bucket %s: %v", kv, err)
		}
	}
}
