package askclient

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/bus"
)

func connect(t *testing.T) *nats.Conn {
	t.Helper()
	srv, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	go srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	if !srv.ReadyForConnections(10 * time.Second) {
		t.Fatal("nats-server is not ready")
	}
	conn, err := nats.Connect(srv.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

func TestAsk(t *testing.T) {
	conn := connect(t)
	m := bus.Member{Name: "rack.1", Group: "east"}
	reply := func(body string) {
		sub, err := conn.Subscribe(bus.AskSubject(m.Group, m.Name), func(msg *nats.Msg) {
			var q ask.Request
			if json.Unmarshal(msg.Data, &q) != nil || q.Node != "n1" {
				msg.Respond([]byte(`{"error":{"status":400,"message":"odd question"}}`))
				return
			}
			msg.Respond([]byte(body))
		})
		if err != nil {
			t.Fatal(err)
		}
		sub.AutoUnsubscribe(1)
		if err := conn.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	c := New(func(string) (*nats.Conn, error) { return conn, nil })
	q := ask.Request{Method: ask.GetBootDevice, Node: "n1"}

	reply(`{"body":{"boot_device":"pxe"}}`)
	body, err := c.Ask(t.Context(), m, q)
	if err != nil || string(body) != `{"boot_device":"pxe"}` {
		t.Errorf("got %s, %v", body, err)
	}
	reply(`{"error":{"status":409,"message":"node n1 has open work"}}`)
	_, err = c.Ask(t.Context(), m, q)
	if e, ok := errors.AsType[*AnswerError](err); !ok || e.HTTPStatus() != 409 || e.Error() != "node n1 has open work" {
		t.Errorf("a refusal gave %v", err)
	}
	reply(`{"error":{"status":7,"message":"?"}}`)
	_, err = c.Ask(t.Context(), m, q)
	if e, ok := errors.AsType[*AnswerError](err); !ok || e.HTTPStatus() != http.StatusInternalServerError {
		t.Errorf("a refusal without a status gave %v", err)
	}
	reply(`nonsense`)
	if _, err = c.Ask(t.Context(), m, q); err == nil || !strings.Contains(err.Error(), "no JSON") {
		t.Errorf("nonsense gave %v", err)
	}
}

func TestSilence(t *testing.T) {
	conn := connect(t)
	m := bus.Member{Name: "rack-1"}
	c := New(func(string) (*nats.Conn, error) { return conn, nil })
	check := func(ctx context.Context, c *Client, sent bool, text string) {
		t.Helper()
		_, err := c.Ask(ctx, m, ask.Request{Method: ask.Validate, Node: "n1"})
		e, ok := errors.AsType[*SilentError](err)
		if !ok || e.HTTPStatus() != http.StatusServiceUnavailable || e.Sent() != sent || !strings.Contains(err.Error(), text) {
			t.Errorf("got %v, want a 503 with %q, sent %t", err, text, sent)
		}
	}
	check(t.Context(), c, false, "Conductor rack-1 did not answer the question validate about node n1: it is not connected to the bus")

	sub, err := conn.SubscribeSync(bus.AskSubject("", "rack-1")) // hears and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Unsubscribe()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	check(ctx, c, true, "no answer in time")
	check(t.Context(), New(func(string) (*nats.Conn, error) { return nil, errors.New("site unknown") }), false, "site unknown")
}

// What says its own status is not made into silence: the site's error tells more.
func TestSiteThatIsAway(t *testing.T) {
	c := New(func(string) (*nats.Conn, error) { return nil, awayError{} })
	_, err := c.Ask(t.Context(), bus.Member{Name: "rack-1"}, ask.Request{Method: ask.Validate, Node: "n1"})
	if _, silent := errors.AsType[*SilentError](err); silent || !errors.As(err, new(awayError)) {
		t.Errorf("got %v", err)
	}
}

type awayError struct{}

func (awayError) Error() string   { return "the site has been unreachable since noon" }
func (awayError) HTTPStatus() int { return http.StatusServiceUnavailable }

func FuzzReply(f *testing.F) {
	f.Add([]byte(`{"body":{}}`))
	f.Add([]byte(`{"error":{"status":409,"message":"x"}}`))
	f.Add([]byte(`{"error":null,"body":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		body, _, err := read("rack-1", data)
		if err == nil && body != nil && !json.Valid(body) {
			t.Errorf("%q gave a body that is no JSON: %q", data, body)
		}
	})
}

// A question says until when it may be carried out, by the clock of the rackd that it goes to. A
// rackd that has started again has carried out nothing, and is asked once more.
func TestQuestionsExpireByTheRackdsClock(t *testing.T) {
	conn := connect(t)
	m := bus.Member{Name: "r", Group: "g"}
	clock := ask.Clock{ID: "first", At: 5000}
	var asked []ask.Clock
	sub, err := conn.Subscribe(bus.AskSubject(m.Group, m.Name), func(msg *nats.Msg) {
		var q ask.Request
		if err := json.Unmarshal(msg.Data, &q); err != nil {
			t.Error(err)
		}
		asked = append(asked, q.Until)
		reply := ask.Reply{Clock: clock, Body: []byte(`"done"`)}
		if q.Until.ID != "" && q.Until.ID != clock.ID {
			reply.Error, reply.Body = ask.Late(q.Method, "another clock"), nil
		}
		body, err := json.Marshal(reply)
		if err != nil {
			t.Error(err)
		}
		msg.Respond(body)
	})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Unsubscribe()
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	c := New(func(string) (*nats.Conn, error) { return conn, nil })
	for i := range 3 {
		if i == 2 {
			clock = ask.Clock{ID: "second", At: 1}
		}
		if body, err := c.Ask(t.Context(), m, ask.Request{Method: ask.InjectNMI, Node: "n"}); err != nil || string(body) != `"done"` {
			t.Fatalf("question %d: %s, error %v", i, body, err)
		}
	}
	if len(asked) != 4 || asked[0] != (ask.Clock{}) || asked[1].ID != "first" || asked[2].ID != "first" || asked[3].ID != "second" {
		t.Fatalf("asked with %+v", asked)
	}
	if left := asked[1].At - 5000; left < 1000 || left > ask.Timeout.Milliseconds()+5000 {
		t.Errorf("the question may be carried out for %d ms", left)
	}
}
