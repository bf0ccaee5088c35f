package daemon

import (
	"context"
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/bus/bustest"
)

func TestOnlyWhatSomebodySentIsAQuestion(t *testing.T) {
	question, handOn := bus.AskSubject("g", "r"), bus.HandOnSubject("g", "r")
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
		of := handOn
		if c.m.Subject == question {
			of = question
		}
		if got := genuine(&c.m, []string{of}, of == question); got != c.want {
			t.Errorf("%s: genuine %t, want %t", c.what, got, c.want)
		}
	}
}

// slow answers what central asks when its context ends, and what is handed on at once.
type slow struct{ asked chan struct{} }

func (s slow) Answer(ctx context.Context, q ask.Request) ask.Reply {
	if !q.Method.HandedOn() {
		s.asked <- struct{}{}
		<-ctx.Done()
	}
	return ask.Reply{Body: []byte("{}")}
}

// However many questions wait for slow BMCs, agents that other rackds speak for are answered.
func TestHandedOnDoesNotWaitForBMCs(t *testing.T) {
	site := bustest.Open(t)
	ctx, cancel := context.WithCancel(t.Context())
	s, done := slow{make(chan struct{}, 2*questionsAtOnce)}, make(chan error, 1)
	go func() {
		done <- answerQuestions(ctx, site.Conn, "g", "r", []string{"g"}, s, slog.New(slog.DiscardHandler))
	}()
	body := func(m ask.Method) []byte {
		b, err := json.Marshal(ask.Request{Method: m})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	// handOn asks until somebody listens.
	handOn := func() (err error) {
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
			if _, err = site.Conn.Request(bus.HandOnSubject("g", "r"), body(ask.AgentHeartbeat), time.Second); err == nil {
				return nil
			}
		}
		return err
	}
	if err := handOn(); err != nil {
		t.Fatal(err)
	}
	for range questionsAtOnce + 1 {
		if err := site.Conn.PublishRequest(bus.AskSubject("g", "r"), site.Conn.NewInbox(), body(ask.GetBootDevice)); err != nil {
			t.Fatal(err)
		}
	}
	for range questionsAtOnce {
		<-s.asked
	}
	if err := handOn(); err != nil {
		t.Errorf("what is handed on waits behind %d questions to BMCs: %v", questionsAtOnce+1, err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
