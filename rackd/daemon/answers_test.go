package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
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

// deadBMCs is more than a rack has of machines that lost their power together.
const deadBMCs = 100

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
	s, done := slow{make(chan struct{}, 2*deadBMCs)}, make(chan error, 1)
	go func() {
		done <- answerQuestions(ctx, site.Conn, "g", "r", []string{"g"}, s, slog.New(slog.DiscardHandler))
	}()
	body := func(m ask.Method, node string) []byte {
		b, err := json.Marshal(ask.Request{Method: m, Node: node})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	// handOn asks until somebody listens.
	handOn := func() (err error) {
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
			if _, err = site.Conn.Request(bus.HandOnSubject("g", "r"), body(ask.AgentHeartbeat, ""), time.Second); err == nil {
				return nil
			}
		}
		return err
	}
	if err := handOn(); err != nil {
		t.Fatal(err)
	}
	question := func(i int) {
		if err := site.Conn.PublishRequest(bus.AskSubject("g", "r"), site.Conn.NewInbox(), body(ask.GetBootDevice, fmt.Sprint("dead ", i))); err != nil {
			t.Fatal(err)
		}
	}
	for i, heard := deadBMCs, false; !heard; i++ { // until questions are listened to, as well
		question(i)
		select {
		case <-s.asked:
			heard = true
		case <-time.After(time.Second):
		}
	}
	for i := range deadBMCs {
		question(i)
	}
	for range deadBMCs {
		<-s.asked
	}
	if err := handOn(); err != nil {
		t.Errorf("what is handed on waits behind %d questions to BMCs: %v", deadBMCs, err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// waits answers heartbeats about one node when their context ends, as work does that writes no checkpoint, and all else at once.
type waits struct{ come chan struct{} }

func (w waits) Answer(ctx context.Context, q ask.Request) ask.Reply {
	if q.Method == ask.AgentHeartbeat && q.Node == "waits" {
		w.come <- struct{}{}
		<-ctx.Done()
	}
	return ask.Reply{Body: []byte("{}")}
}

// A heartbeat waits until a checkpoint has it. Meanwhile what is handed on about other machines is heard.
func TestHandedOnDoesNotWaitForACheckpoint(t *testing.T) {
	site := bustest.Open(t)
	ctx, cancel := context.WithCancel(t.Context())
	w, done := waits{make(chan struct{}, 100)}, make(chan error, 1)
	go func() {
		done <- answerQuestions(ctx, site.Conn, "g", "r", []string{"g"}, w, slog.New(slog.DiscardHandler))
	}()
	body := func(m ask.Method, node string) []byte {
		b, err := json.Marshal(ask.Request{Method: m, Node: node})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for end, heard := time.Now().Add(10*time.Second), false; !heard; { // until the rackd listens
		if err := site.Conn.Publish(bus.HandOnSubject("g", "r"), body(ask.AgentHeartbeat, "waits")); err != nil || time.Now().After(end) {
			t.Fatalf("no heartbeat is heard: %v", err)
		}
		select {
		case <-w.come:
			heard = true
		case <-time.After(100 * time.Millisecond):
		}
	}
	for _, m := range []ask.Method{ask.AgentHeartbeat, ask.AgentLookup, ask.MachineSeen} {
		if _, err := site.Conn.Request(bus.HandOnSubject("g", "r"), body(m, "another"), ask.HandOnTimeout); err != nil {
			t.Errorf("%s of another machine: %v", m, err)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// bmcs answers questions about a node whose name begins with "dead" when the question is too
// old, and others at once.
type bmcs struct {
	asked chan string

	mu      sync.Mutex
	carried map[string]int // by node: questions that were carried out
}

func (b *bmcs) Answer(ctx context.Context, q ask.Request) ask.Reply {
	b.mu.Lock()
	b.carried[q.Node]++
	b.mu.Unlock()
	if strings.HasPrefix(q.Node, "dead") && !q.Method.FromMemory() {
		b.asked <- q.Node
		<-ctx.Done()
		return ask.Reply{Error: &ask.Error{Status: 503, Message: "no answer"}}
	}
	return ask.Reply{Body: []byte("{}")}
}

// rack is what answers questions of central's on a real bus.
type rack struct {
	*testing.T
	site *bus.Site
	bmcs *bmcs
}

func newRack(t *testing.T) *rack {
	r := &rack{t, bustest.Open(t), &bmcs{asked: make(chan string, 4*deadBMCs), carried: map[string]int{}}}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- answerQuestions(ctx, r.site.Conn, "g", "r", nil, r.bmcs, slog.New(slog.DiscardHandler))
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if _, err := r.try(ask.Request{Method: ask.DriverProperties}); err == nil {
			return r
		} else if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

func (r *rack) try(q ask.Request) (reply ask.Reply, err error) {
	m, err := r.site.Conn.Request(bus.AskSubject("g", "r"), r.body(q), 5*time.Second)
	if err == nil {
		err = json.Unmarshal(m.Data, &reply)
	}
	return reply, err
}

func (r *rack) body(q ask.Request) []byte {
	r.Helper()
	b, err := json.Marshal(q)
	if err != nil {
		r.Fatal(err)
	}
	return b
}

func (r *rack) ask(q ask.Request) ask.Reply {
	r.Helper()
	reply, err := r.try(q)
	if err != nil {
		r.Fatalf("%s about %q: %v", q.Method, q.Node, err)
	}
	return reply
}

// send asks and returns where the answer comes to.
func (r *rack) send(q ask.Request) *nats.Subscription {
	r.Helper()
	inbox := r.site.Conn.NewInbox()
	sub, err := r.site.Conn.SubscribeSync(inbox)
	if err == nil {
		err = r.site.Conn.PublishRequest(bus.AskSubject("g", "r"), inbox, r.body(q))
	}
	if err != nil {
		r.Fatal(err)
	}
	return sub
}

// BMCs that are dead hold neither questions that memory answers nor those to other BMCs.
func TestDeadBMCsHoldNoOtherQuestion(t *testing.T) {
	r := newRack(t)
	for i := range deadBMCs {
		r.send(ask.Request{Method: ask.GetBootDevice, Node: fmt.Sprint("dead ", i)})
	}
	for range deadBMCs {
		<-r.bmcs.asked
	}
	for _, q := range []ask.Request{{Method: ask.Validate, Node: "dead 1"}, {Method: ask.RamdiskHeartbeat, Node: "dead 2"}, {Method: ask.GetBootDevice, Node: "alive"}} {
		if reply := r.ask(q); reply.Error != nil {
			t.Errorf("%s about %q: %v", q.Method, q.Node, reply.Error)
		}
	}
}

// A question that is older than its asker waits is not carried out, wherever it was held up.
func TestQuestionsThatAreTooOldAreNotCarriedOut(t *testing.T) {
	t.Parallel()
	r := newRack(t)
	now := r.ask(ask.Request{Method: ask.DriverProperties}).Clock
	if now.ID == "" {
		t.Fatal("the rackd tells no clock")
	}
	for what, until := range map[string]ask.Clock{"it was on its way for too long": now.After(-time.Second), "the rackd has started again": {ID: "another", At: now.At + 20000}} {
		if reply := r.ask(ask.Request{Method: ask.SetBootDevice, Node: "alive", Until: until}); reply.Error == nil || !reply.Error.Late || reply.Clock.ID != now.ID {
			t.Errorf("%s: %+v", what, reply)
		}
	}
	// Behind others to the same BMC, until its asker waits no more.
	var held []*nats.Subscription
	for range machineQuestions {
		held = append(held, r.send(ask.Request{Method: ask.GetBootDevice, Node: "dead", Until: now.After(2 * time.Second)}))
		<-r.bmcs.asked
	}
	if reply := r.ask(ask.Request{Method: ask.InjectNMI, Node: "dead", Until: now.After(500 * time.Millisecond)}); reply.Error == nil || !reply.Error.Late {
		t.Errorf("behind others: %+v", reply)
	}
	for _, sub := range held {
		if _, err := sub.NextMsg(5 * time.Second); err != nil {
			t.Errorf("a question to a dead BMC has no end: %v", err)
		}
	}
	r.bmcs.mu.Lock()
	defer r.bmcs.mu.Unlock()
	if r.bmcs.carried["alive"] != 0 || r.bmcs.carried["dead"] != machineQuestions {
		t.Errorf("carried out: %v", r.bmcs.carried)
	}
}

// So many questions about one machine are refused at once, rather than queued behind each other.
func TestQuestionsAboutOneMachineAreBounded(t *testing.T) {
	r := newRack(t)
	for range machineQuestions + machineWaiting {
		r.send(ask.Request{Method: ask.GetBootDevice, Node: "dead"})
	}
	for range machineQuestions {
		<-r.bmcs.asked
	}
	if reply := r.ask(ask.Request{Method: ask.GetBootDevice, Node: "dead"}); reply.Error == nil || reply.Error.Status != 503 || reply.Error.Late {
		t.Errorf("one more: %+v", reply)
	}
}
