// Package audit keeps the trail: who asked for what, from where, and what came of it.
//
// A line about a request that changes the database is written in the request's own
// transaction (store.Cause): it is there if and only if the change is. Package audit
// owns the others: requests that were carried out without a transaction, whose line is
// written before they are answered, and refused ones, whose lines are written together
// a moment later. Those wait in a bounded queue; when it is full further ones are
// counted, and are in the log only. Refusals of callers who are not known have a small
// queue of their own, so that they displace no other line. Every line goes to the log besides, under the
// attribute "audit". Lines older than Keep are removed.
//
// It imports central/store only. A Trail is safe for concurrent use.
package audit

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/ironyard/ironyard/central/store"
)

// Config of a Trail.
type Config struct {
	Store *store.Store
	Log   *slog.Logger
	// Keep is for how long lines are kept; 0: for ever.
	Keep time.Duration
	// Before says which lines are older than Keep, and whether they may be removed (central/age).
	Before func(ctx context.Context, keep time.Duration) (before time.Time, may bool, err error)
	Now    func() time.Time // nil: time.Now
}

// Bounds of what waits.
const (
	maxWaiting = 4096 // lines
	// maxStrangers of them are of strangers. The API passes few of their refusals on.
	maxStrangers = 128
	flushEvery   = 500 * time.Millisecond
	writeLimit   = 5 * time.Second // for one attempt to write
	pruneEvery   = 10 * time.Minute
	pruneBatch   = 1000
)

// Trail writes lines.
type Trail struct {
	cfg Config

	mu      sync.Mutex
	waiting []line
	// strangers are lines about callers who are not known.
	strangers []line
	lost      int // since the log was told
	// away: the log was told that the database takes no lines. Run alone uses it.
	away bool
}

// line is one that waits. correct: it is in the database and says something else.
type line struct {
	*store.Audit
	correct bool
}

// RefusedStranger records that a request of a caller who is not known was refused.
func (t *Trail) RefusedStranger(cause *store.Cause, status int, errText string) {
	a := t.finish(cause, status, errText)
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.strangers) >= maxStrangers {
		t.lost++
		return
	}
	t.strangers = append(t.strangers, line{a, false})
}

// finish fills in how a request has ended, and tells the log.
func (t *Trail) finish(cause *store.Cause, status int, errText string) *store.Audit {
	a := cause.Audit
	a.Status, a.Result, a.Error = int64(status), result(status), errText
	if a.At.IsZero() {
		a.At = t.cfg.Now().UTC().Truncate(time.Microsecond)
	}
	t.tell(a)
	return a
}

// New makes a Trail; Run must be running for refused requests to be written.
func New(c Config) *Trail {
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Trail{cfg: c}
}

// Ended records how a request has ended: a says what was known when it began, the rest
// is filled in. When the request was carried out, its line is in the database before
// Ended returns, unless the database fails: then it waits, and is in the log.
func (t *Trail) Ended(ctx context.Context, cause *store.Cause, status int, errText string) {
	expected := cause.Audit.Status
	a := t.finish(cause, status, errText)
	switch {
	case cause.Recorded():
		if a.Status != expected {
			t.wait(line{a, true})
		}
	case a.Result == store.Accepted:
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeLimit)
		defer cancel()
		if err := t.cfg.Store.AppendAudit(ctx, a); err != nil {
			t.cfg.Log.Error("a line of the audit could not be written; it waits", "request_id", a.RequestID, "error", err)
			t.wait(line{a, false})
		}
	default:
		t.wait(line{a, false})
	}
}

// result is what a status means.
func result(status int) string {
	switch {
	case status < 400:
		return store.Accepted
	case status == 401 || status == 403:
		return store.Denied
	case status < 500:
		return store.Refused
	}
	return store.Failed
}

// tell logs a line.
func (t *Trail) tell(a *store.Audit) {
	t.cfg.Log.LogAttrs(context.Background(), slog.LevelInfo, "request", slog.GroupAttrs("audit", slog.String("action", a.Action),
		slog.String("request_id", a.RequestID), slog.String("user", a.User), slog.String("user_id", a.UserID), slog.String("project", a.Project),
		slog.String("client", a.Client), slog.String("method", a.Method), slog.String("path", a.Path), slog.String("resource", a.Resource),
		slog.String("object", a.Object), slog.String("node", a.Node), slog.Int64("status", a.Status), slog.String("result", a.Result),
		slog.String("error", a.Error)))
}

func (t *Trail) wait(l line) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting) >= maxWaiting {
		t.lost++
		return
	}
	t.waiting = append(t.waiting, l)
}

// Run writes what waits and removes what is old, until ctx ends; what waits then is
// written first.
func (t *Trail) Run(ctx context.Context) error {
	flush, prune := time.NewTicker(flushEvery), time.NewTicker(pruneEvery)
	defer flush.Stop()
	defer prune.Stop()
	for {
		select {
		case <-flush.C:
			t.try(t.Flush(ctx))
		case <-prune.C:
			t.try(t.Prune(ctx))
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeLimit)
			defer cancel()
			t.try(t.Flush(last))
			return nil
		}
	}
}

// try logs that the database takes no lines, once, and that it takes them again: the next tick tries what failed.
func (t *Trail) try(err error) {
	switch {
	case err != nil && !t.away:
		t.cfg.Log.Warn("the audit waits for the database", "error", err)
	case err == nil && t.away:
		t.cfg.Log.Warn("the audit waits for the database no more")
	}
	t.away = err != nil
}

// Flush writes what waits; after an error it waits on.
func (t *Trail) Flush(ctx context.Context) error {
	t.mu.Lock()
	waiting, strangers, lost := t.waiting, t.strangers, t.lost
	t.waiting, t.strangers, t.lost = nil, nil, 0
	t.mu.Unlock()
	var fresh []*store.Audit
	for _, l := range waiting {
		if !l.correct {
			fresh = append(fresh, l.Audit)
		}
	}
	for _, l := range strangers {
		fresh = append(fresh, l.Audit)
	}
	if err := t.cfg.Store.AppendAudit(ctx, fresh...); err != nil {
		t.putBack(waiting)
		t.putStrangersBack(strangers, lost)
		return err
	}
	if lost > 0 {
		t.cfg.Log.Error("lines of the audit are in the log only: more requests are refused than can be written", "lines", lost)
	}
	for i, l := range waiting {
		if l.correct {
			if err := t.cfg.Store.CorrectAudit(ctx, l.Audit); err != nil {
				t.putBack(corrections(waiting[i:]))
				return err
			}
		}
	}
	return nil
}

func corrections(lines []line) (left []line) {
	for _, l := range lines {
		if l.correct {
			left = append(left, l)
		}
	}
	return left
}

// putBack puts lines before those that came meanwhile, as far as there is room.
func (t *Trail) putBack(lines []line) {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := append(lines, t.waiting...)
	t.lost += max(0, len(all)-maxWaiting)
	t.waiting = all[:min(len(all), maxWaiting)]
}

// putStrangersBack does the same with those of strangers, and with how many are in the log only.
func (t *Trail) putStrangersBack(lines []line, lost int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := append(lines, t.strangers...)
	t.lost += lost + max(0, len(all)-maxStrangers)
	t.strangers = all[:min(len(all), maxStrangers)]
}

// Prune removes lines that are older than Keep, as far as Before lets it. One call runs at a time.
func (t *Trail) Prune(ctx context.Context) error {
	if t.cfg.Keep == 0 {
		return nil
	}
	before, may, err := t.cfg.Before(ctx, t.cfg.Keep)
	if err != nil || !may {
		return err
	}
	for {
		n, err := t.cfg.Store.PruneAudit(ctx, before, pruneBatch)
		if err != nil || n < pruneBatch {
			return err
		}
	}
}
