package api

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/askclient"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/provision"
)

// endWork ends the work that is open on the usual node, as a rack's report does.
func (b *bench) endWork() {
	b.t.Helper()
	n := b.node("n1")
	b.move("n1", n.ProvisionState, n.TargetProvisionState, nil)
}

// A request waits for the end of work on its node, and is then carried out as it was sent.
func TestRequestsWaitForALockedNode(t *testing.T) {
	t.Parallel()
	for _, q := range []struct {
		status             int
		method, path, body string
	}{
		{200, "PATCH", "/v1/nodes/n1", `[{"op":"add","path":"/resource_class","value":"gold"}]`},
		{204, "PUT", "/v1/nodes/n1/traits", `{"traits":["CUSTOM_GOLD"]}`},
		{400, "POST", "/v1/nodes/n1/vifs", `{"id":"a"}`}, // there is no port for it, which is said once the node is free
		{204, "PUT", "/v1/nodes/n1/management/boot_device", `{"boot_device":"pxe"}`},
		{202, "PUT", "/v1/nodes/n1/states/provision", `{"target":"provide"}`},
		{202, "PUT", "/v1/nodes/n1/states/power", `{"target":"power off"}`},
		{204, "DELETE", "/v1/nodes/n1", ""},
	} {
		t.Run(q.method+" "+q.path, func(t *testing.T) {
			b := newBench(t)
			b.addNode()
			b.move("n1", provision.Manageable, provision.NoState, func(n *store.Node) { n.ResourceClass = "lead" })
			b.want(202, "PUT", "/v1/nodes/n1/states/power", "1.115", `{"target":"power on"}`)
			before := b.snapshot()
			b.server.LockWait = time.Millisecond
			if a := b.want(409, q.method, q.path, "1.115", q.body); !strings.Contains(a.fault(t), "is locked by host rack-1") {
				t.Errorf("refused with %s", a.body)
			}
			if b.snapshot() != before {
				t.Error("a refused request has changed something")
			}
			b.server.LockWait = time.Minute
			other := *b
			var waiting sync.WaitGroup
			waiting.Go(func() { other.want(q.status, q.method, q.path, "1.115", q.body) })
			for end := time.Now().Add(20 * time.Second); b.server.lockWaits.now.Load() == 0; time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("the request does not wait")
				}
			}
			b.endWork()
			waiting.Wait()
		})
	}
}

// What no end of work makes possible is refused at once, and so is what comes when too
// many wait already.
func TestNotAllWaitForALockedNode(t *testing.T) {
	b := newBench(t)
	b.addNode()
	b.move("n1", provision.Manageable, provision.NoState, nil)
	b.want(202, "PUT", "/v1/nodes/n1/states/power", "1.115", `{"target":"power on"}`)
	b.server.LockWait = time.Hour
	b.want(409, "PUT", "/v1/nodes/n1/states/provision", "1.115", `{"target":"active"}`)
	b.want(409, "PUT", "/v1/nodes/n1/states/provision", "1.115", `{"target":"fly"}`)
	b.server.lockWaits.max = 1
	b.server.lockWaits.now.Store(1)
	b.want(409, "PUT", "/v1/nodes/n1/states/provision", "1.115", `{"target":"provide"}`)
}

// lockedOnce is a rack that still has work which central knows to have ended.
type lockedOnce struct{ asked int }

func (l *lockedOnce) Ask(_ context.Context, _ bus.Member, q ask.Request) (json.RawMessage, error) {
	if l.asked++; l.asked == 1 {
		return nil, &askclient.AnswerError{Conductor: "rack-1", Answer: ask.Error{Status: 409, Locked: true,
			Message: "Node " + q.Node + " is locked by host rack-1, please retry after the current operation is completed."}}
	}
	return json.RawMessage(`{"return":"meow"}`), nil
}

// A node that its rack holds to be locked is waited for as well.
func TestRequestsWaitForANodeThatIsLockedInItsRack(t *testing.T) {
	b := newBench(t)
	b.knowsHardware()
	b.addNode()
	rack := &lockedOnce{}
	b.server.Ask, b.server.LockWait = rack, time.Minute
	if a := b.want(200, "POST", "/v1/nodes/n1/vendor_passthru?method=first", "1.115", `{}`); a.body != `"meow"` || rack.asked != 2 {
		t.Errorf("after %d questions: %s", rack.asked, a.body)
	}
	rack.asked, b.server.LockWait = 0, 0
	if a := b.want(409, "POST", "/v1/nodes/n1/vendor_passthru?method=first", "1.115", `{}`); !strings.Contains(a.fault(t), "is locked by host rack-1") {
		t.Errorf("refused with %s", a.body)
	}
}
