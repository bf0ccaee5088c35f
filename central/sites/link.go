package sites

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/ironyard/ironyard/protocol/bus"
)

// AwayError says that a site cannot be reached: HTTP 503 for what needs its answer.
type AwayError struct {
	Site  string
	Since time.Time
	// NotYet: this central has not reached the site since it started, at Since.
	NotYet bool
	// Why, if not empty, is told to callers, whom the addresses in Cause do not concern: that is
	// in the log.
	Why   string
	Cause error
}

func (e *AwayError) Error() string {
	name := fmt.Sprintf("Site %q", e.Site)
	if e.Site == "" {
		name = "The site"
	}
	why := ""
	if e.Why != "" {
		why = ": " + e.Why
	}
	how := "has been unreachable since"
	if e.NotYet {
		how = "has not been reached since central started at"
	}
	return fmt.Sprintf("%s %s %s%s. Requests that change its nodes are accepted and wait for it; "+
		"what needs its answer works again when the link is back. Central's log says what is in the way.", name, how, e.Since.UTC().Format(time.RFC3339), why)
}

func (e *AwayError) Unwrap() error { return e.Cause }

// HTTPStatus is 503.
func (e *AwayError) HTTPStatus() int { return http.StatusServiceUnavailable }

// link is what is known of the way to a site. Safe for concurrent use.
type link struct {
	conn *nats.Conn

	mu    sync.Mutex
	tried bool // it was open, or could not be opened
	once  bool // it was open
	open  bool
	since time.Time
	heard time.Time
	err   error
}

func newLink(conn *nats.Conn) *link {
	return &link{conn: conn, since: time.Now(), err: errors.New("central has not reached it since it started")}
}

func (l *link) state() (open bool, since time.Time, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open, l.since, l.err
}

// past reports whether the site was tried, and whether it was ever open.
func (l *link) past() (tried, once bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tried, l.once
}

func (l *link) hear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard = time.Now()
}

func (l *link) lastHeard() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.heard
}

// found notes that the site is open, and reports whether it was not.
func (l *link) found() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.open
	if !was {
		l.since = time.Now()
	}
	l.tried, l.once = true, true
	l.open, l.err = true, nil
	return !was
}

// lose notes that the site is away. It has been since it was last heard.
func (l *link) lose(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open {
		l.since = l.heard
	}
	l.tried = true
	l.open, l.err = false, err
}

// ask asks the site whether it is there.
func (l *link) ask(ctx context.Context, b *bus.Site) error {
	if err := bus.Away(l.conn); err != nil {
		return err
	}
	return b.Ping(ctx)
}

// When a site is away. From the last sign of life it takes at most quiet, a tick,
// and silences times pingTimeout: less than 8 s.
const (
	// quiet is more than bus.BeatEvery: a site with a rackd is heard without asking.
	quiet = bus.BeatEvery + time.Second
	// silences is how many questions in a row are without an answer.
	silences    = 2
	pingTimeout = 1500 * time.Millisecond
	listenTick  = 500 * time.Millisecond
)

// listen returns why the site is away, once it is, or nil when ctx ends. It asks only
// while nothing is heard.
func listen(ctx context.Context, lastHeard func() time.Time, ask func(context.Context) error, hear func()) error {
	tick := time.NewTicker(listenTick)
	defer tick.Stop()
	silent := 0
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if time.Since(lastHeard()) < quiet {
			silent = 0
			continue
		}
		asking, cancel := context.WithTimeout(ctx, pingTimeout)
		err := ask(asking)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			hear()
			silent = 0
		default:
			if silent++; silent == silences {
				return fmt.Errorf("it does not answer: %w", err)
			}
		}
	}
}
