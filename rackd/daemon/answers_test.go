package daemon

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/protocol/bus"
)

func TestOnlyWhatSomebodySentIsAQuestion(t *testing.T) {
	question, handOn := bus.AskSubject("g", "r"), bus.HandOnSubject("g", "r")
	subjects := []string{question, handOn}
	stored := nats.Header{jetstream.StreamHeader: {"KV_WORK"}}
	for _, c := range []struct {
		what string
		m    nats.Msg
		want bool
	}{
		{"a question", nats.Msg{Subject: question, Reply: "_INBOX.x"}, true},
		{"a question that awaits no answer", nats.Msg{Subject: question}, false},
		{"a sign that is handed on", nats.Msg{Subject: handOn}, true},
		{"a call that is handed on", nats.Msg{Subject: handOn, Reply: "_INBOX.x"}, true},
		{"a stored message, fetched to the subject", nats.Msg{Subject: question, Reply: "_INBOX.x", Header: stored}, false},
		{"the same, as handed on", nats.Msg{Subject: handOn, Header: stored}, false},
		{"what a consumer delivers", nats.Msg{Subject: "$KV.WORK.g.n", Reply: "$JS.ACK.x"}, false},
		{"what a consumer delivers under the subject", nats.Msg{Subject: question, Reply: "$JS.ACK.x"}, false},
	} {
		if got := genuine(&c.m, subjects); got != c.want {
			t.Errorf("%s: genuine %t, want %t", c.what, got, c.want)
		}
	}
}
