// Package diskwatch waits until a machine shows all of its disks. The kernel finds them one after the
// other, and some controllers take a minute and more until they show the first.
//
// It may import protocol/agentapi only. Invariants: a wait ends by its bound, whatever the machine
// does; the list that Settled returns is the one that it judged.
package diskwatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ironyard/ironyard/protocol/agentapi"
)

const (
	// Quiet is how long the list must have been the same, by the kernel's word where it gives it.
	Quiet = 5 * time.Second
	// Bound is how long a machine is given to show its disks, from when the agent began; and a controller its first, from when it shows
	// none.
	Bound = 90 * time.Second
	// Least is how long one call waits at least for a disk that is missing: it may be coming back.
	Least = 10 * time.Second
	// every is how often the machine is looked at.
	every = time.Second
)

// Machine is what is watched.
type Machine interface {
	// Look lists the disks there are, and those that nothing can be written to.
	Look() ([]agentapi.Disk, []agentapi.UnfitDisk)
	// Appeared is how long ago the newest of some disks came, if the machine knows.
	Appeared(disks []agentapi.Disk) (ago time.Duration, known bool)
	// Pending names the controllers that have shown no disk and may need long for their first.
	Pending() []string
	// Complete reports whether no disk can be missing, because each controller has shown what it has.
	Complete() bool
}

// ChangingError says that disks came and went until the end of the wait.
type ChangingError struct {
	Changes []string // of the last Quiet
}

func (e *ChangingError) Error() string {
	return fmt.Sprintf("the list of this machine's disks still changes after %v (%s); nothing is written: look at these disks, their cables and their controllers", Bound, strings.Join(e.Changes, ", "))
}

// FaultType names the error in the agent's API as ironic-python-agent does.
func (e *ChangingError) FaultType() string { return "BlockDeviceError" }

// Watch is a machine that is being watched. Safe for concurrent use.
type Watch struct {
	machine Machine
	log     *slog.Logger
	began   time.Time

	mu      sync.Mutex
	seen    []string             // the disks at the last look
	since   time.Time            // of when they have been these
	changes []string             // at the last change
	shown   shown                // the disks of all looks
	pending map[string]time.Time // controllers that show no disk, and since when
}

// New takes the first look.
func New(m Machine, log *slog.Logger) *Watch {
	w := &Watch{machine: m, log: log, began: time.Now()}
	w.look()
	return w
}

// Forget forgets which disks the machine has shown: its volumes were changed on purpose.
func (w *Watch) Forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shown = shown{}
}

// Check says why a caller cannot go on with some disks, nil if it can. unfit are the machine's other disks.
type Check = func(disks []agentapi.Disk, unfit []agentapi.UnfitDisk) error

// look returns the disks there are, the others, and what this look has shown.
func (w *Watch) look() ([]agentapi.Disk, []agentapi.UnfitDisk, state) {
	disks, unfit := w.machine.Look()
	pending := w.machine.Pending()
	names := make([]string, len(disks))
	for i, d := range disks {
		names[i] = fmt.Sprintf("%s (%d bytes, serial %q)", d.Name, d.Size, d.Serial)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.since.IsZero():
		// The list may have been the same for long when the agent begins, or no disk can be missing.
		ago, _ := w.machine.Appeared(disks)
		if w.machine.Complete() {
			ago = max(ago, Quiet)
		}
		w.seen, w.since = names, time.Now().Add(-ago)
	case !slices.Equal(names, w.seen):
		w.changes = slices.Concat(without(w.seen, names, "gone: "), without(names, w.seen, "new: "))
		w.seen, w.since = names, time.Now()
	}
	w.shown.note(disks)
	s := state{quiet: time.Since(w.since), left: w.shown.left(disks, unfit)}
	since := map[string]time.Time{}
	for _, controller := range pending {
		began, still := w.pending[controller]
		if !still {
			began = time.Now()
		}
		since[controller] = began
		if end := began.Add(Bound); time.Now().Before(end) {
			s.pending = append(s.pending, controller)
			if end.After(s.until) {
				s.until = end
			}
		}
	}
	w.pending = since
	return disks, unfit, s
}

// without lists what is in a and not in b.
func without(a, b []string, mark string) (out []string) {
	for _, s := range a {
		if !slices.Contains(b, s) {
			out = append(out, mark+s)
		}
	}
	return out
}

// state is what one look at a machine has shown.
type state struct {
	quiet   time.Duration // for how long the list is the same
	pending []string      // controllers that may still show their first disk
	until   time.Time     // of when the last of them may
	left    error         // why a list without some disks of former looks is not all, nil if it has them
	// complete: the disks of the last inspection are all there; missing is why the caller cannot
	// go on with these disks.
	complete bool
	missing  error
}

// stable is the one place that says when a list of disks may be relied on: it is the same for Quiet, and the caller can go on with it.
// No controller is still to show its first disk, and no disk of a former look has left. Neither of these two is asked where the disks
// of the last inspection are all there.
func (s state) stable() bool {
	return s.missing == nil && s.quiet >= Quiet && (s.complete || len(s.pending) == 0 && s.left == nil)
}

// Settled waits for a stable list and returns it. check judges each list; complete says whether disks that
// it accepts are known to be all. After Bound, or Least if the
// watch is old, it gives up with check's last error, a *ChangingError or a *LeftError. Where a controller shows no disk again, it is given
// its own Bound, but the call ends after two of them.
func (w *Watch) Settled(ctx context.Context, complete bool, check Check) ([]agentapi.Disk, error) {
	last := time.Now().Add(max(Bound-time.Since(w.began), Least))
	end := time.Now().Add(2 * Bound)
	for told := ""; ; {
		disks, unfit, s := w.look()
		s.complete, s.missing = complete, check(disks, unfit)
		if s.stable() {
			return disks, nil
		}
		if s.until.After(last) {
			last = s.until
		}
		if last.After(end) {
			last = end
		}
		if !time.Now().Before(last) {
			return disks, w.tooLate(s, unfit)
		}
		if why := s.why(); why != told {
			told = why
			w.log.Info("waiting for disks", "because", why, "disks", len(disks), "until", last.Format(time.TimeOnly))
		}
		select {
		case <-ctx.Done():
			return disks, errors.Join(s.missing, context.Cause(ctx))
		case <-time.After(s.pause()):
		}
	}
}

// pause is how long to wait for the next look.
func (s state) pause() time.Duration {
	if left := Quiet - s.quiet; left > 0 {
		return min(every, left)
	}
	return every
}

func (s state) why() string {
	switch {
	case s.missing != nil:
		return s.missing.Error()
	case s.quiet < Quiet:
		return "the list has changed a moment ago"
	case s.left != nil && !s.complete:
		return s.left.Error()
	}
	return "these controllers show no disk yet: " + strings.Join(s.pending, ", ")
}

// tooLate is why a wait has ended without a stable list.
func (w *Watch) tooLate(s state, unfit []agentapi.UnfitDisk) error {
	if s.missing != nil {
		if len(unfit) > 0 {
			return fmt.Errorf("%w; not used: %s", s.missing, agentapi.List(unfit))
		}
		return s.missing
	}
	if s.quiet >= Quiet && s.left != nil {
		return s.left
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return &ChangingError{Changes: w.changes}
}
