package commandapi

import (
	"log/slog"
	"net"
	"sync"
	"time"
)

// refusalEvery bounds the lines in the log about wrong tokens: all who reach the port can send
// them as fast as they like, and the log goes over a serial line.
const refusalEvery = time.Minute

// refusals tells of requests with a wrong token. The first is told at once, the others as a
// number. Safe for concurrent use; its zero value is ready.
type refusals struct {
	mu   sync.Mutex
	told time.Time // when it was told last
	more int       // since then
}

// tell notes a request. Of what its sender chose nothing is in the log.
func (r *refusals) tell(log *slog.Logger, pattern, remote string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.told.IsZero() && time.Since(r.told) < refusalEvery {
		r.more++
		return
	}
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		host = remote
	}
	log.Warn("request with a wrong agent token refused", "route", pattern, "from", host, "more_since_the_last_line", r.more)
	r.told, r.more = time.Now(), 0
}
