package audit

import "time"

// A clock that is set ahead makes every line old. Lines that are removed do not come back, so nothing is removed for a while after such a
// step: an operator sees the warning, and sets the clock right. A clock that was behind and is right now costs no more than that while.
const (
	// stepped is how far a clock is ahead of the time that has passed to count as set, and restsFor how long nothing is removed then.
	stepped  = time.Hour
	restsFor = 24 * time.Hour
)

// watch compares the clock with the time that passes.
type watch struct {
	seen  bool
	wall  time.Time     // at the last look
	at    time.Duration // since the start, at that look
	until time.Duration // nothing is removed before that
}

// look returns by how much the clock was set ahead since the last look, 0 for not at all, and whether lines may be removed. passed is the
// time since the start by a clock that is never set.
func (w *watch) look(wall time.Time, passed time.Duration) (ahead time.Duration, may bool) {
	wall = wall.Round(0) // without the monotonic reading
	if w.seen {
		ahead = wall.Sub(w.wall) - (passed - w.at)
	}
	w.seen, w.wall, w.at = true, wall, passed
	switch {
	case ahead >= stepped:
		w.until = passed + restsFor
	case ahead <= -stepped: // it is set back
		ahead, w.until = 0, 0
	default:
		ahead = 0
	}
	return ahead, passed >= w.until
}
