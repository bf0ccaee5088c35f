package roster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/time/rate"

	"github.com/ironyard/ironyard/protocol/bus"
)

// When a member is looked at because no beat came from it.
const (
	// overdue is more than bus.BeatEvery, by the time that a beat may be late.
	overdue = bus.BeatEvery + 1500*time.Millisecond
	// again is how soon after that it is looked at once more: its lease may have had
	// seconds to run. A member that lives and is not heard is looked at every overdue.
	again = 1500 * time.Millisecond
	looks = 3
	// readAgain is how often members are read whose beats do not name their edition: what one says of itself may
	// change while it lives, and its beats would not show that.
	readAgain = time.Minute
	// A stolen rackd beats as often as it likes. Central looks at its key looksAtOnce times without a wait, then
	// once each looksEach. A rackd that restarts needs two looks.
	looksAtOnce = 20
	looksEach   = 500 * time.Millisecond
	// mostBeating bounds the keys of whose beats it is remembered: a site's server makes up as many as it likes.
	mostBeating = 10_000
	// lookTimeout bounds one look.
	lookTimeout = 2 * time.Second
)

// heard is when a member was heard of last, or is next to be looked at.
type heard struct {
	next  time.Time
	looks int // without having heard of it
}

// Follow keeps the members of site up to date until ctx ends.
func (r *Roster) Follow(ctx context.Context, site *bus.Site) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	beats, err := site.Beats(ctx)
	if err != nil {
		return fmt.Errorf("listen to the beats of site %q: %w", site.Name, err)
	}
	f := follower{r, site, map[string]heard{}, map[string]*rate.Limiter{}}
	if err := f.list(ctx); err != nil {
		return err
	}
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	all := time.NewTicker(readAgain)
	defer all.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-all.C:
			f.readAgain(ctx)
		case b := <-beats:
			if r.cfg.SiteOf(b.Group()) == site.Name {
				f.beat(ctx, b)
			}
		case <-tick.C:
			f.overdue(ctx)
		}
	}
}

// follower follows one site; it belongs to one goroutine.
type follower struct {
	*Roster
	site  *bus.Site
	heard map[string]heard // by key
	// paced has the keys at which beats have central look.
	paced map[string]*rate.Limiter
}

// list reads all members.
func (f *follower) list(ctx context.Context) error {
	keys, err := f.site.List(ctx, f.site.Alive)
	if err != nil {
		return err
	}
	members := map[string]bus.Member{}
	for key, e := range keys {
		if m, alive := f.read(f.site, e); alive {
			members[key] = m
			f.hear(key)
		}
	}
	f.replace(f.site.Name, members)
	return nil
}

// hear notes a sign of life of a member.
func (f *follower) hear(key string) {
	f.heard[key] = heard{next: time.Now().Add(overdue)}
	f.cfg.Heard(f.site.Name)
}

func (f *follower) beat(ctx context.Context, b bus.Beat) {
	if !f.renewed(f.site.Name, b) {
		if f.mayLook(b.Key) {
			f.look(ctx, b.Key)
		}
		return
	}
	if b.Renewal() {
		f.hear(b.Key)
	} else {
		f.cfg.Heard(f.site.Name)
	}
	// Of several that tell of one death the first has it looked at.
	if _, lives := f.heard[b.Gone]; lives && f.mayLook(b.Key) {
		f.peek(ctx, b.Gone)
	}
}

// readAgain reads the members whose beats do not name their edition.
func (f *follower) readAgain(ctx context.Context) {
	for _, key := range f.withoutEdition(f.site.Name) {
		if !f.peek(ctx, key) {
			return
		}
	}
}

// peek is a look that is no sign of life of a member: the lease of one that has just died may have seconds to run.
func (f *follower) peek(ctx context.Context, key string) bool {
	h, known := f.heard[key]
	ok := f.look(ctx, key)
	if _, lives := f.heard[key]; known && lives {
		f.heard[key] = h
	}
	return ok
}

// mayLook reports whether a beat has its key looked at now. If not, overdue does it soon.
func (f *follower) mayLook(key string) bool {
	pace := f.paced[key]
	if pace == nil {
		if len(f.paced) >= mostBeating {
			now := time.Now()
			maps.DeleteFunc(f.paced, func(_ string, l *rate.Limiter) bool { return l.TokensAt(now) >= looksAtOnce })
		}
		if len(f.paced) >= mostBeating {
			return false
		}
		pace = rate.NewLimiter(rate.Every(looksEach), looksAtOnce)
		f.paced[key] = pace
	}
	if pace.Allow() {
		return true
	}
	h := f.heard[key]
	h.next = time.Time{}
	f.heard[key] = h
	return false
}

// overdue looks at the members that should have been heard. When the site does not
// answer the others wait: that is central/sites' to find out.
func (f *follower) overdue(ctx context.Context) {
	now := time.Now()
	for key, h := range f.heard {
		if now.Before(h.next) {
			continue
		}
		if !f.look(ctx, key) {
			return
		}
		if next, lives := f.heard[key]; lives {
			if next.looks = h.looks + 1; next.looks <= looks {
				next.next = now.Add(again)
			}
			f.heard[key] = next
		}
	}
}

// look reads a member's key and takes in what it shows. It returns false when there
// was no answer: then nothing is known, and the member stays as it was.
func (f *follower) look(ctx context.Context, key string) bool {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	e, err := f.site.Alive.Get(ctx, key)
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound), // or a marker of its end
		errors.Is(err, jetstream.ErrInvalidKey): // no rackd has such a key
		delete(f.heard, key)
		f.apply(f.site.Name, key, bus.Member{}, false)
	case err != nil:
		f.cfg.Log.Debug("member not looked at", "site", f.site.Name, "key", key, "error", err)
		return false
	default:
		m, alive := f.read(f.site, e)
		f.apply(f.site.Name, key, m, alive)
		delete(f.heard, key)
		if alive {
			f.heard[key] = heard{next: time.Now().Add(overdue)}
		}
	}
	f.cfg.Heard(f.site.Name)
	return true
}

// renewed notes a beat of a member that is known, and reports whether it is.
func (r *Roster) renewed(site string, b bus.Beat) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, known := r.sites[site][b.Key]
	if !known || m.Instance != b.Instance || b.Edition != 0 && m.Edition != b.Edition {
		return false
	}
	if b.Renewal() {
		m.RenewedAt = time.Now().UTC()
		r.sites[site][b.Key] = m
		r.renew(b.Key, m)
	}
	return true
}

// withoutEdition returns the keys of a site's members whose beats do not name an edition.
func (r *Roster) withoutEdition(site string) (keys []string) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for key, m := range r.sites[site] {
		if m.Edition == 0 {
			keys = append(keys, key)
		}
	}
	return keys
}
