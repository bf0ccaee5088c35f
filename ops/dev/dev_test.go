package dev_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/dev"
	"github.com/ironyard/ironyard/ops/operator"
	"github.com/ironyard/ironyard/ops/stack"
	"github.com/ironyard/ironyard/protocol/provision"
)

// start runs a fleet in dir until stop is called.
func start(t *testing.T, dir string, delay time.Duration) (o *operator.Operator, stop func()) {
	t.Helper()
	o, _, stop = startStack(t, dir, delay)
	return o, stop
}

func startStack(t *testing.T, dir string, delay time.Duration) (o *operator.Operator, fleet *stack.Stack, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	up, done := make(chan *stack.Stack, 1), make(chan error, 1)
	go func() {
		done <- dev.Run(ctx, dev.Options{Listen: "127.0.0.1:0", Data: dir, Delay: delay, Log: slog.New(slog.NewTextHandler(io.Discard, nil))},
			func(s *stack.Stack) { up <- s })
	}()
	stop = func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the fleet ended with: %v", err)
		}
	}
	select {
	case s := <-up:
		o, err := operator.New(s.Endpoint)
		if err != nil {
			t.Fatal(err)
		}
		return o, s, stop
	case err := <-done:
		t.Fatalf("the fleet did not start: %v", err)
	}
	return nil, nil, nil
}

// A folder is one fleet's at a time: the second would spoil the streams of the first.
func TestFolderInUse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o, stop := start(t, dir, 0)
	defer stop()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := dev.Run(ctx, dev.Options{Listen: "127.0.0.1:0", Data: dir, Log: slog.New(slog.DiscardHandler)}, func(*stack.Stack) {
		t.Error("a second fleet runs in the folder of the first")
		cancel()
	})
	if err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("error %v", err)
	}
	fakeNode(t, o, "still-here", nil)
}

func fakeNode(t *testing.T, o *operator.Operator, name string, info map[string]any) string {
	t.Helper()
	id, err := o.Enrol(t.Context(), operator.Machine{Name: name, Driver: "fake-hardware", DriverInfo: info, Clean: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := o.MakeAvailable(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if err := o.SetImage(t.Context(), id, operator.Image{URL: "http://example.org/i.raw", SHA256: "00", DiskFormat: "raw"}); err != nil {
		t.Fatal(err)
	}
	return id
}

// The whole way through API, store, relay, bus, conductor and ingest, and back.
func TestDeployUndeployDelete(t *testing.T) {
	t.Parallel()
	o, stop := start(t, t.TempDir(), 0)
	defer stop()
	id := fakeNode(t, o, "one", nil)
	if err := o.Ask(t.Context(), id, "active", nil); err != nil {
		t.Fatal(err)
	}
	n, err := o.Wait(t.Context(), id, provision.Active)
	if err != nil {
		t.Fatal(err)
	}
	if err := o.WaitPower(t.Context(), id, "power on"); err != nil {
		t.Errorf("after the deploy: %v (%+v)", err, n.PowerState)
	}
	if err := o.Power(t.Context(), id, "power off"); err != nil {
		t.Fatal(err)
	}
	if err := o.WaitPower(t.Context(), id, "power off"); err != nil {
		t.Fatal(err)
	}
	if err := o.Ask(t.Context(), id, "deleted", nil); err != nil {
		t.Fatal(err)
	}
	if n, err = o.Wait(t.Context(), id, provision.Available); err != nil || len(n.InstanceInfo) != 0 {
		t.Fatalf("after undeploy: %v, instance_info %v", err, n.InstanceInfo)
	}
	if err := o.Delete(t.Context(), id); err != nil {
		t.Fatal(err)
	}
}

func TestFailureIsToldAndTriedAgain(t *testing.T) {
	t.Parallel()
	o, stop := start(t, t.TempDir(), 0)
	defer stop()
	id := fakeNode(t, o, "one", map[string]any{"fake_write_image_fail": "the disk is made of cheese"})
	if err := o.Ask(t.Context(), id, "active", nil); err != nil {
		t.Fatal(err)
	}
	n, err := o.Wait(t.Context(), id, provision.Active)
	var failed *operator.FailedError
	if err == nil || n.ProvisionState != string(provision.DeployFail) {
		t.Fatalf("state %q, %v", n.ProvisionState, err)
	}
	if !errors.As(err, &failed) || !strings.Contains(failed.LastError, "made of cheese") {
		t.Errorf("last_error: %v", err)
	}
	if err := o.SetDriverInfo(t.Context(), id, "fake_write_image_fail", ""); err != nil {
		t.Fatal(err)
	}
	if err := o.Ask(t.Context(), id, "active", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := o.Wait(t.Context(), id, provision.Active); err != nil {
		t.Fatal(err)
	}
}

// The process ends in the middle of a deploy; its successor on the same folder
// brings the work to its end.
func TestRestartGoesOn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o, stop := start(t, dir, time.Second)
	id := fakeNode(t, o, "one", nil)
	if err := o.Ask(t.Context(), id, "active", nil); err != nil {
		t.Fatal(err)
	}
	if n, err := o.Show(t.Context(), id); err != nil || n.ProvisionState == string(provision.Active) {
		t.Fatalf("state %v, %v: too fast for this test", n.ProvisionState, err)
	}
	stop()
	o, stop = start(t, dir, 0)
	defer stop()
	if _, err := o.Wait(t.Context(), id, provision.Active); err != nil {
		t.Fatal(err)
	}
}
