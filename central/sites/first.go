package sites

import (
	"context"
	"time"
)

// firstSight bounds AwaitFirst. It is more than a silent site takes to be found away.
const firstSight = answerTimeout + time.Second

// firstLook is the pause between two looks.
const firstLook = 5 * time.Millisecond

// AwaitFirst returns when each site is away, or is open and read says that its conductors are known. It waits for firstSight at
// most: requests that come later than that are told what is in the way. Run runs beside it.
func (s *Set) AwaitFirst(ctx context.Context, read func(site string) bool) {
	ctx, cancel := context.WithTimeout(ctx, firstSight)
	defer cancel()
	tick := time.NewTicker(firstLook)
	defer tick.Stop()
	for !s.seen(read) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (s *Set) seen(read func(site string) bool) bool {
	for _, status := range s.Status() {
		if !s.Tried(status.Name) || status.Open && !read(status.Name) {
			return false
		}
	}
	return true
}
