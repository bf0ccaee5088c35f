package site

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/join"
	"github.com/ironyard/ironyard/protocol/membership"
)

// borders is a site with rackds of two groups, and one of a third that stands in for
// the first; every group has a node with a document, work and a lease.
type borders struct {
	*fleet
	hub     *membership.Member
	central *bus.Site
	members map[string]*membership.Member
	conns   map[string]*nats.Conn
}

func newBorders(t *testing.T) *borders {
	t.Helper()
	b := &borders{fleet: newFleet(t), members: map[string]*membership.Member{}, conns: map[string]*nats.Conn{}}
	b.hub = b.join(join.Scope{Role: join.Hub, Name: "hub-1", Address: loopback()})
	b.serve(b.hub)
	b.push(b.hub)
	b.serve(b.join(join.Scope{Role: join.Bus, Site: "east", Name: "east-1", Address: loopback()}))
	b.populate(b.hub.Scope.Address)
	return b
}

// populate opens the site for central, at the servers at address, lets its rackds join and
// gives every group a node.
func (b *borders) populate(address string) {
	t := b.t
	t.Helper()
	b.central = b.open(b.asCentral("east", address), "east", bus.Settings{Replicas: 1})
	if err := b.central.MakeConsoles(t.Context(), bus.Settings{Replicas: 1}); err != nil {
		t.Fatal(err)
	}
	for _, s := range []join.Scope{
		{Name: "a1", Group: "rack-a"}, {Name: "a2", Group: "rack-a"}, {Name: "b1", Group: "rack-b"},
		{Name: "c1", Group: "rack-c", FailoverOf: []string{"rack-a"}},
	} {
		s.Role, s.Site = join.Rackd, "east"
		b.members[s.Name] = b.join(s)
		b.conns[s.Name] = b.connect(b.members[s.Name])
	}
	for _, group := range []string{"rack-a", "rack-b", "rack-c"} {
		for _, kv := range []jetstream.KeyValue{b.central.Nodes, b.central.Work} {
			if _, err := kv.PutString(t.Context(), bus.NodeKey(group, "n1"), "of "+group); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := b.central.Drives.PutString(t.Context(), "drive", "sealed"); err != nil {
		t.Fatal(err)
	}
}

// refused reports whether the server refuses what f does on nc.
func refused(t *testing.T, nc *nats.Conn, subject string, f func() error) bool {
	t.Helper()
	if err := f(); err != nil {
		t.Fatalf("%s: %v", subject, err)
	}
	if err := nc.Flush(); err != nil { // the refusal comes before the answer to this
		t.Fatal(err)
	}
	err := nc.LastError()
	return err != nil && strings.Contains(err.Error(), fmt.Sprintf("%q", subject))
}

// allStreams of the bus.
var allStreams = []string{"KV_NODES", "KV_WORK", "KV_ALIVE", "KV_GROUPS", "OBJ_CONFIGDRIVES", "KV_CONSOLES", "EVENTS"}

func TestWhatARackdMayNotSay(t *testing.T) {
	b := newBorders(t)
	subjects := []string{
		// What is central's to write.
		"$KV.NODES.rack-a.n1", "$KV.GROUPS.rack-a", "$O.CONFIGDRIVES.M.x", "$O.CONFIGDRIVES.C.x",
		// Another group's, and another rackd's.
		"$KV.NODES.rack-b.n1", "$KV.WORK.rack-b.n1", "$KV.WORK.rack-c.n1", "$KV.ALIVE.rack-a.a2", "$KV.ALIVE.rack-b.b1",
		"$KV.CONSOLES.rack-b.n1", "$KV.CONSOLES.rack-c.n1", "$KV.CONSOLES.n1",
		"EVENTS.rack-b.n1", "EVENTS.rack-c.n1", "HANDON.rack-b.b1", "BEAT.rack-a.a2", "BEAT.rack-b.b1",
		// Central's part.
		"ASK.rack-a.a2", "ASK.rack-b.b1", "$JS.API.CONSUMER.MSG.NEXT.EVENTS.central-ingest", "$JS.API.CONSUMER.DELETE.EVENTS.central-ingest",
		"$JS.API.CONSUMER.UNPIN.EVENTS.central-ingest", "$JS.API.CONSUMER.INFO.EVENTS.central-ingest", "$JS.ACK.EVENTS.central-ingest.1.1.1.1.1", "_INBOX.central.x",
		// Reading what is another group's, and reading without saying what.
		"$JS.API.DIRECT.GET.KV_NODES.$KV.NODES.rack-b.n1", "$JS.API.DIRECT.GET.KV_WORK.$KV.WORK.rack-b.n1", "$JS.API.DIRECT.GET.KV_NODES", "$JS.API.DIRECT.GET.KV_WORK",
		"$JS.API.CONSUMER.CREATE.KV_NODES.x.$KV.NODES.rack-b.n1", "$JS.API.CONSUMER.CREATE.KV_WORK.x.$KV.WORK.rack-b.>", "$JS.API.CONSUMER.CREATE.KV_WORK.x.$KV.WORK.>",
		"$JS.API.CONSUMER.CREATE.KV_WORK.x.>", "$JS.API.CONSUMER.CREATE.KV_WORK.x", "$JS.API.CONSUMER.CREATE.KV_WORK", "$JS.API.CONSUMER.DURABLE.CREATE.KV_WORK.x",
		"$JS.API.DIRECT.GET.KV_CONSOLES.$KV.CONSOLES.rack-b.n1", "$JS.API.DIRECT.GET.KV_CONSOLES", "$JS.API.CONSUMER.CREATE.KV_CONSOLES.x.$KV.CONSOLES.rack-b.>",
		"$JS.API.CONSUMER.CREATE.KV_CONSOLES.x.$KV.CONSOLES.>", "$JS.API.CONSUMER.CREATE.KV_CONSOLES.x", "$JS.API.CONSUMER.MSG.NEXT.KV_CONSOLES.x",
		"$JS.API.CONSUMER.CREATE.EVENTS.x.EVENTS.rack-a.>", "$JS.API.CONSUMER.MSG.NEXT.KV_WORK.x",
		// The system.
		"$JS.API.STREAM.LIST", "$JS.API.STREAM.NAMES", "$JS.API.META.LEADER.STEPDOWN", "$JS.API.INFO", "$SYS.REQ.SERVER.PING", "$SYS.REQ.CLAIMS.UPDATE",
	}
	for _, s := range allStreams {
		for _, verb := range []string{"STREAM.CREATE", "STREAM.UPDATE", "STREAM.DELETE", "STREAM.PURGE", "STREAM.MSG.GET", "STREAM.MSG.DELETE", "STREAM.SNAPSHOT",
			"STREAM.RESTORE", "STREAM.LEADER.STEPDOWN", "CONSUMER.LIST", "CONSUMER.NAMES"} {
			subjects = append(subjects, "$JS.API."+verb+"."+s, "$JS.east.API."+verb+"."+s)
		}
	}
	nc := b.conns["a1"]
	for _, s := range subjects {
		if !refused(t, nc, s, func() error { return nc.Publish(s, []byte("{}")) }) {
			t.Errorf("a rackd may say %s", s)
		}
	}
}

func TestWhatARackdMayNotHear(t *testing.T) {
	b := newBorders(t)
	nc := b.conns["a1"]
	for _, s := range []string{">", "*.>", "_INBOX.>", "_INBOX.central.>", "_INBOX.rackd.>", "_INBOX.rackd.a2.>", "_INBOX.rackd.*.x", "$KV.>", "$KV.WORK.rack-a.>", "$KV.WORK.rack-b.>",
		"EVENTS.>", "ASK.>", "ASK.rack-a.a2", "ASK.rack-a.*", "ASK.rack-b.b1", "HANDON.rack-a.a2", "HANDON.rack-b.b1", "HANDON.rack-b.a1", "BEAT.>", "$JS.>", "$SYS.>", "$O.>"} {
		if !refused(t, nc, s, func() error { _, err := nc.SubscribeSync(s); return err }) {
			t.Errorf("a rackd may hear %s", s)
		}
	}
}

// The other side of the borders: what a rackd needs works, also for a group that its
// own stands in for.
func TestWhatARackdMayDo(t *testing.T) {
	b := newBorders(t)
	for name, groups := range map[string][]string{"a1": {"rack-a"}, "b1": {"rack-b"}, "c1": {"rack-c", "rack-a"}} {
		s := b.open(b.conns[name], "", bus.Settings{OpenOnly: true})
		own := b.members[name].Scope
		for _, g := range groups {
			for _, kv := range []jetstream.KeyValue{s.Nodes, s.Work} {
				if e, err := kv.Get(t.Context(), bus.NodeKey(g, "n1")); err != nil || string(e.Value()) != "of "+g {
					t.Errorf("%s reads %s of %s: %v", name, kv.Bucket(), g, err)
				}
				w, err := kv.Watch(t.Context(), bus.GroupToken(g)+".>")
				if err != nil {
					t.Fatalf("%s watches %s of %s: %v", name, kv.Bucket(), g, err)
				}
				if e := <-w.Updates(); e == nil || e.Key() != bus.NodeKey(g, "n1") {
					t.Errorf("%s watches %s of %s and sees %v", name, kv.Bucket(), g, e)
				}
				if err := w.Stop(); err != nil {
					t.Errorf("%s stops a watch: %v", name, err)
				}
			}
			if _, err := s.Work.Put(t.Context(), bus.NodeKey(g, "n2"), []byte("{}")); err != nil {
				t.Errorf("%s writes work of %s: %v", name, g, err)
			}
			if err := s.Work.Purge(t.Context(), bus.NodeKey(g, "n2")); err != nil {
				t.Errorf("%s purges work of %s: %v", name, g, err)
			}
			consoles, err := s.OpenConsoles(t.Context())
			if err != nil {
				t.Fatalf("%s opens the copies of consoles: %v", name, err)
			}
			key := bus.NodeKey(g, "of-"+name)
			if rev, err := consoles.Create(t.Context(), key, []byte("copy")); err != nil {
				t.Errorf("%s writes the copy of a console of %s: %v", name, g, err)
			} else if e, err := consoles.Get(t.Context(), key); err != nil || e.Revision() != rev {
				t.Errorf("%s reads the copy of a console of %s: %v", name, g, err)
			} else if err := consoles.Purge(t.Context(), key, jetstream.LastRevision(rev), jetstream.PurgeTTL(time.Hour)); err != nil {
				t.Errorf("%s removes the copy of a console of %s: %v", name, g, err)
			}
			if err := s.Read(t.Context(), consoles, []string{bus.GroupToken(g) + ".>"}, func(jetstream.KeyValueEntry) {}, jetstream.MetaOnly()); err != nil {
				t.Errorf("%s lists the copies of consoles of %s: %v", name, g, err)
			}
			if _, err := s.JS.Publish(t.Context(), bus.EventSubject(g, "n1"), []byte("{}")); err != nil {
				t.Errorf("%s reports about %s: %v", name, g, err)
			}
		}
		if _, err := s.Announce(t.Context(), bus.Member{Name: own.Name, Group: own.Group}, 0); err != nil {
			t.Errorf("%s announces itself: %v", name, err)
		}
		if text, err := s.Drives.GetString(t.Context(), "drive"); err != nil || text != "sealed" {
			t.Errorf("%s reads a config drive: %q, %v", name, text, err)
		}
		if err := b.conns[name].LastError(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Central asks, the rackd answers; the rackd of one group hands on to one that
	// stands in for it.
	a, c := b.conns["a1"], b.conns["c1"]
	for nc, subject := range map[*nats.Conn]string{a: bus.AskSubject("rack-a", "a1"), c: bus.HandOnSubject("rack-a", "c1")} {
		if _, err := nc.Subscribe(subject, func(m *nats.Msg) { m.Respond([]byte("answer")) }); err != nil {
			t.Fatal(err)
		}
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for err := nats.ErrNoResponders; err != nil; { // until the hub has heard of the subscription
		var m *nats.Msg
		if m, err = b.central.Conn.RequestWithContext(ctx, bus.AskSubject("rack-a", "a1"), nil); err == nil && string(m.Data) != "answer" {
			t.Errorf("central is answered %q", m.Data)
		} else if ctx.Err() != nil {
			t.Fatalf("central asks: %v", err)
		}
	}
	if m, err := a.RequestWithContext(ctx, bus.HandOnSubject("rack-a", "c1"), nil); err != nil || string(m.Data) != "answer" {
		t.Errorf("a1 hands on to c1: %v", err)
	}
}

// A server sends an answer wherever the question says. If that could be another
// group's key, permissions to write it would mean nothing.
func TestAnswersCannotBeAimedAcrossABorder(t *testing.T) {
	b := newBorders(t)
	nc := b.conns["a1"]
	s := b.open(nc, "", bus.Settings{OpenOnly: true})
	if _, err := s.Work.PutString(t.Context(), "rack-a.n1", "forged"); err != nil {
		t.Fatal(err)
	}
	before, err := b.central.Work.Get(t.Context(), "rack-b.n1")
	if err != nil {
		t.Fatal(err)
	}
	heard, err := b.conns["b1"].SubscribeSync(bus.AskSubject("rack-b", "b1"))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.conns["b1"].Flush(); err != nil {
		t.Fatal(err)
	}
	targets := []string{"$KV.WORK.rack-b.n1", "$KV.NODES.rack-b.n1", "$KV.ALIVE.rack-b.b1", "$KV.GROUPS.rack-b", "EVENTS.rack-b.n1", "ASK.rack-b.b1"}
	for i, target := range targets {
		for _, request := range []string{"$JS.API.DIRECT.GET.KV_WORK.$KV.WORK.rack-a.n1", "$JS.API.STREAM.INFO.KV_WORK", "$KV.WORK.rack-a.n1"} {
			if err := nc.PublishRequest(request, target, []byte("forged")); err != nil {
				t.Fatal(err)
			}
		}
		// A consumer that delivers to the target.
		name := fmt.Sprint("aimed", i)
		config := fmt.Sprintf(`{"stream_name":"KV_WORK","config":{"name":%q,"deliver_subject":%q,"deliver_policy":"all","ack_policy":"none",
			"filter_subject":"$KV.WORK.rack-a.n1","mem_storage":true,"num_replicas":1}}`, name, target)
		if _, err := nc.Request("$JS.API.CONSUMER.CREATE.KV_WORK."+name+".$KV.WORK.rack-a.n1", []byte(config), 5*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	// What was sent before this has been dealt with when it is answered.
	if _, err := s.Work.PutString(t.Context(), "rack-a.n1", "last"); err != nil {
		t.Fatal(err)
	}
	for _, kv := range []jetstream.KeyValue{b.central.Nodes, b.central.Work} {
		if e, err := kv.Get(t.Context(), "rack-b.n1"); err != nil || string(e.Value()) != "of rack-b" {
			t.Errorf("%s of rack-b holds %q, %v", kv.Bucket(), e.Value(), err)
		}
	}
	if e, err := b.central.Work.Get(t.Context(), "rack-b.n1"); err != nil || e.Revision() != before.Revision() {
		t.Errorf("work of rack-b was written: %v", err)
	}
	for _, kv := range []jetstream.KeyValue{b.central.Alive, b.central.Groups} {
		if keys, err := kv.Keys(t.Context()); err == nil {
			t.Errorf("bucket %s holds %q", kv.Bucket(), keys)
		}
	}
	if n, err := events(t, b.central); err != nil || n != 0 {
		t.Errorf("%d events, %v, want none", n, err)
	}
	// Among rackds an answer can still be aimed at a question's subject; it says where
	// it comes from, and rackds ignore it (rackd/daemon).
	if err := b.conns["b1"].Flush(); err != nil {
		t.Fatal(err)
	}
	for {
		m, err := heard.NextMsg(time.Millisecond)
		if err != nil {
			break
		}
		if m.Header.Get(jetstream.StreamHeader) == "" && m.Reply != "" {
			t.Errorf("b1 hears a question: %q, reply %q, %v", m.Data, m.Reply, m.Header)
		}
	}
}

// A filter in a request's subject is the one that counts.
func TestAConsumersFilterIsThatOfItsSubject(t *testing.T) {
	b := newBorders(t)
	nc := b.conns["a1"]
	for _, filter := range []string{`"filter_subject":"$KV.WORK.rack-b.n1"`, `"filter_subjects":["$KV.WORK.rack-a.n1","$KV.WORK.rack-b.n1"]`, `"filter_subject":""`} {
		config := `{"stream_name":"KV_WORK","config":{"name":"x","deliver_subject":"_INBOX.rackd.a1.x","deliver_policy":"all","ack_policy":"none",` + filter + `,"mem_storage":true}}`
		m, err := nc.Request("$JS.API.CONSUMER.CREATE.KV_WORK.x.$KV.WORK.rack-a.n1", []byte(config), 5*time.Second)
		if err != nil || !strings.Contains(string(m.Data), `"error"`) {
			t.Errorf("a consumer with %s: %s, %v", filter, m.Data, err)
		}
	}
}

// Whoever runs a site's server holds the site's account; another site's is out of
// reach, whatever that server sends.
func TestASiteReachesItsOwnAccountOnly(t *testing.T) {
	t.Parallel()
	b := newBorders(t)
	west := b.join(join.Scope{Role: join.Bus, Site: "west", Name: "west-1", Address: loopback()})
	// A server of west's that checks nothing and lets its clients do everything.
	config := fmt.Sprintf(`listen: "127.0.0.1:-1"
		leafnodes { remotes: [ { urls: ["tls://%s:7422"], credentials: %q, tls { cert_file: %q, key_file: %q, ca_file: %q } } ] }`, b.hub.Scope.Address,
		west.Path(membership.CredentialsFile), west.Path(membership.IdentityFile), west.Path(membership.IdentityFile), west.Path(membership.FleetFile))
	evil := serverOf(t, config)
	nc, err := nats.Connect(evil.ClientURL(), quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	until(t, func() bool { return evil.NumLeafNodes() == 1 })
	// West's link works: central hears it on west's connection, and on no other.
	hear := func(site string) *nats.Subscription {
		conn := b.asCentral(site, b.hub.Scope.Address)
		sub, err := conn.SubscribeSync("BEAT.>")
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.FlushTimeout(10 * time.Second); err != nil {
			t.Fatal(err)
		}
		return sub
	}
	ofWest, ofEast := hear("west"), hear("east")
	until(t, func() bool {
		if err := nc.Publish("BEAT.rack-a.a1", nil); err != nil {
			t.Fatal(err)
		}
		_, err := ofWest.NextMsg(50 * time.Millisecond)
		return err == nil
	})
	if m, err := ofEast.NextMsg(50 * time.Millisecond); err == nil {
		t.Errorf("what west says is heard as east's: %s", m.Subject)
	}
	all, err := nc.SubscribeSync(">")
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	for _, s := range allStreams {
		for _, prefix := range []string{"$JS.east.API.", "$JS.API."} {
			for _, verb := range []string{"STREAM.DELETE.", "STREAM.INFO."} {
				if m, err := nc.Request(prefix+verb+s, nil, 100*time.Millisecond); err == nil && !strings.Contains(string(m.Data), "jetstream not enabled") {
					t.Errorf("%s%s%s is answered: %s", prefix, verb, s, m.Data)
				}
			}
		}
	}
	for _, s := range []string{"$KV.WORK.rack-a.n1", "$KV.NODES.rack-a.n1", "EVENTS.rack-a.n1", "ASK.rack-a.a1"} {
		if err := nc.Publish(s, []byte("forged")); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	// East goes about its business meanwhile.
	s := b.open(b.conns["a1"], "", bus.Settings{OpenOnly: true})
	if _, err := s.JS.Publish(t.Context(), bus.EventSubject("rack-a", "n1"), []byte("{}")); err != nil {
		t.Fatal(err)
	}
	if e, err := b.central.Work.Get(t.Context(), "rack-a.n1"); err != nil || string(e.Value()) != "of rack-a" {
		t.Errorf("work of east: %q, %v", e.Value(), err)
	}
	if n, err := events(t, b.central); err != nil || n != 1 {
		t.Errorf("%d events of east, %v, want one", n, err)
	}
	for {
		m, err := all.NextMsg(50 * time.Millisecond)
		if err != nil {
			break
		}
		if !strings.HasPrefix(m.Subject, "_INBOX.") && string(m.Data) != "forged" && !strings.HasPrefix(m.Subject, "$JS.") {
			t.Errorf("west hears %s: %.80q", m.Subject, m.Data)
		}
	}
}

// events returns how many events a site's stream holds.
func events(t *testing.T, s *bus.Site) (uint64, error) {
	t.Helper()
	info, err := s.Events.Info(t.Context())
	if err != nil {
		return 0, err
	}
	return info.State.Msgs, nil
}

// serverOf runs a NATS server with a configuration, until the test ends.
func serverOf(t *testing.T, config string) *server.Server {
	t.Helper()
	opts := &server.Options{}
	if err := opts.ProcessConfigString(config); err != nil {
		t.Fatal(err)
	}
	opts.NoSigs, opts.NoLog = true, true
	srv, err := server.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	if !srv.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server does not start")
	}
	return srv
}

// until waits for a condition, ten seconds at most.
func until(t *testing.T, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it did not come about")
		}
	}
}
