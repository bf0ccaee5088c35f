package site

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/join"
)

func TestReplies(t *testing.T) {
	r := run(t)
	central := r.open(r.asCentral("east", r.hub.Scope.Address), "east", bus.Settings{Replicas: 1})
	a := r.connect(r.join(join.Scope{Role: join.Rackd, Site: "east", Name: "a1", Group: "rack-a"}))
	sa := r.open(a, "", bus.Settings{OpenOnly: true})
	if _, err := central.Work.Put(t.Context(), "rack-b.n1", []byte(`good`)); err != nil {
		t.Fatal(err)
	}
	if _, err := sa.Work.Put(t.Context(), "rack-a.n1", []byte(`evil`)); err != nil {
		t.Fatal(err)
	}
	if err := a.PublishRequest("$JS.API.DIRECT.GET.KV_WORK.$KV.WORK.rack-a.n1", "$KV.WORK.rack-b.n1", nil); err != nil {
		t.Fatal(err)
	}
	a.Flush()
	time.Sleep(300 * time.Millisecond)
	e, err := central.Work.Get(t.Context(), "rack-b.n1")
	t.Logf("%s %v %v", e.Value(), err, a.LastError())
	m, err := a.Request("$JS.API.CONSUMER.CREATE.KV_WORK.evil.$KV.WORK.rack-a.n1", []byte(`{"stream_name":"KV_WORK","config":{"name":"evil","deliver_subject":"EVENTS.rack-b.n1","deliver_policy":"all","ack_policy":"none","filter_subject":"$KV.WORK.rack-a.n1","mem_storage":true,"num_replicas":1}}`), 2*time.Second)
	t.Log(err)
	if m != nil {
		t.Log(strings.TrimSpace(string(m.Data)))
	}
	time.Sleep(300 * time.Millisecond)
	info, err := central.Events.Info(t.Context())
	t.Log(info.State.Msgs, err)
	_ = nats.ErrAuthorization
}
