package command

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/ironyard/ironyard/protocol/agentapi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type faulty struct{}

func (faulty) Error() string     { return "disk on fire" }
func (faulty) FaultType() string { return "DiskError" }

func runner(t *testing.T, release <-chan struct{}) *Runner {
	r := NewRunner(slog.New(slog.DiscardHandler),
		Spec{Name: "test.echo", Run: func(_ context.Context, c Call) (any, error) { return string(c.Params), nil }},
		Spec{Name: "test.fail", Run: func(context.Context, Call) (any, error) { return nil, faulty{} }},
		Spec{Name: "test.panic", Run: func(context.Context, Call) (any, error) { panic("oops") }},
		Spec{Name: "test.slow", Async: true, Run: func(ctx context.Context, c Call) (any, error) {
			c.Report(agentapi.Progress{DoneBytes: 7})
			select {
			case <-release:
				return map[string]int{"n": 1}, nil
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}})
	t.Cleanup(r.Close)
	return r
}

func TestSyncCommands(t *testing.T) {
	r := runner(t, nil)
	c, err := r.Start(agentapi.CommandRequest{Name: "test.echo", Params: []byte("1")})
	if err != nil || c.Status != agentapi.CommandSucceeded || string(c.Result) != `{"result":"1"}` {
		t.Errorf("%+v, %v", c, err)
	}
	c, err = r.Start(agentapi.CommandRequest{Name: "test.fail"})
	if err != nil || c.Status != agentapi.CommandFailed || c.Error.Type != "DiskError" || c.Error.Details != "disk on fire" {
		t.Errorf("%+v, %v", c, err)
	}
	c, err = r.Start(agentapi.CommandRequest{Name: "test.panic"})
	if err != nil || c.Error == nil || !strings.Contains(c.Error.Details, "oops") {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err = r.Start(agentapi.CommandRequest{Name: "test.none"}); !errors.Is(err, ErrUnknown) {
		t.Errorf("unknown: %v", err)
	}
}

func TestAsyncOneAtATimeAndIdempotent(t *testing.T) {
	release := make(chan struct{})
	r := runner(t, release)
	req := agentapi.CommandRequest{Name: "test.slow", ID: "id-1"}
	if _, changed := r.Newest(); changed == nil {
		t.Fatal("no channel")
	}
	first, err := r.Start(req)
	if err != nil || first.Status != agentapi.CommandRunning {
		t.Fatalf("%+v, %v", first, err)
	}
	if again, err := r.Start(req); err != nil || again.ID != "id-1" {
		t.Errorf("same id: %+v, %v", again, err)
	}
	if _, err := r.Start(agentapi.CommandRequest{Name: "test.echo"}); !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), "test.slow") {
		t.Errorf("second command: %v", err)
	}
	_, changed := r.Newest()
	close(release)
	<-changed
	done, err := r.Wait(t.Context(), "id-1")
	if err != nil || done.Status != agentapi.CommandSucceeded || done.Progress == nil || done.Progress.DoneBytes != 7 {
		t.Errorf("%+v, %v", done, err)
	}
	if again, err := r.Start(req); err != nil || again.Status != agentapi.CommandSucceeded || len(r.List()) != 1 {
		t.Errorf("same id after the end: %+v, %v", again, err)
	}
	if _, err := r.Start(agentapi.CommandRequest{Name: "test.echo", ID: "id-1"}); !errors.Is(err, ErrConflict) {
		t.Errorf("same id, other command: %v", err)
	}
}

func TestCloseCancels(t *testing.T) {
	r := runner(t, nil)
	c, err := r.Start(agentapi.CommandRequest{Name: "test.slow"})
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	if c, err = r.Wait(t.Context(), c.ID); err != nil || c.Status != agentapi.CommandFailed || !strings.Contains(c.Error.Details, "stopping") {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := r.Start(agentapi.CommandRequest{Name: "test.echo"}); !errors.Is(err, ErrBusy) {
		t.Errorf("after Close: %v", err)
	}
}

func TestHistoryIsBounded(t *testing.T) {
	r := runner(t, nil)
	for range keep + 5 {
		if _, err := r.Start(agentapi.CommandRequest{Name: "test.echo"}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(r.List()); n != keep {
		t.Errorf("%d commands remembered", n)
	}
}
