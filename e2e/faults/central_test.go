package faults

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/failpoint"
	"github.com/ironyard/ironyard/protocol/provision"
)

// places are where a replica of central dies: after a commit that nobody was told of,
// before an answer, between a node's document and its work, and with events in hand.
// The packages' own tests have the rest.
var places = []string{"store.committed", "api.answer", "relay.half", "ingest.apply"}

// Each replica of central dies at each place in its turn, while nodes are deployed and
// taken back. No accepted request is lost, none is carried out twice.
func TestCentralKilledAnywhere(t *testing.T) {
	l, ctx := theLab(t), within(t, 10*time.Minute)
	nodes := append(append([]string(nil), l.nodes["alpha"][:3]...), l.nodes["gamma"][:3]...)
	l.available(ctx, t, nodes)
	for i, place := range places {
		victim := l.Central[i%len(l.Central)]
		if err := victim.Stop(); err != nil {
			t.Error(err)
		}
		// Not at once: the third time that it comes by, it is in the middle of things.
		if err := victim.Start(fmt.Sprintf("%s=%s=kill#3", failpoint.Env, place)); err != nil {
			t.Fatal(err)
		}
		died, err := victim.Expect()
		if err != nil {
			t.Fatal(err)
		}
		if err := victim.Await(ctx, victim.Ready); err != nil {
			t.Logf("%s: %v", place, err) // it may have died on the way
		}
		cycle := time.Now()
		verb, want := "active", provision.Active
		if i%2 == 1 {
			verb, want = "deleted", provision.Available
		}
		if err := l.each(nodes, func(id string) error { return l.insist(ctx, id, verb, want) }); err != nil {
			t.Fatalf("%s: %v", place, err)
		}
		select {
		case <-died:
			t.Logf("%s: %s died and the others went on; done after %v", place, victim.Name(), time.Since(cycle).Round(time.Second))
		default:
			t.Logf("%s: %s did not come by often enough", place, victim.Name())
			victim.Kill()
		}
		if err := victim.Start(); err != nil {
			t.Fatal(err)
		}
	}
	l.judge(t)
}

// The database goes away twice, once in order and once not, while nodes are deployed.
func TestDatabaseRestart(t *testing.T) {
	l, ctx := theLab(t), within(t, 4*time.Minute)
	nodes := l.nodes["gamma"]
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGKILL} {
		l.available(ctx, t, nodes)
		l.deploy(ctx, t, nodes)
		start(t, l.Database)
		if s == syscall.SIGKILL {
			l.Database.Kill()
		} else if err := l.Database.Stop(); err != nil {
			t.Error(err)
		}
		// Whoever asks meanwhile is told to come back.
		for _, id := range l.nodes["beta"] {
			if r := l.ops.Power(ctx, id, "", "power off"); r.Accepted() || r.Status/100 == 5 && r.Status != 503 {
				t.Errorf("without its database central answers %d: %s", r.Status, r.Fault)
			}
		}
		if err := l.Database.Start(); err != nil {
			t.Fatal(err)
		}
		l.active(ctx, t, nodes)
	}
	l.judge(t)
}
