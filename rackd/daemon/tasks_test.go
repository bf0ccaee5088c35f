package daemon

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/fake"
	"github.com/ironyard/ironyard/rackd/drivers"
	"github.com/ironyard/ironyard/rackd/metrics"
	"github.com/ironyard/ironyard/rackd/periodic"
)

// idleNode is a rack of one idle node.
type idleNode struct {
	*node.Document
	types *driver.Registry
}

func (i idleNode) Nodes() []string { return []string{i.UUID} }
func (i idleNode) Idle(string) (*node.Document, *driver.Hardware, error) {
	hw, err := i.types.Resolve(i.Document)
	return i.Document, hw, err
}

// A task that a hardware type declares runs in a rackd, without a line anywhere else.
func TestTasksOfHardwareTypesRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := 0
		kind := fake.New(fake.Options{}).Type()
		kind.Periodic = []driver.Periodic{{Name: "fans", Every: time.Minute, Do: func(context.Context, *node.Document, *driver.Hardware) (string, error) { turns++; return "", nil }}}
		types, err := driver.NewRegistry(kind)
		if err != nil {
			t.Fatal(err)
		}
		r := &rackd{hardware: &drivers.Set{Registry: types}, registry: prometheus.NewRegistry()}
		m := metrics.New(r.registry, metrics.Sources{})
		r.tasks = periodic.New(idleNode{&node.Document{UUID: "n", Driver: fake.TypeName}, types}, m, slog.New(slog.DiscardHandler))
		r.addTasks(m)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute+30*time.Second)
		defer cancel()
		if err := r.tasks.Run(ctx); err != nil {
			t.Error(err)
		}
		if turns < 9 || turns > 12 {
			t.Errorf("%d turns in ten minutes, want one a minute", turns)
		}
	})
}
