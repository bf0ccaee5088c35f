package session

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/agentapi"
)

var quiet = slog.New(slog.DiscardHandler)

// rackd is one that can fail.
type rackd struct {
	mu    sync.Mutex
	fail  func(n int) error
	reply agentapi.LookupReply
	at    []time.Time
	beats []agentapi.Heartbeat
}

func (r *rackd) call() error {
	r.at = append(r.at, time.Now())
	if r.fail != nil {
		return r.fail(len(r.at))
	}
	return nil
}

func (r *rackd) Lookup(context.Context, []string, string) (agentapi.LookupReply, time.Time, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reply, time.Now().Add(time.Hour), r.call()
}

func (r *rackd) Heartbeat(_ context.Context, _ string, h agentapi.Heartbeat) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.beats = append(r.beats, h)
	return r.call()
}

type commands struct {
	mu      sync.Mutex
	newest  *agentapi.Command
	changed chan struct{}
}

func (c *commands) Newest() (*agentapi.Command, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.newest, c.changed
}

func (c *commands) set(s agentapi.CommandStatus) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.newest = &agentapi.Command{ID: "c", Status: s}
	close(c.changed)
	c.changed = make(chan struct{})
}

func macs() []string { return []string{"aa:bb:cc:dd:ee:ff"} }

func reply(token string) agentapi.LookupReply {
	return agentapi.LookupReply{Node: agentapi.LookupNode{UUID: "n"}, Config: agentapi.LookupConfig{HeartbeatTimeout: 100, AgentToken: token}}
}

func TestLookupRetriesWithGrowingPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &rackd{reply: reply("tok"), fail: func(n int) error {
			if n < 10 {
				return errors.New("404")
			}
			return nil
		}}
		id, err := Lookup(t.Context(), quiet, r, macs, "", "")
		if err != nil || id.Token != "tok" || id.Node != "n" || id.ClockOffset != time.Hour {
			t.Fatalf("%+v, %v", id, err)
		}
		for i := 1; i < len(r.at); i++ {
			d := r.at[i].Sub(r.at[i-1])
			if want := min(time.Second<<(i-1), maxPause); d < want/2 || d > want {
				t.Errorf("pause %d is %v, want %v to %v", i, d, want/2, want)
			}
		}
	})
}

func TestLookupGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		_, err := Lookup(t.Context(), quiet, &rackd{fail: func(int) error { return errors.New("nobody knows you") }}, macs, "", "")
		if d := time.Since(began); err == nil || d > LookupFor || d < LookupFor-maxPause {
			t.Errorf("after %v: %v", d, err)
		}
		if !strings.Contains(err.Error(), "nobody knows you") || !strings.Contains(err.Error(), "aa:bb:cc:dd:ee:ff") {
			t.Errorf("error %q", err)
		}
	})
}

func TestMaskedToken(t *testing.T) {
	r := &rackd{reply: reply(agentapi.Masked)}
	if _, err := Lookup(t.Context(), quiet, r, macs, "", ""); !errors.Is(err, ErrNoToken) {
		t.Errorf("%v, want ErrNoToken", err)
	}
	if id, err := Lookup(t.Context(), quiet, r, macs, "", "kept"); err != nil || id.Token != "kept" {
		t.Errorf("%+v, %v", id, err)
	}
}

func TestHeartbeatPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, c := &rackd{}, &commands{changed: make(chan struct{})}
		h := &Heart{Log: quiet, Rackd: r, Commands: c, Identity: Identity{Node: "n", Timeout: 100 * time.Second}, Beat: agentapi.Heartbeat{CallbackURL: "https://x"}}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { h.Run(ctx); close(done) }()
		count := func() int { r.mu.Lock(); defer r.mu.Unlock(); return len(r.beats) }

		<-time.After(10 * time.Minute)
		if n := count(); n < 10 || n > 21 {
			t.Errorf("idle: %d heartbeats in ten minutes", n)
		}
		before := count()
		c.set(agentapi.CommandRunning)
		<-time.After(20 * time.Second)
		if n := count() - before; n < 9 || n > 12 {
			t.Errorf("busy: %d heartbeats in 20 s", n)
		}
		before = count()
		c.set(agentapi.CommandSucceeded)
		synctest.Wait()
		if count() != before+1 || r.beats[before].Command.Status != agentapi.CommandSucceeded {
			t.Error("no heartbeat at once when the command ended")
		}
		r.mu.Lock()
		r.fail = func(int) error { return errors.New("down") }
		r.mu.Unlock()
		<-time.After(2 * time.Minute)
		before = count()
		<-time.After(20 * time.Second)
		if n := count() - before; n < 3 || n > 5 {
			t.Errorf("rackd down: %d heartbeats in 20 s", n)
		}
		cancel()
		<-done
	})
}
