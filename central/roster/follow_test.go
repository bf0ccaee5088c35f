package roster

import (
	"context"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ironyard/ironyard/protocol/bus"
)

// Followed has the roster follow a site until the test or the context that it returns ends. stop ends it sooner, and waits for it.
func Followed(t *testing.T, r *Roster, site *bus.Site) (ctx context.Context, stop func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	var g errgroup.Group
	g.Go(func() error { return r.Follow(ctx, site) })
	stop = func() {
		cancel()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return ctx, stop
}
