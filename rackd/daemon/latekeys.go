package daemon

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// How soon keys are renewed that are not those of central.
const (
	// keysEvery is how often they are compared, keysSpread keeps rackds from renewing all at once.
	keysEvery  = time.Second
	keysSpread = 2 * time.Second
	// The pause after a renewal that did not bring the keys: the first, and the longest.
	keysAgain     = 30 * time.Second
	keysAgainMost = time.Hour
)

// lateKeys says which keys of central this rackd does not have, empty if it has all: central names those
// of a group in GROUPS, and each document names its own.
func (r *rackd) lateKeys() string {
	var why string
	for _, group := range r.cfg.Keys.Groups() {
		if ids := r.groups.Keys(group); len(ids) > 0 && r.cfg.Keys.Differs(group, ids) {
			why += fmt.Sprintf("central hands out the keys %q of conductor group %q; ", ids, group)
		}
	}
	if r.view.Late() > 0 {
		why += "documents are sealed with a key that is not there; "
	}
	return why
}

// keepKeys renews the keys whenever they are not those of central, until ctx ends. A daily renewal would
// bring them as well.
func (r *rackd) keepKeys(ctx context.Context) error {
	tick := time.NewTicker(keysEvery)
	defer tick.Stop()
	var asked string
	var next time.Time
	var pause time.Duration
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		why := r.lateKeys()
		now := time.Now()
		if why != asked {
			asked, pause, next = why, keysAgain, now.Add(rand.N(keysSpread))
		}
		if why == "" || now.Before(next) {
			continue
		}
		next, pause = now.Add(pause), min(2*pause, keysAgainMost)
		r.cfg.Log.Info("keys are not those of central: asking for a renewal", "rackd", r.cfg.Name, "reason", why, "again_at", next)
		r.cfg.RenewKeys()
	}
}

// lateNodes is how many nodes' documents are sealed with a key that is not there.
func (r *rackd) lateNodes() int {
	select {
	case <-r.opened:
		return r.view.Late()
	default:
		return 0
	}
}

// lateCheck says what this rackd cannot open; empty if nothing.
func (r *rackd) lateCheck() string {
	n := r.lateNodes()
	if n == 0 {
		return ""
	}
	groups := slices.Sorted(slices.Values(r.cfg.Keys.Groups()))
	return fmt.Sprintf("%d nodes' documents are sealed with keys of the conductor groups %q that this rackd does not have: others serve them; "+
		"`ironyard site renew` brings the keys, or put them into the key file", n, groups)
}
