// Package iscsideploy is the deploy interface "iscsi": the agent makes the machine's disk an iSCSI target for this rackd alone, and
// rackd writes the image to it. A partition image goes to where the agent has laid out its root partition. All other steps are those of
// "direct".
//
// It may import rackd/driver, rackd/driver/direct, rackd/iscsi and protocol. Invariants:
//   - Nothing is written outside of a run of the step. Each run is short; the session stays open for the next one, and for
//     abandoned at most.
//   - The fence is asked before each run writes, and again every fenceEvery. A successor's target ends this one's session first.
//   - Nothing is written outside of the range that the agent names for a partition image.
//   - The first MiB is written last, after all else was flushed and read back. Until then the disk does not boot.
//   - What the handle calls done was flushed to the disk before, and is of the image that the handle names. A resumed write compares
//     it too, by reading it back.
//   - What was read of the cache's file has the image's checksum, before the disk may boot.
//   - Places are given in the order in which works have asked first. Who does not ask again holds up none.
//   - Credentials are random, are used for one session, and are kept in memory alone.
package iscsideploy

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/direct"
)

// Settings of the interface; zero values mean the defaults.
type Settings struct {
	// Port of the agents' targets; 0: agentapi.DefaultISCSIPort.
	Port int
	// Stall is how long a target may be silent; 0: iscsi.DefaultStall.
	Stall time.Duration
}

// Interface implements driver.Deploy. Safe for concurrent use.
type Interface struct {
	direct.Interface
}

// New returns the interface; agent has the steps that are the same.
func New(agent direct.Interface, w *Writer) Interface { return Interface{agent.By(w)} }

// NewWriter returns what writes for all hardware types of a rackd.
func NewWriter(s Settings) *Writer {
	if s.Port == 0 {
		s.Port = agentapi.DefaultISCSIPort
	}
	return &Writer{set: s, open: map[string]*transfer{}, begun: map[string]bool{}, queue: queue{works: map[string]*queued{}}}
}

// Properties names the fields that are read.
func (i Interface) Properties() map[string]string { return maps.Clone(i.Interface.Properties()) }

// Writer brings images to disks. Safe for concurrent use.
type Writer struct {
	set Settings

	mu   sync.Mutex
	open map[string]*transfer // by work
	// begun are the works whose transfer is not in open yet.
	begun map[string]bool
	queue queue
}

// Bounds of one rackd.
const (
	// most is how many images are written at once; each takes up to 140 MB of memory, most of it for unpacking.
	most = 8
	// abandoned is how long a session stays open for a step that does not go on.
	abandoned = 30 * time.Second
)

// take returns the transfer of a work, which the caller has for itself until put or close. nil: the caller may begin one, and has a
// place for it until put, yield or release. full: others have to end first, or have waited for longer.
func (w *Writer) take(work string) (t *transfer, full bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	mine := w.queue.ask(work, now)
	t = w.open[work]
	if t != nil && t.end.Stop() {
		return t, false
	}
	placed := func(work string) bool { return w.open[work] != nil || w.begun[work] }
	if free := most - len(w.open) - len(w.begun); !placed(work) && w.queue.before(mine, now, placed) >= free {
		return nil, true
	}
	w.begun[work] = true
	return nil, false
}

// hears reports whether a work that waits is to ask its agent now.
func (w *Writer) hears(work string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	mine := w.queue.works[work]
	if mine == nil || time.Since(mine.heard) < keepEvery {
		return false
	}
	mine.heard = time.Now()
	return true
}

// release gives back the place of a work that has begun no transfer, or ended it, for good.
func (w *Writer) release(work string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.begun, work)
	w.queue.forget(work)
}

// yield gives back the place of a work that comes back, before those that have asked later.
func (w *Writer) yield(work string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.begun, work)
}

// put keeps a transfer for the step's next run.
func (w *Writer) put(work string, t *transfer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.begun, work)
	w.open[work] = t
	t.end = time.AfterFunc(abandoned, func() { w.close(work, t) })
}

// close ends a transfer, and its session.
func (w *Writer) close(work string, t *transfer) {
	w.mu.Lock()
	if w.open[work] == t {
		delete(w.open, work)
	}
	w.mu.Unlock()
	t.close()
}

var _ direct.Writer = (*Writer)(nil)

// CanWrite implements direct.Writer. What the cache gives can be written.
func (*Writer) CanWrite(driver.DiskImage, bool) error { return nil }

// Seeks implements direct.Writer: a qcow2 file is read by its table.
func (*Writer) Seeks() bool { return true }

// WriteImage implements direct.Writer.
func (w *Writer) WriteImage(ctx context.Context, t *driver.Task, order direct.Order) (agentapi.PrepareImageResult, driver.Outcome, error) {
	return (&run{w: w, t: t, order: order}).do(ctx)
}
