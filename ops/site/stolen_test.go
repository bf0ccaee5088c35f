package site

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/central/ingest"
	"github.com/ironyard/ironyard/central/metrics"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/central/store/storetest"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/join"
	"github.com/ironyard/ironyard/protocol/membership"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/lease"
	"github.com/ironyard/ironyard/rackd/view"
)

// thief is who has stolen a credential of a kind.
type thief struct {
	what  string
	conn  *nats.Conn
	group string // in whose name it may write, if any
	name  string // of its rackd, if it is one
	// settle returns when the site's bus has dealt with what was said.
	settle func()
}

// raid is a site with its readers: central's ingest, and a rackd's view and lease that
// follow all groups, as the rackd of a group would that stands in for all others.
type raid struct {
	*borders
	ingest  *ingest.Ingest
	view    *view.View
	lease   *lease.Lease
	witness *bus.Site // a2's, which announces itself
}

// all are the groups of the site, each of which stands in for each.
type all []string

func (a all) Served() []string         { return a }
func (a all) Of(string) []string       { return a }
func (all) Keys(string) []string       { return nil }
func (all) Serves(string, string) bool { return true }
func (all) Synced() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// noAlarms hears none. The reader has no group's key: so it shows what permissions and keys of the bus alone keep
// out, without the codes of documents.
type noAlarms struct{}

func (noAlarms) Forged(string) {}

func newRaid(t *testing.T, b *borders) *raid {
	r := &raid{borders: b}
	log := slog.New(slog.DiscardHandler)
	r.ingest = ingest.New(ingest.Config{Store: r.store, Metrics: metrics.New(r.store.Statements), Log: log, SiteOf: func(group string) string {
		if group == "rack-w" {
			return "west"
		}
		return "east"
	}})
	groups := all{"rack-a", "rack-b", "rack-c", "rack-z"}
	r.view = view.New(r.central, seal.NewKeyring("none", r.key), groups, noAlarms{}, func(string) {}, log)
	r.lease = lease.New(r.central, bus.Member{Name: "reader", Group: "rack-z"}, groups, func() error { return nil }, func() {}, log)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 3)
	go func() { done <- r.ingest.Follow(ctx, r.central) }()
	go func() { done <- r.view.Run(ctx) }()
	go func() { done <- r.lease.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		for range cap(done) {
			<-done // the site may have been damaged by then
		}
	})
	r.witness = r.open(r.conns["a2"], "", bus.Settings{OpenOnly: true})
	<-r.view.Synced()
	<-r.lease.Synced()
	return r
}

// node is a new node of a group: in the database, and on the bus if it is of this site.
func (r *raid) node(group string) *store.Node {
	r.t.Helper()
	n := storetest.NewNode("n-" + strings.ToLower(uuid.NewString()))
	n.ConductorGroup = group
	n.InstanceUUID = n.UUID
	storetest.Insert(r.t, r.store, n)
	body, err := (&node.Document{UUID: n.UUID, Group: group}).Append(nil)
	if err == nil {
		_, err = r.central.Nodes.Put(r.t.Context(), bus.NodeKey(group, n.UUID), body)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	until(r.t, func() bool { return group == "rack-w" || r.view.Node(n.UUID) != nil })
	return n
}

// seen returns when all readers have been shown what was said before.
func (r *raid) seen(th *thief) {
	r.t.Helper()
	th.settle()
	mark := uuid.NewString()
	if _, err := r.central.Work.Put(r.t.Context(), bus.NodeKey("rack-a", mark), text(r.t, work.Document{ID: mark, Node: mark, Group: "rack-a"})); err != nil {
		r.t.Fatal(err)
	}
	for _, group := range []string{"rack-b", "rack-c", "rack-z"} { // each has a watch of its own
		if _, err := r.central.Work.Put(r.t.Context(), bus.NodeKey(group, mark+group), text(r.t, work.Document{ID: mark, Node: mark + group, Group: group})); err != nil {
			r.t.Fatal(err)
		}
		until(r.t, func() bool { return r.view.Work(mark+group) != nil })
	}
	until(r.t, func() bool { return r.view.Work(mark) != nil })
	_, rev, err := r.witness.Announced(r.t.Context(), "rack-a", "a2")
	if err == nil {
		_, err = r.witness.Announce(r.t.Context(), bus.Member{Name: "a2", Group: "rack-a", Instance: mark}, rev)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	until(r.t, func() bool { m, _ := r.lease.Member("a2"); return m.Instance == mark })
	if err := r.ingest.Applied(r.t.Context(), r.central); err != nil {
		r.t.Fatal(err)
	}
}

func text(t *testing.T, v any) []byte {
	t.Helper()
	body, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// say publishes in each way that leads to a stream: as the site's rackds do, and through
// its domain. Refusals do not show here.
func (th *thief) say(subject string, body []byte) {
	for _, prefix := range []string{"", "$JS.east.API."} {
		_ = th.conn.Publish(prefix+subject, body)
	}
}

// answered reports whether a request to JetStream is answered with what it asks for.
func (th *thief) answered(request string) bool {
	for _, prefix := range []string{"$JS.API.", "$JS.east.API."} {
		m, err := th.conn.Request(prefix+request, nil, 150*time.Millisecond)
		if err == nil && m.Header.Get("Status") == "" && !bytes.Contains(m.Data, []byte(`"error"`)) {
			return true
		}
	}
	return false
}

// deed is what a thief tries to do to conductor group rack-a; it returns whether it did.
type deed struct {
	what string
	do   func(r *raid, th *thief) bool
}

// event tries to have an event believed about a node of rack-a, or of another group.
func event(of string, at func(th *thief, n *store.Node) string, change func(th *thief, e *work.Event)) func(*raid, *thief) bool {
	return func(r *raid, th *thief) bool {
		n, tag := r.node(of), "power "+uuid.NewString()
		e := work.Event{ID: tag, Kind: work.PowerObserved, Node: n.UUID, Group: of, Rackd: "thief", Time: time.Now(), Power: tag}
		if change != nil {
			change(th, &e)
		}
		th.say(at(th, n), text(r.t, e))
		r.seen(th)
		got, err := r.store.Node(r.t.Context(), n.UUID)
		if err != nil {
			r.t.Fatal(err)
		}
		return got.PowerState == tag || got.InstanceUUID == ""
	}
}

func atItsOwn(th *thief, n *store.Node) string  { return bus.EventSubject(th.group, n.UUID) }
func atTheNodes(_ *thief, n *store.Node) string { return bus.EventSubject(n.ConductorGroup, n.UUID) }

// works tries to have work acted on at a node of rack-a.
func works(key func(th *thief) string, body string) func(*raid, *thief) bool {
	return func(r *raid, th *thief) bool {
		n, tag := r.node("rack-a"), uuid.NewString()
		group := body
		if group == "" {
			group = th.group
		}
		th.say("$KV.WORK."+bus.NodeKey(key(th), n.UUID), text(r.t, work.Document{ID: tag, Node: n.UUID, Group: group, Verb: work.Power}))
		r.seen(th)
		w := r.view.Work(n.UUID)
		return w != nil && w.Doc.ID == tag
	}
}

// lives tries to be taken for a rackd of rack-a.
func lives(key func(th *thief) string, m bus.Member) func(*raid, *thief) bool {
	return func(r *raid, th *thief) bool {
		m.Instance = uuid.NewString()
		th.say("$KV.ALIVE."+key(th), text(r.t, m))
		r.seen(th)
		for _, got := range r.lease.Members() {
			if got.Instance == m.Instance && got.Group == "rack-a" {
				return true
			}
		}
		return false
	}
}

var deeds = []deed{
	{"read a node's document", func(r *raid, th *thief) bool {
		return th.answered("DIRECT.GET.KV_NODES.$KV.NODES." + bus.NodeKey("rack-a", "n1"))
	}},
	{"read a node's work", func(r *raid, th *thief) bool {
		return th.answered("DIRECT.GET.KV_WORK.$KV.WORK." + bus.NodeKey("rack-a", "n1"))
	}},
	{"change a node's document", func(r *raid, th *thief) bool {
		n := r.node("rack-a")
		body, err := (&node.Document{UUID: n.UUID, Group: "rack-a", Driver: "stolen"}).Append(nil)
		if err != nil {
			r.t.Fatal(err)
		}
		th.say("$KV.NODES."+bus.NodeKey("rack-a", n.UUID), body)
		r.seen(th)
		return r.view.Node(n.UUID).Driver == "stolen"
	}},
	{"write work under the node's key", works(func(*thief) string { return "rack-a" }, "rack-a")},
	{"write work under its own group's key", works(func(th *thief) string { return th.group }, "")},
	{"write work there that names rack-a", works(func(th *thief) string { return th.group }, "rack-a")},
	{"report at the node's subject", event("rack-a", atTheNodes, nil)},
	{"report at its own group's subject", event("rack-a", atItsOwn, func(th *thief, e *work.Event) { e.Group = th.group })},
	{"report there in the name of rack-a", event("rack-a", atItsOwn, nil)},
	{"clear the instance without its work's id", event("rack-a", atTheNodes, func(_ *thief, e *work.Event) { e.ClearInstance = true })},
	{"report about a node of another site", event("rack-w", atTheNodes, nil)},
	{"announce a rackd of rack-a under its own key", lives(func(th *thief) string { return bus.MemberKey(th.group, th.name) }, bus.Member{Name: "ghost", Group: "rack-a"})},
	{"announce itself as of rack-a under its own key", func(r *raid, th *thief) bool {
		return lives(func(th *thief) string { return bus.MemberKey(th.group, th.name) }, bus.Member{Name: th.name, Group: "rack-a"})(r, th)
	}},
	{"take the lease of a rackd of rack-a", lives(func(*thief) string { return bus.MemberKey("rack-a", "other") }, bus.Member{Name: "other", Group: "rack-a"})},
	{"hear what central asks a rackd of rack-a", func(r *raid, th *thief) bool {
		sub, err := th.conn.SubscribeSync(bus.AskSubject("rack-a", "other"))
		if err != nil {
			r.t.Fatal(err)
		}
		defer sub.Unsubscribe()
		th.settle()
		for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end); {
			if err := r.central.Conn.PublishRequest(bus.AskSubject("rack-a", "other"), nats.NewInbox(), []byte("{}")); err != nil {
				r.t.Fatal(err)
			}
			if _, err := sub.NextMsg(50 * time.Millisecond); err == nil {
				return true
			}
		}
		return false
	}},
	{"hand a machine's call on to a rackd of rack-a", func(r *raid, th *thief) bool {
		sub, err := r.conns["a2"].SubscribeSync(bus.HandOnSubject("rack-a", "a2"))
		if err != nil {
			r.t.Fatal(err)
		}
		defer sub.Unsubscribe()
		for end := time.Now().Add(200 * time.Millisecond); time.Now().Before(end); {
			if err := r.conns["a2"].Flush(); err != nil {
				r.t.Fatal(err)
			}
			th.say(bus.HandOnSubject("rack-a", "a2"), []byte("{}"))
			th.settle()
			if _, err := sub.NextMsg(20 * time.Millisecond); err == nil {
				return true
			}
		}
		return false
	}},
	{"delete a stream", func(r *raid, th *thief) bool { // last: who can do it does
		return th.answered("STREAM.DELETE.OBJ_CONFIGDRIVES")
	}},
}

// evil is a server that shows a site's credentials to the hub, checks nothing and lets its
// clients do everything.
func (r *raid) evil(site *membership.Member) *nats.Conn {
	srv := serverOf(r.t, fmt.Sprintf(`listen: "127.0.0.1:-1"
		server_name: %q
		leafnodes { remotes: [ { urls: ["tls://%s:7422"], credentials: %q, tls { cert_file: %q, key_file: %q, ca_file: %q } } ] }`, "evil-"+site.Scope.Name, r.hub.Scope.Address,
		site.Path(membership.CredentialsFile), site.Path(membership.IdentityFile), site.Path(membership.IdentityFile), site.Path(membership.FleetFile)))
	nc, err := nats.Connect(srv.ClientURL(), quiet)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(nc.Close)
	until(r.t, func() bool { return srv.NumLeafNodes() == 1 })
	return nc
}

// thieves are all kinds of credentials that lead onto a bus, those that can do the most last.
func (r *raid) thieves() []*thief {
	flushed := func(nc *nats.Conn) func() {
		return func() {
			if err := nc.Flush(); err != nil {
				r.t.Fatal(err)
			}
		}
	}
	rackd := func(what, name, group string) *thief {
		return &thief{what: what, conn: r.conns[name], name: name, group: group, settle: flushed(r.conns[name])}
	}
	west := r.evil(r.join(join.Scope{Role: join.Bus, Site: "west", Name: "west-1", Address: loopback()}))
	east := r.evil(r.join(join.Scope{Role: join.Bus, Site: "east", Name: "east-2", Address: loopback()}))
	central := r.asCentral("east", r.hub.Scope.Address)
	r.asked(east)()
	r.asked(central)()
	// A hub's server has a certificate, and no credentials for any account.
	config, err := r.hub.TLS()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, url := range []string{r.members["a1"].BusURL(), "tls://" + r.hub.Scope.Address + ":" + membership.ClientPort} {
		if nc, err := nats.Connect(url, nats.Secure(config), quiet, patient); err == nil {
			nc.Close()
			r.t.Errorf("a certificate without credentials is let in at %s", url)
		}
	}
	return []*thief{
		{what: "a hub's certificate"},
		rackd("a rackd of another group", "b1", "rack-b"),
		rackd("a rackd of the group", "a1", "rack-a"),
		rackd("a rackd of a group that stands in for it", "c1", "rack-c"),
		{what: "a server of another site", conn: west, name: "thief", group: "rack-z", settle: flushed(west)},
		{what: "central's", conn: central, name: "thief", group: "rack-z", settle: r.asked(central)},
		{what: "a server of the site", conn: east, name: "thief", group: "rack-z", settle: r.asked(east)},
	}
}

// Each kind of credential tries all that it might do to a conductor group. What it reaches
// is a page of the docs: a cell that changes is a border that moved.
func TestWhatStolenCredentialsReach(t *testing.T) {
	r := newRaid(t, newBorders(t))
	thieves := r.thieves()
	loot := make([][]string, len(deeds))
	r.raid(thieves, loot)
	other, hub := newHubless(t)
	other.raid([]*thief{hub}, loot)
	thieves = append(thieves, hub)
	var page bytes.Buffer
	page.WriteString(`# What stolen credentials reach

Written by a test that tries it on real NATS servers with the fleet's accounts and permissions (` + "`make docs`" + `); do not edit. Conductor group rack-a is
attacked. A deed counts when a reader acts on it: central's ingest, or the view and the lease of a rackd that follows all groups of the
site. What each party may say: [permissions](permissions.md); what follows from it: [enrolment](enrolment.md).

| deed |`)
	for _, th := range thieves {
		page.WriteString(" " + th.what + " |")
	}
	page.WriteString("\n|---|" + strings.Repeat("---|", len(thieves)) + "\n")
	for i, d := range deeds {
		fmt.Fprintf(&page, "| %s | %s |\n", d.what, strings.Join(loot[i], " | "))
	}
	t.Logf("%s", page.String())
	const path = "../../docs/stolen-credentials.md"
	if os.Getenv("UPDATE_DOCS") != "" {
		if err := os.WriteFile(path, page.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(path); err != nil || !bytes.Equal(want, page.Bytes()) {
		t.Errorf("%s says otherwise (%v): if the change is meant, run `make docs`", path, err)
	}
}

// raid lets thieves try all deeds, and adds a cell for each of them to each deed's row.
func (r *raid) raid(thieves []*thief, loot [][]string) {
	r.t.Helper()
	for _, th := range thieves {
		for i, d := range deeds {
			reached := "–"
			if th.conn != nil && d.do(r, th) { // else it was not let in
				reached = "yes"
			}
			loot[i] = append(loot[i], reached)
		}
		if err := r.again(); err != nil {
			r.t.Fatal(err)
		}
	}
}

// newHubless is a site whose hub is a server in the wrong hands, which checks nothing. It
// has the hub's address and certificate. Central is connected to the site itself, so that
// its readers go on.
func newHubless(t *testing.T) (*raid, *thief) {
	b := &borders{fleet: newFleet(t), members: map[string]*membership.Member{}, conns: map[string]*nats.Conn{}}
	b.hub = b.join(join.Scope{Role: join.Hub, Name: "hub-1", Address: loopback()})
	hub := serverOf(t, fmt.Sprintf(`listen: "127.0.0.1:-1"
		leafnodes { listen: "%s:7422", tls { cert_file: %q, key_file: %q, ca_file: %q } }`, b.hub.Scope.Address,
		b.hub.Path(membership.IdentityFile), b.hub.Path(membership.IdentityFile), b.hub.Path(membership.FleetFile)))
	east := b.join(join.Scope{Role: join.Bus, Site: "east", Name: "east-1", Address: loopback()})
	b.serve(east)
	b.populate(east.Scope.Address)
	until(t, func() bool { return hub.NumLeafNodes() == 1 })
	nc, err := nats.Connect(hub.ClientURL(), quiet)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	r := newRaid(t, b)
	return r, &thief{what: "a hub's server", conn: nc, name: "thief", group: "rack-z", settle: r.asked(nc)}
}

// asked returns once a request is answered: what went the same way before has arrived.
func (r *raid) asked(nc *nats.Conn) func() {
	return func() {
		r.t.Helper()
		until(r.t, func() bool {
			m, err := nc.Request("$JS.east.API.STREAM.INFO.EVENTS", nil, time.Second)
			return err == nil && !bytes.Contains(m.Data, []byte(`"error"`))
		})
	}
}

// again makes what a thief has deleted.
func (r *raid) again() error {
	_, err := r.central.JS.CreateOrUpdateObjectStore(r.t.Context(), jetstream.ObjectStoreConfig{Bucket: bus.ConfigDrives, Replicas: 1})
	return err
}
