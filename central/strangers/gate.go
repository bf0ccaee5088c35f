package strangers

import (
	"context"
	"log/slog"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Kind is a part of the budget.
type Kind string

// The parts.
const (
	Slots Kind = "slots"
	Bytes Kind = "bytes"
	Lines Kind = "lines"
)

// Gate holds what strangers have taken of their budget.
type Gate struct {
	Budget
	slots, bytes *share
	processors   chan struct{} // one in it for each in use
	log, audit   *lines
	refused      func(Kind)
}

// New makes a Gate. refused, if not nil, is told of each request beyond a part of the budget, and of each line that
// was not written.
func New(b Budget, refused func(Kind)) *Gate {
	if refused == nil {
		refused = func(Kind) {}
	}
	b = b.WithDefaults()
	return &Gate{Budget: b, slots: newShare(int64(b.Slots), int64(b.SlotsPerAddress)), bytes: newShare(b.Bytes, b.BytesPerAddress), processors: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)),
		log: newLines(b.Lines), audit: newLines(b.Lines), refused: refused}
}

// Enter takes a slot for a request of an address; false: there is none. Otherwise leave is called once or more often.
func (g *Gate) Enter(from netip.Addr) (leave func(), ok bool) {
	by := of(from)
	if !g.slots.take(by, 1) {
		g.refused(Slots)
		return nil, false
	}
	return sync.OnceFunc(func() { g.slots.give(by, 1) }), true
}

// Open reports whether Enter would let a request of an address in now.
func (g *Gate) Open(from netip.Addr) bool {
	if g.slots.has(of(from), 1) {
		return true
	}
	g.refused(Slots)
	return false
}

// Work waits for one of the processors, half of those that there are, that may look through large bodies; false: there
// was none before ctx ended. Otherwise done follows.
func (g *Gate) Work(ctx context.Context) (done func(), ok bool) {
	select {
	case g.processors <- struct{}{}:
		return func() { <-g.processors }, true
	case <-ctx.Done():
		return nil, false
	}
}

// Room is a part of the bytes that a request holds. One goroutine uses it at a time.
type Room struct {
	gate *Gate
	by   netip.Prefix
	held int64
}

// Room begins a request's part of the bytes, with none.
func (g *Gate) Room(from netip.Addr) *Room { return &Room{gate: g, by: of(from)} }

// Take makes the part n bytes larger, and waits for them until ctx ends; false: they were not there.
func (r *Room) Take(ctx context.Context, n int64) bool {
	if !r.gate.bytes.await(ctx, r.by, n) {
		r.gate.refused(Bytes)
		return false
	}
	r.held += n
	return true
}

// TakeNow is Take without waiting.
func (r *Room) TakeNow(n int64) bool {
	if !r.gate.bytes.take(r.by, n) {
		r.gate.refused(Bytes)
		return false
	}
	r.held += n
	return true
}

// Give gives n bytes of it back.
func (r *Room) Give(n int64) {
	r.gate.bytes.give(r.by, n)
	r.held -= n
}

// Free gives all of it back.
func (r *Room) Free() {
	if r.held > 0 {
		r.gate.bytes.give(r.by, r.held)
		r.held = 0
	}
}

// Taken is how much of a part is taken at this moment; of the lines it is none.
func (g *Gate) Taken(k Kind) int64 {
	switch k {
	case Slots:
		return g.slots.now()
	case Bytes:
		return g.bytes.now()
	}
	return 0
}

// MayLog reports whether the refusal of a stranger may be a line of the log; otherwise it is counted.
func (g *Gate) MayLog(from netip.Addr) bool { return g.may(g.log, from) }

// MayRecord reports whether the refusal of a stranger may be a line of the audit; otherwise it is counted.
func (g *Gate) MayRecord(from netip.Addr) bool { return g.may(g.audit, from) }

func (g *Gate) may(l *lines, from netip.Addr) bool {
	if l.may(of(from), time.Now()) {
		return true
	}
	g.refused(Lines)
	return false
}

// Run tells, once a minute, how many refusals have left no line, until ctx ends.
func (g *Gate) Run(ctx context.Context, log *slog.Logger) error {
	tick := time.NewTicker(lineEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			g.tell(log)
		case <-ctx.Done():
			g.tell(log)
			return nil
		}
	}
}

func (g *Gate) tell(log *slog.Logger) {
	if n := g.log.unwritten.Swap(0); n > 0 {
		log.Warn("refusals of callers who are not known are not in the log one by one: an address is told of once a minute", "refusals", n)
	}
	if n := g.audit.unwritten.Swap(0); n > 0 {
		log.Warn("refusals of callers who are not known are not in the audit one by one: an address has a line a minute", "refusals", n)
	}
}

// lineEvery is how often an address may write a line.
const lineEvery = time.Minute

// lines lets one line through for each address and minute, and max in all.
type lines struct {
	max       int
	unwritten atomic.Int64

	mu   sync.Mutex
	ends time.Time // of the minute
	by   map[netip.Prefix]bool
}

func newLines(max int) *lines { return &lines{max: max, by: map[netip.Prefix]bool{}} }

func (l *lines) may(by netip.Prefix, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !now.Before(l.ends) {
		clear(l.by)
		l.ends = now.Add(lineEvery)
	}
	if l.by[by] || len(l.by) >= l.max {
		l.unwritten.Add(1)
		return false
	}
	l.by[by] = true
	return true
}
