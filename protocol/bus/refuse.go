package bus

import (
	"errors"
	"log/slog"
	"sync"
	"time"
)

// The bounds of the lines that Refuse writes: who may write to a bus must not be able to
// fill the log of who reads it.
const (
	refusalsBurst = 5 // of one bucket, before they are counted only
	refusalsEvery = time.Minute
)

// refusals bounds what is logged, by bucket or stream.
type refusals struct {
	mu sync.Mutex
	by map[string]*refused
}

type refused struct {
	since  time.Time
	lines  int
	silent int // not logged since
}

// Refuse tells that a reader did not take what lies under a key of a bucket or at a
// subject of a stream, and why. It counts each, with Site.Refused, and logs few: one that
// wraps ErrLie as an alarm: the writer of that place has said what is not its to say.
func (s *Site) Refuse(log *slog.Logger, bucket, place string, err error) {
	lies := errors.Is(err, ErrLie)
	if s.Refused != nil {
		s.Refused(bucket, lies)
	}
	said, silent := s.refusals.say(bucket, time.Now())
	if !said {
		return
	}
	text := "unreadable document of the bus ignored"
	if lies {
		text = "ALARM: a document of the bus says what its place does not allow; it is ignored. Who may write there is broken, or its credentials are stolen: find it by the place, and revoke it"
	}
	if len(place) > 300 {
		place = place[:300]
	}
	log.Error(text, "bucket", bucket, "place", place, "site", s.Name, "error", err, "not_logged_before", silent)
}

// say reports whether a line is to be written, and how many were not since the last one.
func (r *refusals) say(bucket string, now time.Time) (ok bool, silent int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by == nil {
		r.by = map[string]*refused{}
	}
	b := r.by[bucket]
	if b == nil {
		b = &refused{since: now}
		r.by[bucket] = b
	}
	if now.Sub(b.since) >= refusalsEvery {
		b.since, b.lines = now, 0
	}
	if b.lines == refusalsBurst {
		b.silent++
		return false, 0
	}
	b.lines++
	silent, b.silent = b.silent, 0
	return true, silent
}
