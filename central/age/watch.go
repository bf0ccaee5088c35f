package age

import "time"

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
