package forward

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/rackd/refusal"
)

// elsewhere is a conductor all of whose nodes have their work at another rackd.
type elsewhere struct{ owner string }

func (e elsewhere) LookupAgent(ask.Lookup) (agentapi.LookupReply, error) {
	return agentapi.LookupReply{}, &refusal.NotOwnerError{Node: "n", Group: "n.1", Owner: e.owner}
}

func (e elsewhere) Heartbeat(string, ask.Heartbeat) error {
	return &refusal.NotOwnerError{Node: "n", Group: "n.1", Owner: e.owner}
}

func (elsewhere) CheckToken(_, token string) error {
	if token == "good" {
		return nil
	}
	return refusal.ErrBadToken
}
func (e elsewhere) Seen(ask.Sign) (string, string) { return e.owner, "n.1" }

type members struct{}

func (members) Member(name string) (bus.Member, bool) {
	return bus.Member{Name: name, Group: "g"}, name == "b" || name == "silent"
}

type counts struct {
	mu sync.Mutex
	ok map[ask.Method]int
	no map[ask.Method]int
}

func (c *counts) HandedOn(m ask.Method, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ok {
		c.ok[m]++
	} else {
		c.no[m]++
	}
}

func TestHandsOn(t *testing.T) {
	srv, err := server.NewServer(&server.Options{DontListen: true})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	defer func() { srv.Shutdown(); srv.WaitForShutdown() }()
	nc, err := nats.Connect("", nats.InProcessServer(srv))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	got := make(chan ask.Request, 10)
	if _, err := nc.Subscribe(bus.HandOnSubject("N.1", "b"), func(m *nats.Msg) {
		var q ask.Request
		if err := json.Unmarshal(m.Data, &q); err != nil {
			t.Error(err)
		}
		got <- q
		reply := ask.Reply{Body: json.RawMessage(`{}`)}
		switch q.Method {
		case ask.AgentLookup:
			reply.Body, _ = json.Marshal(agentapi.LookupReply{Config: agentapi.LookupConfig{AgentToken: "good"}})
		case ask.AgentHeartbeat:
			var hb agentapi.Heartbeat
			if json.Unmarshal(q.Args, &hb); hb.CallbackURL == "" {
				reply = ask.Reply{Error: &ask.Error{Status: http.StatusBadRequest, Message: "no callback"}}
			}
		}
		if m.Reply != "" {
			body, _ := json.Marshal(reply)
			m.Respond(body)
		}
	}); err != nil {
		t.Fatal(err)
	}
	c := &counts{ok: map[ask.Method]int{}, no: map[ask.Method]int{}}
	desk := func(owner string) *Desk {
		return &Desk{Local: elsewhere{owner}, Members: members{}, Conn: nc, Metrics: c}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()

	reply, err := desk("b").LookupAgent(ctx, ask.Lookup{Addresses: []string{"52:54:00:00:00:01"}, Caller: ask.Caller{BootID: "b", From: netip.MustParseAddr("10.0.0.5")}})
	if q := <-got; err != nil || reply.Config.AgentToken != "good" || q.Node != "n" || string(q.Args) != `{"addresses":["52:54:00:00:00:01"],"boot_id":"b","from":"10.0.0.5"}` {
		t.Errorf("lookup: %+v, %v; the owner was asked %+v", reply, err, q)
	}
	if err := desk("b").Heartbeat(ctx, "n", ask.Heartbeat{Heartbeat: agentapi.Heartbeat{AgentToken: "good", CallbackURL: "https://x"}}); err != nil {
		t.Error(err)
	}
	<-got
	var refused *ask.Error
	if err := desk("b").Heartbeat(ctx, "n", ask.Heartbeat{Heartbeat: agentapi.Heartbeat{AgentToken: "good"}}); !errors.As(err, &refused) || refused.Status != http.StatusBadRequest {
		t.Errorf("the owner's refusal came as %v", err)
	}
	<-got
	if err := desk("b").Heartbeat(ctx, "n", ask.Heartbeat{Heartbeat: agentapi.Heartbeat{AgentToken: "bad"}}); !errors.Is(err, refusal.ErrBadToken) || len(got) != 0 {
		t.Errorf("a wrong token: %v, and the owner was bothered %d times", err, len(got))
	}
	for _, owner := range []string{"", "dead", "silent"} {
		began := time.Now()
		err := desk(owner).Heartbeat(ctx, "n", ask.Heartbeat{Heartbeat: agentapi.Heartbeat{AgentToken: "good"}})
		if !errors.Is(err, refusal.ErrNotOwner) || time.Since(began) > ask.HandOnTimeout+time.Second {
			t.Errorf("owner %q: %v after %v", owner, err, time.Since(began))
		}
	}
	desk("b").Seen("52:54:00:00:00:01", "dhcp", "offer")
	if q := <-got; q.Method != ask.MachineSeen || string(q.Args) != `{"address":"52:54:00:00:00:01","phase":"dhcp","detail":"offer"}` {
		t.Errorf("the owner was told %+v", q)
	}
	desk("b").Leased("52:54:00:00:00:01", netip.MustParseAddr("10.0.0.5"), "dhcp", "lease")
	if q := <-got; q.Method != ask.MachineSeen || string(q.Args) != `{"address":"52:54:00:00:00:01","phase":"dhcp","detail":"lease","leased":"10.0.0.5"}` {
		t.Errorf("the owner was told %+v of a lease", q)
	}
	desk("").Seen("52:54:00:00:00:01", "dhcp", "offer")
	if c.ok[ask.AgentLookup] != 1 || c.ok[ask.AgentHeartbeat] != 1 || c.no[ask.AgentHeartbeat] != 4 || c.ok[ask.MachineSeen] != 2 {
		t.Errorf("counted %v and %v", c.ok, c.no)
	}
}

// A host asks for a machine's files as fast as it can. The bus has a message of that each second, and what is news at once.
func TestAFloodIsHandedOnOnceASecond(t *testing.T) {
	srv, err := server.NewServer(&server.Options{DontListen: true})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	defer func() { srv.Shutdown(); srv.WaitForShutdown() }()
	nc, err := nats.Connect("", nats.InProcessServer(srv))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	const flood = 20_000
	c := &counts{ok: map[ask.Method]int{}, no: map[ask.Method]int{}}
	d := &Desk{Local: elsewhere{"b"}, Members: members{}, Conn: nc, Metrics: c}
	began := time.Now()
	for i := range flood {
		d.Seen("52:54:00:00:00:01", "kernel", fmt.Sprint(i))
	}
	most := 1 + int(time.Since(began)/time.Second)
	if got := c.ok[ask.MachineSeen]; got < 1 || got > most {
		t.Errorf("%d requests in %s became %d messages, want %d at most", flood, time.Since(began), got, most)
	}
	before := c.ok[ask.MachineSeen]
	d.Seen("52:54:00:00:00:02", "kernel", "another machine")
	d.Seen("52:54:00:00:00:02", "ramdisk", "another thing")
	for range 2 {
		d.Leased("52:54:00:00:00:02", netip.MustParseAddr("10.0.0.5"), "dhcp", "an address, which the owner may have missed")
	}
	if got := c.ok[ask.MachineSeen] - before; got != 4 {
		t.Errorf("%d of 4 were told", got)
	}
}
