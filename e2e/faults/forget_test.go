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
	t.Cleanup(func() { site.WAN.Join() })
	written := func() (ids []string) {
		for _, s := range l.see.Owned("") {
			if step := s.Doc.Checkpoint.Step; step == "deploy.prepare_instance_boot" || step == "deploy.tear_down_agent" {
				ids = append(ids, s.Doc.Node)
			}
		}
		return ids
	}
	var cut time.Time
	forgotten, asked := 0, 0
	for round := 1; asked == 0; round++ {
		if round > 3 {
			t.Fatalf("images of %d machines were written after the cuts, and central accepted no restart", forgotten)
		}
		l.available(ctx, t, nodes)
		l.deploy(ctx, t, nodes)
		l.working(ctx, t, "", len(nodes)/2, writing)
		if err := site.WAN.Cut(); err != nil {
			t.Fatal(err)
		}
		cut = time.Now()
		seen := written() // of these central may have heard, and of one written at the very cut: it refuses their restarts
		soon, over := context.WithTimeout(ctx, 20*time.Second)
		for asked == 0 {
			var fresh []string
			if l.see.Await(soon, func() bool {
				fresh = slices.DeleteFunc(written(), func(id string) bool { return slices.Contains(seen, id) })
				return len(fresh) > 0
			}) != nil {
				break
			}
			for _, id := range fresh {
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
		over()
		if asked == 0 {
			t.Logf("round %d: central had heard of each image that was written", round)
			if err := site.WAN.Join(); err != nil {
				t.Fatal(err)
			}
			l.active(ctx, t, nodes)
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
