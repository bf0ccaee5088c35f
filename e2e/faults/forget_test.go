package faults

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/provision"
)

// A site that is cut off loses the documents of its work, for so long that no rackd is sure any more of
// what it held, and an operator has machines restarted that central believes to wait for
// their agents. The work that does so goes on where the rackds remember that the deploys stood:
// no image is written twice, which the machines' audit holds.
func TestRequestWhileTheSiteForgets(t *testing.T) {
	const cutFor = 25 * time.Second // longer than bus.LossSettled and a lease
	l, ctx := theLab(t), within(t, 5*time.Minute)
	site, nodes := l.Sites[0], l.nodes["alpha"][:8]
	l.available(ctx, t, nodes)
	l.deploy(ctx, t, nodes)
	l.working(ctx, t, "", 1, writing) // the others are written behind the cut
	written := func() (ids []string) {
		for _, s := range l.see.Owned("") {
			if step := s.Doc.Checkpoint.Step; step == "deploy.prepare_instance_boot" || step == "deploy.tear_down_agent" {
				ids = append(ids, s.Doc.Node)
			}
		}
		return ids
	}
	if err := site.WAN.Cut(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { site.WAN.Join() })
	cut, seen := time.Now(), written() // of these central may have heard
	forgotten, asked := 0, 0
	fresh := func() []string {
		return slices.DeleteFunc(written(), func(id string) bool { return slices.Contains(seen, id) })
	}
	for asked == 0 { // also of one written at the very cut it may have heard, and refuse its restart
		if err := l.see.Await(ctx, func() bool { return len(fresh()) > 0 }); err != nil {
			t.Fatalf("images of %d machines were written after the cut, and %d restarts were accepted: %v", forgotten, asked, err)
		}
		for _, id := range fresh() {
			seen = append(seen, id)
			forgotten++
			switch r := l.ops.Power(ctx, id, string(provision.DeployWait), "rebooting"); {
			case r.Accepted():
				asked++
			case !strings.Contains(r.Fault, "is locked by"):
				t.Errorf("restart of node %s: %d: %s", id, r.Status, r.Fault)
			}
		}
	}
	if err := site.JetStream(ctx, func(ctx context.Context, js jetstream.JetStream) error {
		return js.DeleteStream(ctx, "KV_"+bus.WorkBucket)
	}); err != nil {
		t.Fatal(err)
	}
	t.Logf("the bus forgot where %d deploys stood whose images were written; %d restarts were accepted meanwhile", forgotten, asked)
	time.Sleep(time.Until(cut.Add(cutFor))) // it is the length of the cut that matters
	if err := site.WAN.Join(); err != nil {
		t.Fatal(err)
	}
	l.active(ctx, t, nodes)
	l.judge(t)
}
