// Package trouble tells in few lines of a log of what fails again and again.
//
// It may import nothing of the project. Invariants: the log has a line when a spell of failures begins, one
// each Remind while it lasts, with how many there were, and one when it is over. A thing that fails and works by
// turns has a spell each Pause at most. Safe for concurrent use.
package trouble

import (
	"log/slog"
	"sync"
	"time"
)

const (
	// Remind is after how long a spell that lasts is told of again.
	Remind = 5 * time.Minute
	// Pause is how long after the line that ended a spell the next one is told of.
	Pause = 10 * time.Second
)

// Spell is the failures of one thing, in a row. The zero value is one that has not begun.
type Spell struct {
	mu       sync.Mutex
	what     string
	began    time.Time
	told     time.Time // when the last line was written
	open     bool      // the log knows of it
	failures int       // of which no line that ended a spell has told
}

// Failed notes that what was tried has failed. It is tried again; args are those of a log line.
func (s *Spell) Failed(log *slog.Logger, what string, err error, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.failures++; s.failures == 1 {
		s.began = now
	}
	args = append(args, "error", err)
	if s.failures > 1 {
		args = append(args, "failures", s.failures, "for", now.Sub(s.began).Round(time.Second))
	}
	switch {
	case !s.open && (s.told.IsZero() || now.Sub(s.told) >= Pause):
		s.what, s.told, s.open = what, now, true
		log.Warn(what+" failed, trying again", args...)
	case s.open && now.Sub(s.told) >= Remind:
		s.what, s.told = what, now
		log.Warn(what+" still fails, trying again", args...)
	}
}

// Over notes that it has not failed this time.
func (s *Spell) Over(log *slog.Logger, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open {
		return
	}
	now := time.Now()
	log.Warn(s.what+" works again", append(args, "failures", s.failures, "for", now.Sub(s.began).Round(time.Millisecond))...)
	s.told, s.open, s.failures = now, false, 0
}

// Spells are those of several things, by name. The zero value has none.
type Spells struct {
	mu  sync.Mutex
	all map[string]*Spell
}

// Tried notes what has come of trying a thing: an error is Failed, nil is Over. The names of things are few, and
// of the program's own making.
func (s *Spells) Tried(log *slog.Logger, what string, err error, args ...any) {
	s.mu.Lock()
	one := s.all[what]
	if one == nil && err != nil {
		if s.all == nil {
			s.all = map[string]*Spell{}
		}
		one = new(Spell)
		s.all[what] = one
	}
	s.mu.Unlock()
	switch {
	case err != nil:
		one.Failed(log, what, err, args...)
	case one != nil:
		one.Over(log, args...)
	}
}
