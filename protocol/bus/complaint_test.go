package bus

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// A subscription that nobody reads is told of, by its subject, and counted.
func TestAttend(t *testing.T) {
	s := openSite(t)
	var text bytes.Buffer
	overflows := make(chan struct{}, 100)
	logged := make(chan struct{}, 100)
	log := slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == "dropped" {
			logged <- struct{}{}
		}
		return a
	}}))
	Attend(s.Conn, log, func() { overflows <- struct{}{} })
	sub, err := s.Conn.ChanSubscribe("ASK.g.r", make(chan *nats.Msg, 1))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := s.Conn.Publish("ASK.g.r", nil); err != nil {
			t.Fatal(err)
		}
	}
	for what, c := range map[string]chan struct{}{"counted": overflows, "logged": logged} {
		select {
		case <-c:
		case <-time.After(10 * time.Second):
			t.Fatalf("not %s", what)
		}
	}
	if err := sub.Unsubscribe(); err != nil {
		t.Fatal(err)
	}
	s.Conn.Close() // no handler runs after it
	if len(overflows) != 0 {
		t.Errorf("counted %d times more, want once", len(overflows))
	}
	if !strings.Contains(text.String(), "subject=ASK.g.r") {
		t.Errorf("log: %s", text.String())
	}
}
