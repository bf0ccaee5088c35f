package sites

import (
	"context"
	"log/slog"
	"time"

	"github.com/ironyard/ironyard/protocol/bus"
)

// How often central looks whether a site has its bucket of consoles' copies, and how long it tries. Rackds go on without it: a site is
// open before it is there.
const (
	consolesEvery  = 10 * time.Minute
	consolesWithin = 10 * time.Second
)

// keepConsoles makes a site's bucket of consoles' copies, and again where the site has lost it, until ctx ends.
func keepConsoles(ctx context.Context, settings bus.Settings, site *bus.Site, log *slog.Logger) {
	tick := time.NewTicker(consolesEvery)
	defer tick.Stop()
	for {
		making, cancel := context.WithTimeout(ctx, consolesWithin)
		err := site.MakeConsoles(making, settings)
		cancel()
		if err != nil && ctx.Err() == nil {
			log.Warn("a site keeps no copies of consoles' logs: each log ends with its rackd; trying again", "site", site.Name, "in", consolesEvery, "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
