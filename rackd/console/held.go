package console

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// openWithin bounds an attempt to open a console, closeWithin the giving back of one.
const (
	openWithin  = time.Minute
	closeWithin = 5 * time.Second
	// settled is how long a console has to stay open for the next pause to be the shortest again.
	settled = time.Minute
	// newsRest is the pause after news of the node. It doubles with each such pause, up to newsRestAtMost: a flow makes news all the time.
	newsRest       = 2 * time.Second
	newsRestAtMost = 30 * time.Second
)

// held is the console of a node while this rackd holds it.
type held struct {
	k      *Keeper
	id     string
	sum    string // of what it was opened with; the keeper's loop alone uses it
	record *record
	cancel context.CancelFunc
	again  chan struct{} // one place: open it again, now
	news   chan struct{} // one place: something has happened to the node

	mu   sync.Mutex
	line driver.Line // nil while it is not open
	// typing has one place: who is in it writes.
	typing chan struct{}
}

// sumOf changes with what a console is opened with. It is made of sealed secrets.
func sumOf(n *node.Document) string {
	raw, err := json.Marshal([]any{n.Driver, n.Interface("console"), n.DriverInfo})
	if err != nil {
		return err.Error()
	}
	sum := sha256.Sum256(raw)
	return string(sum[:])
}

func (r *record) isOpen() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state == ask.ConsoleOpen
}

// reopen ends the line, so that it is opened again at once.
func (h *held) reopen() {
	select {
	case h.again <- struct{}{}:
	default:
	}
	h.mu.Lock()
	line := h.line
	h.mu.Unlock()
	if line != nil {
		ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
		go func() { // the keeper's loop does not wait for a BMC
			defer cancel()
			line.Close(ctx)
		}()
	}
}

// fence guards the writes of consoles, which go on beside work.
type fence struct {
	k  *Keeper
	id string
}

// Check implements driver.Fence.
func (f fence) Check() error {
	if err := f.k.cfg.Members.Confirm(); err != nil {
		return fmt.Errorf("node %s: %w: %w", f.id, driver.ErrFenced, err)
	}
	if !f.k.cfg.Nodes.Owns(f.id) {
		return fmt.Errorf("node %s: %w", f.id, driver.ErrFenced)
	}
	return nil
}

// Work implements driver.Fence.
func (fence) Work() string { return "" }

// Epoch implements driver.Fence.
func (fence) Epoch() uint64 { return 0 }

// run opens the console, and again whenever it has ended, until ctx ends. News of the node shorten a pause: a machine that is off has
// no console on some hosts, and the work that switches it on is news.
func (h *held) run(ctx context.Context) {
	h.load(ctx)
	pause, rest := h.k.cfg.Again, newsRest
	for ctx.Err() == nil {
		began := time.Now()
		err := h.once(ctx)
		if ctx.Err() != nil {
			return
		}
		h.record.say("it is not open: " + err.Error())
		if time.Since(began) > settled {
			pause, rest = h.k.cfg.Again, newsRest
		}
		h.k.cfg.Log.Info("a console is not open, trying again", "node", h.id, "in", pause, "error", err)
		wait := pause - pause/10 + rand.N(pause/5+1)
		pause = min(2*pause, h.k.cfg.AgainAtMost)
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-t.C:
		case <-h.again:
			pause = h.k.cfg.Again
		case <-h.news:
			left := wait - time.Since(began)
			if left > rest {
				left, rest = rest, min(2*rest, newsRestAtMost)
			}
			t.Reset(max(left, 0))
			select {
			case <-ctx.Done():
			case <-t.C:
			case <-h.again:
				pause = h.k.cfg.Again
			}
		}
		t.Stop()
	}
}

// hear tells that something has happened to the node. An attempt that waits begins soon.
func (h *held) hear() {
	select {
	case h.news <- struct{}{}:
	default:
	}
}

// errClosed: the line has ended without a reason.
var errClosed = errors.New("the BMC has closed it")

// errChanged: the line was opened with fields that are no longer the node's.
var errChanged = errors.New("the node's fields have changed while it was opened")

// once opens the console and reads it until it ends.
func (h *held) once(ctx context.Context) error {
	select {
	case <-h.again: // for what is read now
	default:
	}
	select {
	case <-h.news: // before this attempt
	default:
	}
	n, hw, err := h.k.cfg.Nodes.Owned(h.id)
	if err != nil {
		return err
	}
	if n == nil {
		return fmt.Errorf("another rackd owns the node: %w", driver.ErrFenced)
	}
	serial, can := hw.Console().(driver.Serial)
	if !can {
		return driver.Unsupported(n, "console", "console")
	}
	opening, cancel := context.WithTimeout(ctx, openWithin)
	line, err := serial.OpenConsole(opening, fence{h.k, h.id}, n)
	cancel()
	if held, is := errors.AsType[driver.Withheld](err); !is || held.Tried() {
		h.k.cfg.Metrics.ConsoleOpened(resultOf(err))
	}
	if err != nil {
		return err
	}
	closeLine := func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWithin)
		defer cancel()
		line.Close(closing)
	}
	h.mu.Lock()
	h.line = line // from here on reopen closes it
	h.mu.Unlock()
	if len(h.again) > 0 { // what it was opened with has changed meanwhile: it may be another machine's
		h.mu.Lock()
		h.line = nil
		h.mu.Unlock()
		closeLine()
		return errChanged
	}
	h.loadAgain(ctx)
	h.record.say(ask.ConsoleOpen)
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { // Read does not know of ctx
		defer close(closed)
		closeLine()
	})
	err = h.pump(ctx, line)
	h.mu.Lock()
	h.line = nil
	h.mu.Unlock()
	if !stop() {
		<-closed
		return err
	}
	closeLine()
	return err
}

// pump reads the line until it ends, no faster than bytesPerSecond.
func (h *held) pump(ctx context.Context, line driver.Line) error {
	pace := rate.NewLimiter(bytesPerSecond, bytesPerSecond)
	buf := make([]byte, 4<<10)
	for {
		n, err := line.Read(buf)
		if n > 0 {
			h.record.add(buf[:n])
			h.k.cfg.Metrics.ConsoleBytes(n, 0)
		}
		if errors.Is(err, io.EOF) {
			return errClosed
		}
		if err != nil {
			return err
		}
		if err := pace.WaitN(ctx, n); err != nil {
			return err
		}
	}
}

// write types.
func (h *held) write(ctx context.Context, q ask.ConsoleInput) error {
	select { // what is typed in one piece stays in one piece
	case h.typing <- struct{}{}:
		defer func() { <-h.typing }()
	case <-ctx.Done():
	}
	if err := ctx.Err(); err != nil { // its asker may type it again
		return fmt.Errorf("node %s: nothing was typed into its console, as others typed: %w: %w", h.id, err, driver.ErrUnreachable)
	}
	h.record.mu.Lock()
	tenancy, state := h.record.tenancy, h.record.state
	h.record.mu.Unlock()
	if tenancy != q.Tenancy {
		return fmt.Errorf("node %s: %w: %w", h.id, ErrChangedHands, driver.ErrFenced)
	}
	h.mu.Lock()
	line := h.line
	h.mu.Unlock()
	if line == nil {
		return fmt.Errorf("node %s: nothing was typed into its console: %s: %w", h.id, state, driver.ErrUnreachable)
	}
	if q.Break {
		if err := line.Break(ctx); err != nil {
			return fmt.Errorf("node %s: send a break to its console: %w", h.id, err)
		}
	}
	if len(q.Data) == 0 {
		return nil
	}
	if err := line.Write(ctx, q.Data); err != nil {
		return fmt.Errorf("node %s: type into its console: %w", h.id, err)
	}
	h.k.cfg.Metrics.ConsoleBytes(0, len(q.Data))
	return nil
}

// resultOf sorts errors for the metrics.
func resultOf(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, driver.ErrDenied):
		return "denied"
	case errors.Is(err, driver.ErrUnreachable), errors.Is(err, context.DeadlineExceeded):
		return "unreachable"
	}
	return "failed"
}
