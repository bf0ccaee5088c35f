package attack

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/e2e/faults/network"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/membership"
	"github.com/ironyard/ironyard/protocol/work"
)

// dialer has a NATS client connect from a host.
type dialer struct{ host *network.Host }

func (d dialer) Dial(network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return d.host.DialContext(ctx, network, address)
}

// asThief connects with the credentials of the rackd that was stolen, of groupA.
func (y *yard) asThief(t *testing.T) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	m, err := membership.Open(y.file("member-" + thief))
	if err != nil {
		t.Fatal(err)
	}
	options, err := m.BusOptions()
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(m.BusURL(), append(options, nats.SetCustomDialer(dialer{y.hosts["stranger"]}), nats.Timeout(20*time.Second),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return nc, js
}

// publish writes to a stream as the thief; what the server refuses is refused.
func publish(ctx context.Context, t *testing.T, js jetstream.JetStream, subject string, body any, options ...jetstream.PublishOpt) error {
	t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, err = js.Publish(ctx, subject, raw, options...)
	return err
}

// fakeNode is a node without a machine.
func (y *yard) fakeNode(ctx context.Context, t *testing.T, name, group string) node {
	t.Helper()
	var n node
	if err := y.operator.persist(ctx, "POST", "/v1/nodes", map[string]any{"name": name, "driver": "fake-hardware", "conductor_group": group, "automated_clean": false}, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// fakeActive is a fake node that is deployed, with an instance.
func (y *yard) fakeActive(ctx context.Context, t *testing.T, name, group string) node {
	t.Helper()
	n := y.fakeNode(ctx, t, name, group)
	if err := y.operator.set(ctx, n.UUID, "/instance_info", map[string]any{"image_source": "http://example.org/i.raw", "image_checksum": strings.Repeat("0", 64), "image_disk_format": "raw"}); err != nil {
		t.Fatal(err)
	}
	if err := y.operator.set(ctx, n.UUID, "/instance_uuid", uuid.NewString()); err != nil {
		t.Fatal(err)
	}
	for _, step := range [][2]string{{"manage", "manageable"}, {"provide", "available"}, {"active", "active"}} {
		if err := y.operator.provision(ctx, n.UUID, step[0], nil); err != nil {
			t.Fatal(err)
		}
		if err := y.operator.awaits(ctx, n.UUID, step[1], time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	n, err := y.operator.node(ctx, n.UUID)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A stolen rackd of one group tells events of a node of another, in all the ways in
// which the body can lie.
func TestEventsAboutForeignNodes(t *testing.T) {
	y, ctx := theYard(t), t.Context()
	_, js := y.asThief(t)
	victim := y.fakeActive(ctx, t, "victim-events", groupB)
	own := y.fakeNode(ctx, t, "own-events", groupA)
	event := func(group string) work.Event {
		return work.Event{ID: uuid.NewString(), Kind: work.PowerObserved, Node: victim.UUID, Group: group, Rackd: thief, Time: time.Now().UTC(), Power: "error",
			Fault: "power failure", SetMaintenance: true, ClearInstance: true, Error: "said by a thief", Properties: map[string]any{"vendor": "thief"},
			Internal: map[string]json.RawMessage{"agent_url": json.RawMessage(`"https://thief"`)}}
	}
	foreign := 0
	for _, lie := range []struct{ subject, group string }{
		{bus.EventSubject(groupA, own.UUID), groupA},
		{bus.EventSubject(groupA, own.UUID), groupB},
		{bus.EventSubject(groupA, victim.UUID), groupA},
		{bus.EventSubject(groupA, victim.UUID), groupB},
		{bus.EventSubject(groupA, victim.UUID), ""},
		{bus.EventSubject(groupB, victim.UUID), groupB},
	} {
		err := publish(ctx, t, js, lie.subject, event(lie.group))
		if err == nil && strings.HasPrefix(lie.subject, "EVENTS."+groupB) {
			foreign++
		}
	}
	ended := event(groupB)
	ended.Kind, ended.Work, ended.State = work.WorkEnded, uuid.NewString(), "available"
	if err := publish(ctx, t, js, bus.EventSubject(groupA, victim.UUID), ended); err != nil {
		t.Fatal(err)
	}
	// What the stolen rackd may say is believed: when that is, the lies before it were judged.
	truth := work.Event{ID: uuid.NewString(), Kind: work.PowerObserved, Node: own.UUID, Group: groupA, Rackd: thief, Time: time.Now().UTC(), Power: "power on"}
	if err := publish(ctx, t, js, bus.EventSubject(groupA, own.UUID), truth); err != nil {
		t.Fatal(err)
	}
	if err := until(ctx, 20*time.Second, func(ctx context.Context) error {
		n, err := y.operator.node(ctx, own.UUID)
		if err == nil && n.Power != "power on" {
			err = fmt.Errorf("its power is %q", n.Power)
		}
		return err
	}); err != nil {
		t.Fatalf("an event about a node of the thief's group was not applied: %v", err)
	}
	now, err := y.operator.node(ctx, victim.UUID)
	if err != nil {
		t.Fatal(err)
	}
	var reached []string
	for what, is := range map[string]bool{"instance_uuid": now.Instance != victim.Instance, "instance_info": len(now.InstanceInfo) != len(victim.InstanceInfo),
		"maintenance": now.Maintenance, "fault": now.Fault != victim.Fault, "power": now.Power != victim.Power, "properties": now.Properties["vendor"] == "thief",
		"driver_internal_info": now.Internal["agent_url"] == "https://thief", "state": now.State != victim.State} {
		if is {
			reached = append(reached, what)
		}
	}
	judge(t, line{2, stolenRackd, "events about another group's node", fmt.Sprintf("changed %v", reached), "nothing", len(reached) > 0})
	judge(t, line{2, stolenRackd, "publish on another group's subject", fmt.Sprintf("%d stored", foreign), "none", foreign > 0})
}

// Even about a node of its own group, a stolen rackd without the node's work clears no
// instance and sets no fault.
func TestEventsWithoutAWork(t *testing.T) {
	y, ctx := theYard(t), t.Context()
	_, js := y.asThief(t)
	victim := y.fakeActive(ctx, t, "victim-own-group", groupA)
	for _, id := range []string{"", uuid.NewString()} {
		if err := publish(ctx, t, js, bus.EventSubject(groupA, victim.UUID), work.Event{ID: uuid.NewString(), Kind: work.PowerObserved, Node: victim.UUID, Group: groupA,
			Rackd: thief, Time: time.Now().UTC(), Work: id, Power: victim.Power, ClearInstance: true}); err != nil {
			t.Fatal(err)
		}
	}
	truth := work.Event{ID: uuid.NewString(), Kind: work.PowerObserved, Node: victim.UUID, Group: groupA, Rackd: thief, Time: time.Now().UTC(), Power: "error"}
	if err := publish(ctx, t, js, bus.EventSubject(groupA, victim.UUID), truth); err != nil {
		t.Fatal(err)
	}
	var n node
	if err := until(ctx, 20*time.Second, func(ctx context.Context) (err error) {
		if n, err = y.operator.node(ctx, victim.UUID); err == nil && n.Power != "error" && n.Instance == victim.Instance {
			err = errNotYet
		}
		return err
	}); err != nil {
		t.Logf("the power that a rackd of the group told was not believed: %v", err)
	}
	judge(t, line{2, stolenRackd, "clear an instance without an open work", fmt.Sprintf("instance %q", n.Instance), "it stays", n.Instance != victim.Instance})
}

// A stolen rackd writes work for a node of the group that stands in for its own, under
// its own group's key.
func TestWorkAboutForeignNodes(t *testing.T) {
	y, ctx := theYard(t), t.Context()
	_, js := y.asThief(t)
	e := y.enrol(ctx, t, groupB, nil)
	y.available(ctx, t, e)
	if err := y.operator.ask(ctx, "PUT", "/v1/nodes/"+e.id+"/states/power", map[string]any{"target": "power on"}, nil); err != nil {
		t.Fatal(err)
	}
	if err := until(ctx, 30*time.Second, func(ctx context.Context) error {
		n, err := y.operator.node(ctx, e.id)
		if err == nil && (n.Power != "power on" || n.Reservation != "") {
			err = errNotYet
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	before := e.writes(ctx, t)
	stored := 0
	for _, lie := range []struct{ key, group string }{{bus.NodeKey(groupA, e.id), groupA}, {bus.NodeKey(groupA, e.id), groupB}, {bus.NodeKey(groupA, e.id), ""}, {bus.NodeKey(groupB, e.id), groupB}} {
		err := publish(ctx, t, js, "$KV."+bus.WorkBucket+"."+lie.key, work.Document{ID: uuid.NewString(), Node: e.id, Group: lie.group, Verb: work.Power,
			Args: work.Args{PowerTarget: "power off"}, Requested: time.Now(), Entry: "available", State: "available", Epoch: 1})
		if err == nil {
			stored++
		}
	}
	// It is told apart from a bus that drops everything by what is stored.
	if stored == 0 {
		t.Fatal("the thief could not write the keys of its own group")
	}
	t.Cleanup(func() { js.Publish(context.Background(), "$KV."+bus.WorkBucket+"."+bus.NodeKey(groupA, e.id), nil) })
	acted := until(ctx, 6*time.Second, func(context.Context) error {
		if len(e.writes(ctx, t)) == len(before) {
			return errNotYet
		}
		return nil
	}) == nil
	reached := "the machine stays on"
	if acted {
		reached = "switched off"
	}
	judge(t, line{3, stolenRackd, "a work document under its own key", reached, "the machine stays on", acted})
}

// A stolen rackd announces itself, under its own key, as one of another group.
func TestAliveOfAnotherGroup(t *testing.T) {
	y, ctx := theYard(t), t.Context()
	nc, js := y.asThief(t)
	kv, err := js.KeyValue(ctx, bus.AliveBucket)
	if err != nil {
		t.Fatal(err)
	}
	entry, err := kv.Get(ctx, bus.MemberKey(groupB, "rackd-b"))
	if err != nil {
		t.Fatal(err)
	}
	var ghost bus.Member
	if err := json.Unmarshal(entry.Value(), &ghost); err != nil {
		t.Fatal(err)
	}
	ghost.Name, ghost.Group, ghost.BootURL, ghost.AgentURL, ghost.Lease, ghost.Instance = "ghost", groupB, "http://10.77.1.66:80", "https://10.77.1.66", "L", "I"
	key := bus.MemberKey(groupA, thief)
	renew := func(ctx context.Context) error {
		ghost.RenewedAt = time.Now()
		if err := publish(ctx, t, js, "$KV."+bus.AliveBucket+"."+key, ghost, jetstream.WithMsgTTL(bus.LeaseTTL)); err != nil {
			return err
		}
		return nc.Publish(bus.BeatSubject(groupA, thief), []byte(ghost.Instance))
	}
	if err := renew(ctx); err != nil {
		t.Fatalf("the thief cannot renew its own lease: %v", err)
	}
	haunting, stop := context.WithCancel(ctx)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for tick := time.NewTicker(time.Second); ; {
			select {
			case <-haunting.Done():
				return
			case <-tick.C:
				renew(haunting) // an error shows as a lease that ends
			}
		}
	}()
	t.Cleanup(func() { stop(); <-gone; kv.Delete(context.Background(), key) })

	// An honest rackd of the thief's group would be seen by now.
	seen := until(ctx, 8*time.Second, func(ctx context.Context) error {
		groups, err := y.conductors(ctx)
		if err == nil && groups["ghost"] == "" {
			err = errNotYet
		}
		return err
	}) == nil
	groups, err := y.conductors(ctx)
	if err != nil {
		t.Fatal(err)
	}
	judge(t, line{4, stolenRackd, "announce a rackd of another group", fmt.Sprintf("central shows %q in group %q", "ghost", groups["ghost"]), "not under that name", seen})

	const many = 8
	hung := 0
	var ids []string
	for i := range many {
		n := y.fakeNode(ctx, t, fmt.Sprintf("haunted-%d", i), groupB)
		ids = append(ids, n.UUID)
		status, _, err := y.operator.do(ctx, "PUT", "/v1/nodes/"+n.UUID+"/states/provision", map[string]any{"target": "manage"})
		if err != nil || status/100 != 2 {
			hung++ // the ring gives it to the ghost
			ids = ids[:len(ids)-1]
		}
	}
	for _, id := range ids {
		if y.operator.awaits(ctx, id, "manageable", 4*time.Second) != nil {
			hung++
		}
	}
	judge(t, line{4, stolenRackd, "draw another group's nodes to itself", fmt.Sprintf("%d of %d hang in verifying", hung, many), "none", hung > 0})

	e := y.enrol(ctx, t, groupB, nil)
	y.operator.provision(ctx, e.id, "manage", nil) // it may hang
	script := ""
	if err := until(ctx, 10*time.Second, func(ctx context.Context) error {
		status, text, err := newCaller(e.host, "http://"+addresses["rackd-b"]+":8080").do(ctx, "GET", "/boot/script?mac="+e.MAC, nil)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("%d %s", status, text)
		}
		script = text
		return err
	}); err != nil {
		t.Fatal(err)
	}
	led := strings.Contains(script, "10.77.1.66")
	judge(t, line{4, stolenRackd, "be named in another group's boot scripts", fmt.Sprint(led), "false", led})
}
