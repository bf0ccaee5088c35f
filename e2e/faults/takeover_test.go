package faults

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/ironyard/ironyard/e2e/faults/witness"
	"github.com/ironyard/ironyard/protocol/provision"
)

func TestTakeoverOfKilledRackd(t *testing.T) {
	l, ctx := theLab(t), within(t, 3*time.Minute)
	nodes, victim := l.nodes["alpha"], l.Sites[0].Rackds[0]
	l.available(ctx, t, nodes)
	l.deploy(ctx, t, nodes)
	owned := l.working(ctx, t, victim.Name(), 1, writing)
	start(t, victim)
	strain, killed := strained(t), time.Now()
	victim.Kill()
	l.taken(ctx, t, victim.Name(), owned)
	taken := time.Since(killed)
	l.served(ctx, t, nodes, victim.Name())
	served := time.Since(killed)
	t.Logf("%d pieces of work of %s were taken over %v after the kill; all its nodes were served again after %v", len(owned), victim.Name(),
		taken.Round(time.Millisecond), served.Round(time.Millisecond))
	strain.atMost(t, "the takeover", served, 5*time.Second)
	l.active(ctx, t, nodes)
	l.judge(t)
}

func TestGracefulStopHandsOver(t *testing.T) {
	l, ctx := theLab(t), within(t, 3*time.Minute)
	nodes, leaver := l.nodes["alpha"], l.Sites[0].Rackds[1]
	l.available(ctx, t, nodes)
	l.deploy(ctx, t, nodes)
	owned := l.working(ctx, t, leaver.Name(), 1, writing)
	start(t, leaver)
	strain, asked := strained(t), time.Now()
	if err := leaver.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	l.taken(ctx, t, leaver.Name(), owned)
	took := time.Since(asked)
	strain.atMost(t, fmt.Sprintf("the hand-over of %d pieces of work of %s after SIGTERM", len(owned), leaver.Name()), took, time.Second)
	if err := leaver.Stop(); err != nil {
		t.Error(err)
	}
	l.active(ctx, t, nodes)
	l.judge(t)
}

// A new version is rolled out: each rackd is stopped and started in its turn while
// nodes are deployed and taken back, and no operator sees an error.
func TestRollingRestart(t *testing.T) {
	l, ctx := theLab(t), within(t, 5*time.Minute)
	nodes := l.nodes["alpha"]
	l.available(ctx, t, nodes)
	rolled := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		done <- l.each(nodes, func(id string) error {
			for {
				for _, step := range []struct {
					verb string
					want provision.State
				}{{"active", provision.Active}, {"deleted", provision.Available}} {
					if step.verb == "active" {
						if r := l.ops.SetImage(ctx, id, l.Images[1].Info()); !r.Accepted() {
							return fmt.Errorf("set image of node %s: %d: %s", id, r.Status, r.Fault)
						}
					}
					if err := l.ops.Do(ctx, id, step.verb, step.want); err != nil {
						return err
					}
				}
				select {
				case <-rolled:
					return nil
				default:
				}
			}
		})
	}()
	for _, r := range l.Sites[0].Rackds {
		l.working(ctx, t, r.Name(), 2, func(witness.Sight) bool { return true })
		if err := r.Stop(); err != nil {
			t.Error(err)
		}
		if err := r.Start(); err != nil {
			t.Fatal(err)
		}
		if err := r.Await(ctx, r.Healthy); err != nil {
			t.Fatal(err)
		}
	}
	close(rolled)
	if err := <-done; err != nil {
		t.Error(err)
	}
	l.judge(t)
}
