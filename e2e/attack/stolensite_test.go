package attack

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/protocol/bus"
	document "github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/work"
)

// How far the readers of a far site's rackd have got is seen by this.
const forgedDocuments = `ironyard_rackd_forged_documents_total{bucket="NODES"}`

// A stolen server writes documents of a node that send rackd, with the BMC's password, to a host of its own; then it
// puts an older document of central's in place of the newest.
func TestStolenServerWritesNodes(t *testing.T) {
	y, ctx := theYard(t), t.Context()
	f := y.far(ctx, t)
	e := f.machineOf(ctx, t, 0)
	const oldPassword = "the-password-of-before"
	password, _ := e.Enrolment.DriverInfo["redfish_password"].(string)
	own, before := y.trap(t, 9011, password), y.trap(t, 9012, password)
	before.also = oldPassword
	key := bus.NodeKey(groupC, e.id)
	genuine, err := f.value(ctx, bus.NodesBucket, key)
	if err != nil {
		t.Fatal(err)
	}
	d, err := document.Read(e.id, genuine)
	if err != nil {
		t.Fatal(err)
	}
	d.Revision++
	d.DriverInfo["redfish_address"] = "http://" + addresses["stranger"] + ":9011"
	forged, err := d.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	const field = `"node":`
	signed, truth, _ := strings.Cut(string(genuine), field) // its code stands before it
	_, lie, _ := strings.Cut(string(forged), field)
	for i, body := range [][]byte{forged, []byte(signed + field + lie), []byte(signed + field + strings.TrimSuffix(truth, "}") + "," + field + lie)} {
		f.write(ctx, t, bus.NodesBucket, key, body)
		err := until(ctx, 15*time.Second, func(ctx context.Context) error { // refused, or taken
			if y.metric(ctx, t, "rackd-c", forgedDocuments) < float64(i+1) && own.asked.Load() == 0 {
				return errNotYet
			}
			return nil
		})
		if err != nil {
			t.Errorf("form %d of the forged document was neither refused nor taken: %v", i, err)
		}
	}
	// rackd reads the power each second.
	until(ctx, 4*time.Second, func(context.Context) error {
		if own.asked.Load() == 0 {
			return errNotYet
		}
		return nil
	})
	judge(t, line{19, stolenServer, "a node's document with a BMC of its own", fmt.Sprintf("3 forms, its BMC was asked %d times, password sent: %t", own.asked.Load(), own.got.Load()),
		"not asked", own.asked.Load() > 0 || own.got.Load()})

	// The node was at another BMC before, with another password.
	info := func(address, password string) []map[string]any {
		return []map[string]any{{"op": "add", "path": "/driver_info/redfish_address", "value": address}, {"op": "add", "path": "/driver_info/redfish_password", "value": password}}
	}
	patch := func(ops []map[string]any) []byte {
		t.Helper()
		last, err := f.value(ctx, bus.NodesBucket, key)
		if err != nil {
			t.Fatal(err)
		}
		if err := y.operator.persist(ctx, "PATCH", "/v1/nodes/"+e.id, ops, nil); err != nil {
			t.Fatal(err)
		}
		var now []byte
		if err := until(ctx, 20*time.Second, func(ctx context.Context) (err error) {
			if now, err = f.value(ctx, bus.NodesBucket, key); err == nil && string(now) == string(last) {
				err = errNotYet
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return now
	}
	older := patch(info("http://"+addresses["stranger"]+":9012", oldPassword))
	patch(info(e.Enrolment.DriverInfo["redfish_address"].(string), password))
	asked := before.asked.Load()
	f.write(ctx, t, bus.NodesBucket, key, older)
	shown := until(ctx, 10*time.Second, func(context.Context) error {
		if before.asked.Load() == asked {
			return errNotYet
		}
		return nil
	}) == nil
	judge(t, line{19, stolenServer, "an older document of a node in place of the newest", fmt.Sprintf("taken: %t, the older password sent there: %t, the newer: %t", shown, before.gotAlso.Load(), before.got.Load()),
		"the address and the password of that time", before.got.Load()})
	// Nothing puts the newest back by itself for hours: the relay looks for what is lost each minute, and at all documents each six hours.
	old, err := document.Read(e.id, older)
	if err != nil {
		t.Fatal(err)
	}
	newest, err := document.Read(e.id, patch([]map[string]any{{"op": "add", "path": "/properties/vendor", "value": "changed"}}))
	if err != nil {
		t.Fatal(err)
	}
	back := newest.Revision > old.Revision && newest.DriverInfo["redfish_address"] != old.DriverInfo["redfish_address"]
	judge(t, line{19, stolenServer, "keep the older document there when the node is changed", fmt.Sprintf("the newest is back: %t", back), "true", !back})
}

// A stolen server says things about nodes and rackds of other sites.
func TestStolenServerSpeaksOfOtherSites(t *testing.T) {
	y, ctx := theYard(t), t.Context()
	f := y.far(ctx, t)
	victim := y.fakeActive(ctx, t, "victim-of-far", groupA)
	own := y.fakeNode(ctx, t, "own-of-far", groupC)
	tell := func(group string, n node, power string, clear bool) {
		t.Helper()
		e := work.Event{ID: uuid.NewString(), Kind: work.PowerObserved, Node: n.UUID, Group: group, Rackd: "rackd-c", Time: time.Now().UTC(), Power: power, ClearInstance: clear}
		if power == "error" {
			e.Fault, e.SetMaintenance = "power failure", true
		}
		for _, subject := range []string{groupA, groupC} {
			if _, err := f.js.Publish(ctx, bus.EventSubject(subject, n.UUID), text(t, e)); err != nil {
				t.Fatalf("the stolen server cannot say an event in its own site: %v", err)
			}
		}
	}
	for _, group := range []string{groupA, groupC} {
		for _, clear := range []bool{false, true} { // the second asks for more than may be believed of the own site's nodes either
			tell(group, victim, "error", clear)
		}
	}
	tell(groupC, own, "power on", false)
	if err := until(ctx, 20*time.Second, func(ctx context.Context) error {
		n, err := y.operator.node(ctx, own.UUID)
		if err == nil && n.Power != "power on" {
			err = fmt.Errorf("its power is %q", n.Power)
		}
		return err
	}); err != nil {
		t.Fatalf("an event about a node of its own site was not applied: %v", err)
	}
	now, err := y.operator.node(ctx, victim.UUID)
	if err != nil {
		t.Fatal(err)
	}
	changed := now.Power != victim.Power || now.Maintenance || now.Fault != victim.Fault || now.Instance != victim.Instance
	judge(t, line{2, stolenServer, "events about another site's node", fmt.Sprintf("power %q, maintenance %t, instance kept: %t", now.Power, now.Maintenance, now.Instance == victim.Instance), "nothing", changed})
	f.ghosts(ctx, t)
	f.reaches(ctx, t)
}

// ghosts announces rackds that are not there, of its own site's group and of another site's.
func (f *far) ghosts(ctx context.Context, t *testing.T) {
	t.Helper()
	living, err := f.value(ctx, bus.AliveBucket, bus.MemberKey(groupC, "rackd-c"))
	if err != nil {
		t.Fatal(err)
	}
	var ghost bus.Member
	if err := json.Unmarshal(living, &ghost); err != nil {
		t.Fatal(err)
	}
	ghost.BootURL, ghost.AgentURL, ghost.Lease, ghost.Instance = "http://"+addresses["far-2"]+":80", "https://"+addresses["far-2"], "L", "I"
	haunting, stop := context.WithCancel(ctx)
	gone := make(chan struct{})
	renew := func(group string) error {
		ghost.Name, ghost.Group, ghost.RenewedAt = "ghost-of-"+group, group, time.Now()
		if _, err := f.js.Publish(haunting, f.keys(bus.AliveBucket, bus.MemberKey(group, ghost.Name)), text(t, ghost), jetstream.WithMsgTTL(bus.LeaseTTL)); err != nil {
			return err
		}
		return f.nc.Publish(bus.BeatSubject(group, ghost.Name), []byte(ghost.Instance))
	}
	for _, group := range []string{groupC, groupA} {
		if err := renew(group); err != nil {
			t.Fatalf("the stolen server cannot write ALIVE of its own site: %v", err)
		}
	}
	go func() {
		defer close(gone)
		for tick := time.NewTicker(time.Second); ; {
			select {
			case <-haunting.Done():
				return
			case <-tick.C:
				renew(groupC) // an error shows as a lease that ends
				renew(groupA)
			}
		}
	}()
	defer func() { stop(); <-gone }()
	// Central has looked at both once it shows the one that may be.
	if err := until(ctx, 20*time.Second, func(ctx context.Context) error { return f.knows(ctx, "ghost-of-"+groupC) }); err != nil {
		t.Fatalf("a rackd of the site's own group is not shown: %v", err)
	}
	groups, err := f.conductors(ctx)
	if err != nil {
		t.Fatal(err)
	}
	judge(t, line{4, stolenServer, "announce rackds that are not there", fmt.Sprintf("one of its own group: %t, one of another site's: %t", groups["ghost-of-"+groupC] != "", groups["ghost-of-"+groupA] != ""),
		"of its own site's groups", groups["ghost-of-"+groupA] != ""})
	const many = 4
	hung := 0
	for i := range many {
		n := f.fakeNode(ctx, t, fmt.Sprintf("far-haunted-%d", i), groupA)
		if err := f.operator.provision(ctx, n.UUID, "manage", nil); err != nil || f.operator.awaits(ctx, n.UUID, "manageable", 10*time.Second) != nil {
			hung++
		}
	}
	judge(t, line{4, stolenServer, "draw another site's nodes to its ghost", fmt.Sprintf("%d of %d hang in verifying", hung, many), "none", hung > 0})
}

// reaches tries to hear, read and write what is another site's, over the hub.
func (f *far) reaches(ctx context.Context, t *testing.T) {
	t.Helper()
	heard, err := f.nc.SubscribeSync(">")
	if err != nil {
		t.Fatal(err)
	}
	defer heard.Unsubscribe()
	answered := func(subject string) bool {
		m, err := f.nc.Request(subject, nil, 500*time.Millisecond)
		return err == nil && m.Header.Get("Status") == "" && !strings.Contains(string(m.Data), `"error"`)
	}
	if !answered("$JS." + farSite + ".API.STREAM.INFO.EVENTS") {
		t.Fatal("not even its own site's streams answer")
	}
	var reached []string
	for _, s := range []string{"STREAM.INFO.KV_NODES", "STREAM.INFO.EVENTS", "STREAM.DELETE.OBJ_CONFIGDRIVES", "STREAM.PURGE.KV_WORK", "CONSUMER.LIST.EVENTS", "INFO"} {
		if s = "$JS." + siteName + ".API." + s; answered(s) {
			reached = append(reached, s)
		}
	}
	n := f.fakeNode(ctx, t, "node-of-lab", groupA)
	for _, s := range []string{"$KV.NODES.", "$KV.WORK."} {
		if err := f.nc.Publish(s+bus.NodeKey(groupA, n.UUID), []byte("forged")); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.operator.provision(ctx, n.UUID, "manage", nil); err == nil {
		err = f.operator.awaits(ctx, n.UUID, "manageable", 20*time.Second)
		if err != nil {
			reached = append(reached, "a node of "+siteName+" is not served: "+err.Error())
		}
	}
	own, foreign := 0, map[string]bool{}
	for end := time.Now().Add(8 * time.Second); time.Now().Before(end) && (own == 0 || time.Until(end) > 3*time.Second); { // beats come each 3 s
		m, err := heard.NextMsg(time.Second)
		switch {
		case err != nil:
		case strings.HasPrefix(m.Subject, "BEAT."+groupC+".rackd-c"):
			own++
		case string(m.Data) == "forged":
		case strings.HasPrefix(m.Subject, "BEAT."+groupA) || strings.HasPrefix(m.Subject, "BEAT."+groupB) || strings.Contains(m.Subject, "."+groupA+".") && !strings.Contains(m.Subject, "ghost"):
			foreign[m.Subject] = true
		}
	}
	if own == 0 {
		t.Error("the stolen server does not even hear its own site's rackd")
	}
	judge(t, line{0, stolenServer, "another site's streams over the hub", fmt.Sprintf("answered or damaged: %v, heard of it: %d subjects", reached, len(foreign)), "nothing", len(reached)+len(foreign) > 0})
}
