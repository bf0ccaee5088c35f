package bench

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/ironyard/ironyard/ops/dev"
	"github.com/ironyard/ironyard/ops/operator"
	"github.com/ironyard/ironyard/ops/stack"
	"github.com/ironyard/ironyard/protocol/provision"
)

// nodes that are deployed side by side in one round.
const nodes = 200

// BenchmarkDeploy deploys fake nodes, many at once and one alone, and prints how many
// SQL statements a deploy costs central from request to active. The statements of
// the benchmark's own polling are counted apart and left out.
func BenchmarkDeploy(b *testing.B) {
	ctx, cancel := context.WithCancel(b.Context())
	up, done := make(chan *stack.Stack, 1), make(chan error, 1)
	go func() {
		done <- dev.Run(ctx, dev.Options{Listen: "127.0.0.1:0", Data: b.TempDir(), Log: slog.New(slog.NewTextHandler(io.Discard, nil))},
			func(s *stack.Stack) { up <- s })
	}()
	defer func() { cancel(); <-done }()
	s := <-up
	o, err := operator.New(s.Endpoint)
	if err != nil {
		b.Fatal(err)
	}
	ids := make([]string, nodes)
	g, enrolling := errgroup.WithContext(ctx)
	g.SetLimit(clients)
	for i := range ids {
		g.Go(func() (err error) {
			if ids[i], err = o.Enrol(enrolling, operator.Machine{Name: fmt.Sprintf("n%d", i), Driver: "fake-hardware"}); err != nil {
				return err
			}
			return o.MakeAvailable(enrolling, ids[i])
		})
	}
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
	for _, n := range []int{1, 20, nodes} {
		b.Run(fmt.Sprintf("nodes=%d", n), func(b *testing.B) {
			var statements, polls uint64
			for b.Loop() {
				st, p := round(ctx, b, s, o, ids[:n])
				statements += st
				polls += p
			}
			b.ReportMetric(float64(statements-polls)/float64(b.N*n), "sql/deploy")
			b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "deploys/s")
		})
	}
}

// round deploys the nodes and, unmeasured, takes them back.
func round(ctx context.Context, b *testing.B, s *stack.Stack, o *operator.Operator, ids []string) (statements, polls uint64) {
	b.StopTimer()
	each(ctx, b, ids, func(ctx context.Context, id string) error {
		return o.SetImage(ctx, id, operator.Image{URL: "http://example.org/i.raw", SHA256: "00", DiskFormat: "raw"})
	})
	// What one look at a node costs, so that the waiting can be taken off.
	before := s.Store.Statements()
	if _, err := o.Show(ctx, ids[0]); err != nil {
		b.Fatal(err)
	}
	look := s.Store.Statements() - before
	looks := o.Shown()
	before = s.Store.Statements()
	b.StartTimer()
	each(ctx, b, ids, func(ctx context.Context, id string) error {
		if err := o.Ask(ctx, id, "active", nil); err != nil {
			return err
		}
		_, err := o.Wait(ctx, id, provision.Active)
		return err
	})
	b.StopTimer()
	statements, polls = s.Store.Statements()-before, look*(o.Shown()-looks)
	each(ctx, b, ids, func(ctx context.Context, id string) error {
		if err := o.Ask(ctx, id, "deleted", nil); err != nil {
			return err
		}
		_, err := o.Wait(ctx, id, provision.Available)
		return err
	})
	b.StartTimer()
	return statements, polls
}

func each(ctx context.Context, b *testing.B, ids []string, do func(ctx context.Context, id string) error) {
	b.Helper()
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(64)
	for _, id := range ids {
		g.Go(func() error { return do(ctx, id) })
	}
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
}
