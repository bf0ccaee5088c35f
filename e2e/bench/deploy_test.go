package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"runtime/pprof"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/ironyard/ironyard/ops/dev"
	"github.com/ironyard/ironyard/ops/operator"
	"github.com/ironyard/ironyard/ops/stack"
	"github.com/ironyard/ironyard/protocol/provision"
)

// BenchmarkDeploy deploys fake nodes, many at once and one alone, from the first request
// to the moment at which the API shows the last of them active, and prints how many SQL
// statements and how much processor time a deploy costs. The statements of the
// benchmark's own looks are left out. Set IRONYARD_BENCH_DEPLOYS to a list of numbers of
// nodes for others than 1, 20 and 200, and IRONYARD_BENCH_PROFILE to a file for where the
// processor time of the last number goes, without what comes before and after the deploys.
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
	counts := numbers(b, "IRONYARD_BENCH_DEPLOYS", "1,20,200")
	ids := make([]string, slices.Max(counts))
	for i := range ids {
		ids[i] = uuid.NewString()
	}
	each(ctx, b, ids, func(ctx context.Context, id string) (err error) {
		at := slices.Index(ids, id)
		ids[at], err = o.Enrol(ctx, operator.Machine{Name: "n" + id, Driver: "fake-hardware"})
		return err
	})
	f := &fakes{s, o}
	f.ask(ctx, b, ids, "manage", provision.Verifying)
	f.ask(ctx, b, ids, "provide", provision.Cleaning)
	for _, n := range counts {
		b.Run(fmt.Sprintf("nodes=%d", n), func(b *testing.B) {
			var statements uint64
			var used time.Duration
			for b.Loop() {
				b.StopTimer()
				each(ctx, b, ids[:n], func(ctx context.Context, id string) error {
					return o.SetImage(ctx, id, operator.Image{URL: "http://example.org/i.raw", SHA256: "00", DiskFormat: "raw"})
				})
				stop := profile(b)
				began := cpu()
				b.StartTimer()
				statements += f.ask(ctx, b, ids[:n], "active", provision.Deploying)
				b.StopTimer()
				used += cpu() - began
				stop()
				each(ctx, b, ids[:n], func(ctx context.Context, id string) error { _, err := o.Wait(ctx, id, provision.Active); return err })
				f.ask(ctx, b, ids[:n], "deleted", provision.Deleting, provision.Cleaning)
				b.StartTimer()
			}
			b.ReportMetric(float64(statements)/float64(b.N*n), "sql/deploy")
			b.ReportMetric(float64(used.Microseconds())/float64(b.N*n), "cpu-us/deploy")
			b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "deploys/s")
		})
	}
}

// profile writes where processor time goes until stop is called, in place of what it has
// written before, if that is wanted.
func profile(b *testing.B) (stop func()) {
	name := os.Getenv("IRONYARD_BENCH_PROFILE")
	if name == "" {
		return func() {}
	}
	f, err := os.Create(name)
	if err == nil {
		err = pprof.StartCPUProfile(f)
	}
	if err != nil {
		b.Fatal(err)
	}
	return func() {
		pprof.StopCPUProfile()
		if err := f.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// fakes is a stack with fake nodes and who operates it.
type fakes struct {
	*stack.Stack
	operator *operator.Operator
}

// ask asks for a verb on each node and waits until none is in a state on its way. It
// returns how many statements that was.
func (f *fakes) ask(ctx context.Context, b *testing.B, ids []string, verb string, way ...provision.State) (statements uint64) {
	b.Helper()
	before := f.Store.Statements()
	each(ctx, b, ids, func(ctx context.Context, id string) error { return f.operator.Ask(ctx, id, verb, nil) })
	looks := uint64(0)
	for _, state := range way {
		for f.any(ctx, b, state) {
			looks++
			time.Sleep(20 * time.Millisecond)
		}
		looks++
	}
	return f.Store.Statements() - before - looks // each is one statement
}

// any reports whether the API shows a node in a state.
func (f *fakes) any(ctx context.Context, b *testing.B, state provision.State) bool {
	b.Helper()
	req, err := http.NewRequestWithContext(ctx, "GET", f.operator.Base()+"/v1/nodes?limit=1&fields=uuid&provision_state="+url.QueryEscape(string(state)), nil)
	if err != nil {
		b.Fatal(err)
	}
	req.Header.Set("X-OpenStack-Ironic-API-Version", operator.Microversion)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	defer res.Body.Close()
	var list struct{ Nodes []struct{ UUID string } }
	if err := json.NewDecoder(res.Body).Decode(&list); err != nil || res.StatusCode != http.StatusOK {
		b.Fatalf("list of nodes: HTTP status %d, error %v", res.StatusCode, err)
	}
	return len(list.Nodes) > 0
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
