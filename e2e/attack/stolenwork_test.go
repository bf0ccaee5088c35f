package attack

import (
	"compress/gzip"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/ironyard/ironyard/agent/commandapi"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/work"
)

// work reads a node's work as it lies on the site's bus.
func (f *far) work(ctx context.Context, id string) (d work.Document, err error) {
	body, err := f.value(ctx, bus.WorkBucket, bus.NodeKey(groupC, id))
	if err != nil {
		return d, err
	}
	return work.Read(body)
}

// A stolen server makes up work for a node: without a code, and with that of a work of central's. It can have a machine
// switched off by that, as is written in the docs; it is given no secret.
func TestStolenServerMakesUpWork(t *testing.T) {
	y, ctx := theYard(t), t.Context()
	f := y.far(ctx, t)
	e := f.machineOf(ctx, t, 1)
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
	before := len(e.writes(ctx, t))
	off := work.Document{ID: uuid.NewString(), Node: uuid.NewString(), Group: groupC, Verb: work.Power, Args: work.Args{PowerTarget: "power off"}, Requested: time.Now(),
		Entry: "available", State: "available", Epoch: 1}
	const refusedWorks = `ironyard_rackd_bus_refused_total{bucket="WORK"`
	refused := y.metric(ctx, t, "rackd-c", refusedWorks)
	f.write(ctx, t, bus.WorkBucket, bus.NodeKey(groupC, e.id), text(t, off))
	if err := until(ctx, 10*time.Second, func(ctx context.Context) error {
		if y.metric(ctx, t, "rackd-c", refusedWorks) == refused && len(e.writes(ctx, t)) == before {
			return errNotYet
		}
		return nil
	}); err != nil {
		t.Errorf("another node's work was neither refused nor carried out: %v", err)
	}
	copied := len(e.writes(ctx, t)) > before
	judge(t, line{3, stolenServer, "another node's work, copied to a node's key", fmt.Sprintf("carried out: %t", copied), "false", copied})
	before, off.ID, off.Node = len(e.writes(ctx, t)), uuid.NewString(), e.id
	f.write(ctx, t, bus.WorkBucket, bus.NodeKey(groupC, e.id), text(t, off))
	acted := until(ctx, 10*time.Second, func(context.Context) error {
		if len(e.writes(ctx, t)) == before {
			return errNotYet
		}
		return nil
	}) == nil
	// The way was open if rackd has carried it out; else it has said why not.
	reached := "refused"
	if acted {
		reached = "the machine is switched off"
	}
	judge(t, line{3, stolenServer, "work that it made up, without secrets", reached, "carried out, as docs/enrolment.md says", false})
}

// drive is the text of a config drive that an agent was sent.
func drive(packed string) string {
	z, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(packed)))
	if err != nil {
		return packed
	}
	text, err := io.ReadAll(z)
	if err != nil {
		return packed
	}
	return string(text)
}

// TestStolenServerSwapsConfigDrives: a tenant's machine is deployed and deleted. The thief tries to send the next tenant the first
// tenant's config drive: as the piece that lies on the bus, and by the first tenant's work in place of the next one's.
func TestStolenServerSwapsConfigDrives(t *testing.T) {
	long(t)
	y, ctx := theYard(t), t.Context()
	f := y.far(ctx, t)
	e := f.machineOf(ctx, t, 2)
	const first, second = "user-data-of-the-first-tenant", "user-data-of-the-second-tenant"
	drives, err := f.js.ObjectStore(ctx, bus.ConfigDrives)
	if err != nil {
		t.Fatal(err)
	}
	p := newPuppet(ctx, t, e, "rackd-c")
	p.serve(t, p.obey)
	deploy := func(secret string) work.Document {
		t.Helper()
		if err := y.operator.set(ctx, e.id, "/instance_info", map[string]any{"image_source": y.imageURL(), "image_os_hash_algo": "sha256", "image_os_hash_value": y.images.sha256,
			"image_disk_format": "raw"}); err != nil { // a deletion empties it
			t.Fatal(err)
		}
		if err := y.operator.provision(ctx, e.id, "active", map[string]any{"configdrive": map[string]any{"user_data": secret}}); err != nil {
			t.Fatal(err)
		}
		var d work.Document
		if err := until(ctx, 30*time.Second, func(ctx context.Context) (err error) {
			if d, err = f.work(ctx, e.id); err == nil && d.Args.ConfigDrive == "" {
				err = errNotYet
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if err := p.boots(ctx, 30*time.Second); err != nil {
			t.Fatal(err)
		}
		return d
	}
	free := func() {
		t.Helper()
		if err := y.operator.provision(ctx, e.id, "deleted", nil); err != nil {
			t.Fatal(err)
		}
		if err := y.operator.awaits(ctx, e.id, "available", 40*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	old := deploy(first)
	sealed, err := drives.GetString(ctx, old.Args.ConfigDrive)
	if err != nil {
		t.Fatal(err)
	}
	calls := func(limit time.Duration) (n node) {
		t.Helper()
		calling, stop := context.WithCancel(ctx)
		defer stop()
		go p.beats(calling, 500*time.Millisecond)
		n, err := y.settled(ctx, e, limit)
		if err != nil {
			t.Logf("the deploy has not ended: it is %s, %s", n.State, n.LastError)
		}
		return n
	}
	n := calls(deployEnds)
	given := func(secret string) (times int) {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, d := range p.drives {
			if strings.Contains(drive(d), secret) {
				times++
			}
		}
		return times
	}
	own := given(first)
	if own == 0 {
		t.Errorf("the first tenant's own deploy, which is %s (%s), was sent no config drive", n.State, n.LastError)
	}
	free()
	present := deploy(second)
	if _, err := drives.PutString(ctx, present.Args.ConfigDrive, sealed); err != nil {
		t.Fatal(err)
	}
	n = calls(deployEnds)
	judge(t, line{19, stolenServer, "an earlier tenant's config drive in place of the present one's", fmt.Sprintf("sent: %d times, the deploy is %s: %.120s", given(first)-own, n.State, n.LastError),
		"not sent", given(first) > own})
	free()

	// The earlier work, with its id, its code and its drive, under the boot and the agent of the present one.
	deploy(second)
	if _, err := drives.PutString(ctx, old.Args.ConfigDrive, sealed); err != nil {
		t.Fatal(err)
	}
	forged := f.rewrite(ctx, t, e.id, func(d *work.Document) { d.ID, d.Code, d.Args = old.ID, old.Code, old.Args })
	n = calls(15 * time.Second) // whose work central does not know: that ends when the relay puts its own back
	judge(t, line{19, stolenServer, "an earlier work's id and code in the present one", fmt.Sprintf("written %d times, config drive sent: %d times, the deploy is %s: %.120s", forged(), given(first)-own, n.State, n.LastError),
		"not sent", given(first) > own})
}

// rewrite has a node's open work say something else, again and again until the returned function is called, which returns how often
// that was. The higher epoch has its owner let go of it and read it anew.
func (f *far) rewrite(ctx context.Context, t *testing.T, id string, change func(*work.Document)) (done func() int) {
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan int, 1)
	go func() {
		written := 0
		for tick := time.NewTicker(200 * time.Millisecond); ; {
			select {
			case <-ctx.Done():
				ended <- written
				return
			case <-tick.C:
			}
			d, err := f.work(ctx, id)
			if err != nil || !d.Open() {
				continue
			}
			before := string(text(t, d))
			if change(&d); string(text(t, d)) == before {
				continue
			}
			d.Epoch += 10
			if _, err := f.js.Publish(ctx, f.keys(bus.WorkBucket, bus.NodeKey(groupC, id)), text(t, d)); err == nil {
				written++
			}
		}
	}()
	return func() int { stop(); return <-ended }
}

// A stolen server writes an agent of its own into the checkpoint of a deploy: the next owner would call that, and send it the
// config drive.
func TestStolenServerNamesTheAgent(t *testing.T) {
	long(t)
	y, ctx := theYard(t), t.Context()
	f := y.far(ctx, t)
	e := f.machineOf(ctx, t, 3)
	thief := &puppet{e: &enrolled{machine: &machine{host: y.hosts["far-2"]}}}
	var err error
	if thief.cert, thief.ca, err = commandapi.NewCertificate(time.Now(), y.hosts["far-2"].Addr.AsSlice()); err != nil {
		t.Fatal(err)
	}
	thief.serve(t, thief.obey)
	y.deploy(ctx, t, e)
	forged := f.rewrite(ctx, t, e.id, func(d *work.Document) {
		if a := d.Checkpoint.Agent; a != nil && a.URL != thief.url {
			a.URL, a.VerifyCA = thief.url, thief.ca
		}
	})
	n, err := y.settled(ctx, e, deployEnds+agentCalls) // the address that is lost is known again once the machine's own agent calls
	times := forged()
	if times == 0 {
		t.Error("the thief was too late: the agent's address was never changed")
	}
	thief.mu.Lock()
	defer thief.mu.Unlock()
	sent := 0
	for _, d := range thief.drives {
		if strings.Contains(drive(d), tenantSecret) {
			sent++
		}
	}
	judge(t, line{19, stolenServer, "its own agent in the checkpoint of a work", fmt.Sprintf("written %d times, asked %d times, config drive sent: %d times, the deploy is %s: %.120s", times, thief.asked, sent, n.State, n.LastError),
		"not asked", thief.asked > 0 || err != nil})
}
