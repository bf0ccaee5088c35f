package chaos

import (
	"context"
	"io"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/ironyard/ironyard/e2e/faults/topology"
	"github.com/ironyard/ironyard/ops/virtual/fleet"
	"github.com/ironyard/ironyard/ops/virtual/fleet/control"
)

// A run that ends early leaves no fault armed: who uses the machines after it meets none.
func TestNoFaultStaysArmed(t *testing.T) {
	c := fleet.Default
	c.Machines, c.Light = 2, true
	f, err := fleet.New(c)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(control.Handler(f))
	t.Cleanup(s.Close)
	site := &topology.Site{Name: "a", Machines: &topology.Machines{Client: &control.Client{Base: s.URL, HTTP: s.Client()}}}
	ctx, end := context.WithCancel(t.Context())
	defer end()
	plan := []Fault{{Kind: FailDisk, Which: 1}, {Kind: FailDisk, Which: 0, At: time.Hour}}
	log := writer(func() { end() }) // once the first is noted
	if err := Run(ctx, &topology.Topology{Sites: []*topology.Site{site}}, plan, log); err != nil {
		t.Fatal(err)
	}
	if ctx.Err() == nil {
		t.Fatal("no fault was inflicted")
	}
	for _, m := range f.Members {
		if err := m.Faults.Write(); err != nil {
			t.Errorf("%s: %v", m.Name, err)
		}
	}
}

// writer is told of each line.
type writer func()

var _ io.Writer = writer(nil)

func (w writer) Write(line []byte) (int, error) {
	w()
	return len(line), nil
}
