package bus

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// A subscription that nobody reads is told of, by its subject, and counted.
func TestAttend(t *testing.T) {
	s := openSite(t)
	overflows := make(chan struct{}, 100)
	logged := make(lines, 100)
	Attend(s.Conn, slog.New(slog.NewTextHandler(logged, nil)), func() { overflows <- struct{}{} })
	sub, err := s.Conn.ChanSubscribe("ASK.g.r", make(chan *nats.Msg, 1))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := s.Conn.Publish("ASK.g.r", nil); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-overflows:
	case <-time.After(10 * time.Second):
		t.Fatal("not counted")
	}
	select {
	case line := <-logged:
		if !strings.Contains(line, "subject=ASK.g.r") {
			t.Errorf("log: %s", line)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("not logged")
	}
	if err := sub.Unsubscribe(); err != nil {
		t.Fatal(err)
	}
	s.Conn.Close() // no handler runs after it
	if len(overflows) != 0 {
		t.Errorf("counted %d times more, want once", len(overflows))
	}
}

// lines gets what a handler of slog writes, a line at a time.
type lines chan string

func (l lines) Write(b []byte) (int, error) {
	l <- string(b)
	return len(b), nil
}
