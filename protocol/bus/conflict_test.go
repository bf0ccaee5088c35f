package bus

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// conflicts are the codes by which a server says that a revision does not fit.
var conflicts = []jetstream.ErrorCode{jetstream.JSErrCodeStreamWrongLastSequence, jetstream.JSErrCodeStreamWrongLastSequenceConstant}

func TestConflict(t *testing.T) {
	s := openSite(t)
	key := NodeKey("g", "n")
	rev, err := s.Update(t.Context(), s.Work, key, []byte("1"), 0)
	if err != nil {
		t.Fatal(err)
	}
	_, taken := s.Groups.Create(t.Context(), "g", nil)
	_, exists := s.Groups.Create(t.Context(), "g", nil)
	_, late := s.Update(t.Context(), s.Work, key, []byte("2"), rev+1)
	_, missing := s.Groups.Get(t.Context(), "none")
	for _, c := range []struct {
		name string
		err  error
		want bool
	}{
		{"another revision", late, true},
		{"of a key to purge", s.Purge(t.Context(), s.Work, key, rev+1), true},
		{"of a key to purge alone", s.Groups.Purge(t.Context(), "g", jetstream.LastRevision(99)), true},
		{"a key that exists", exists, true},
		{"a key that does not", taken, false},
		{"a key that is missing", missing, false},
		{"one code", &jetstream.APIError{ErrorCode: conflicts[0]}, true},
		{"the other, wrapped", fmt.Errorf("write: %w", &jetstream.APIError{ErrorCode: conflicts[1]}), true},
		{"a stream that is missing", &jetstream.APIError{ErrorCode: jetstream.JSErrCodeStreamNotFound}, false},
		{"no answer", context.DeadlineExceeded, false},
		{"nothing", nil, false},
	} {
		if got := Conflict(c.err); got != c.want {
			t.Errorf("%s: %v is a conflict: %v, want %v", c.name, c.err, got, c.want)
		}
	}
}

// A renewal that comes too late ends the lease, whichever way the server says so.
func TestLeaseIsLostByAnyConflict(t *testing.T) {
	_, nc := startServer(t, &server.Options{DontListen: true})
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	m := Member{Name: "a", Group: "g"}
	for code, want := range map[jetstream.ErrorCode]bool{conflicts[0]: true, conflicts[1]: true, jetstream.JSErrCodeStreamNotFound: false} {
		sub, err := nc.Subscribe("$KV."+AliveBucket+".>", func(m *nats.Msg) {
			m.Respond(fmt.Appendf(nil, `{"error":{"code":400,"err_code":%d,"description":"wrong last sequence"},"stream":"KV_ALIVE","seq":0}`, code))
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := (&Site{Conn: nc, JS: js}).Announce(t.Context(), m, 7); err == nil || errors.Is(err, ErrLeaseLost) != want {
			t.Errorf("code %d: %v, the lease is lost: want %v", code, err, want)
		}
		if err := sub.Unsubscribe(); err != nil {
			t.Fatal(err)
		}
	}
}
