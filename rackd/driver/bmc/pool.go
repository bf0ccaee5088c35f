package bmc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// farewell bounds a log-out: a BMC that is gone must not hold up its successor.
const farewell = 10 * time.Second

// DefaultPace is how many calls a second one BMC gets, from all nodes together: most have a slow processor of their own.
const DefaultPace = 10

// Account is a BMC together with what a session on it depends on.
type Account struct {
	// Address is the BMC's. Calls to one address take turns, whichever nodes they are for.
	Address string
	// Sum changes with the address, the credentials and whatever else a session depends on. It tells none of them.
	Sum [32]byte
	// Node is the one that the call is for, nil for none.
	Node *node.Document
	// PinnedBy is the field of driver_info that has the BMC's key pinned; empty: none has. Nodes that pin another key share no session.
	PinnedBy string
}

// Of returns the account for a call for n.
func (a Account) Of(n *node.Document) Account { a.Node = n; return a }

// Session is an open conversation with a BMC. The pool calls one method at a time.
type Session interface {
	// Close logs out, as far as ctx allows, and lets go of what the session holds here.
	Close(ctx context.Context)
	// Drop lets go of it without a word to the BMC, which knows the session no longer.
	Drop()
}

// PoolOptions are what a pool is told; zero values mean the defaults.
type PoolOptions struct {
	// Driver is the name of the driver, for errors.
	Driver string
	// MaxBMCs bounds the BMCs with an open session; default 1000.
	MaxBMCs int
	// Recovery is power sync's first pause after refused credentials; default 300 s. The pause of the pool is a fifth of it.
	Recovery time.Duration
	// Chance returns numbers from 0 up to 1, by which pauses differ; default rand.Float64.
	Chance func() float64
	// Pace is how many calls a second one BMC gets at most, after twice as many at once; default DefaultPace.
	Pace int
	// Result names what became of a call from an error that this package does not know; nil: none is another's.
	Result func(error) Class
	Shared Shared
	Log    *slog.Logger
}

// Shared is what all drivers of a rackd share; zero values mean that a driver has its own, or none.
type Shared struct {
	Pins *Pins
	// Guesses counts logins that BMCs have refused.
	Guesses *Guesses
	// Calls counts the calls to BMCs.
	Calls Calls
}

// Filled returns it with its defaults.
func (s Shared) Filled() Shared {
	if s.Pins == nil {
		s.Pins = NewPins()
	}
	if s.Guesses == nil {
		s.Guesses = NewGuesses()
	}
	return s
}

// Pool holds the sessions on the BMCs that a driver talked to lately.
type Pool[S Session] struct {
	opts     PoolOptions
	courtesy courtesy
	ctx      context.Context // ends when Close gives up waiting
	cancel   context.CancelFunc
	leaving  sync.WaitGroup // log-outs under way

	mu     sync.Mutex
	closed bool
	places map[string]*place[S] // by address
}

// place is one BMC. The call that has taken its turn owns sum, session and open.
type place[S Session] struct {
	turn    chan struct{} // capacity 1: full while a call is under way
	sum     [32]byte      // of the account that session was opened with
	pinned  string        // the key that the BMC has shown then, if it is pinned
	session S
	open    bool

	pace *rate.Limiter
	// Owned by the pool.
	used  time.Time
	users int
	// rest is until when the BMC is left alone; woken: it has rested since its session was opened.
	rest  time.Time
	woken bool
}

// NewPool returns a pool without any session.
func NewPool[S Session](o PoolOptions) *Pool[S] {
	if o.MaxBMCs <= 0 {
		o.MaxBMCs = 1000
	}
	if o.Recovery <= 0 {
		o.Recovery = 300 * time.Second
	}
	if o.Chance == nil {
		o.Chance = rand.Float64
	}
	if o.Pace <= 0 {
		o.Pace = DefaultPace
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Shared.Guesses == nil {
		o.Shared.Guesses = NewGuesses()
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &Pool[S]{opts: o, courtesy: courtesy{recovery: o.Recovery, chance: o.Chance}, ctx: ctx, cancel: cancel, places: map[string]*place[S]{}}
}

// Use runs do with the BMC's session once it is the caller's turn. It opens one by login where there is none,
// or one of another account.
//
// login and do mark what they return: by RefusedLogin if the BMC refused the credentials, by Forgotten if it no
// longer knows the session. The pool then logs in and runs do once more. Its first request was refused, so it had no
// effect; a do that writes must read first.
func (p *Pool[S]) Use(ctx context.Context, a Account, login func(context.Context) (S, error), do func(S) error) error {
	err := p.use(ctx, a, login, do)
	p.count(a, err)
	return err
}

func (p *Pool[S]) use(ctx context.Context, a Account, login func(context.Context) (S, error), do func(S) error) error {
	b, err := p.acquire(a.Address)
	if err != nil {
		return err
	}
	defer p.release(b)
	if err := b.take(ctx); err != nil {
		return err
	}
	defer b.give()
	if err := p.rested(b); err != nil {
		return err
	}
	if !p.entered(b, a) { // a call that is held back asks the BMC nothing, and costs the nodes of other accounts nothing
		if err := p.mayLogIn(ctx, a); err != nil {
			return err
		}
	}
	if err := b.pace.Wait(ctx); err != nil {
		return fmt.Errorf("waiting until this BMC may be asked again, %d times a second at most (%w): %w", p.opts.Pace, err, driver.ErrUnreachable)
	}
	if err := p.enter(ctx, b, a, login); err != nil {
		return err
	}
	err = p.sheltered(b, a, do)
	if isForgotten(err) {
		p.opts.Log.Info("the BMC has forgotten the session; logging in again", "bmc", a.Address)
		b.drop()
		if err := p.enter(ctx, b, a, login); err != nil {
			return err
		}
		err = p.sheltered(b, a, do)
	}
	switch {
	case err == nil:
		p.courtesy.accepted(a.Sum)
	case isRefusedLogin(err):
		b.drop()
		return p.refused(ctx, a, err, true)
	case b.open:
		p.courtesy.letIn(a.Sum)
	}
	return err
}

// Beside runs do, which logs in by a connection of its own: it takes no turn. Credentials that it marks as refused rest as those of Use
// do. a.Sum is another one than that of Use, whose session may go on with credentials that a login would not get in with. Logins of one
// account wait for each other: the first of many that is refused is the only one.
func (p *Pool[S]) Beside(ctx context.Context, a Account, do func() error) error {
	give, err := p.courtesy.take(ctx, a.Sum)
	if err != nil {
		return err
	}
	defer give()
	if err := p.mayLogIn(ctx, a); err != nil {
		return err
	}
	err = do()
	switch {
	case err == nil:
		p.courtesy.accepted(a.Sum)
	case isRefusedLogin(err):
		return p.refused(ctx, a, err, false)
	}
	return err
}

// mayLogIn returns an error where no login may be made now with an account.
func (p *Pool[S]) mayLogIn(ctx context.Context, a Account) error {
	if err := p.courtesy.check(a.Sum, driver.TryOf(ctx)); err != nil {
		return err
	}
	return p.opts.Shared.Guesses.check(a, pauseOf(p.opts.Recovery))
}

// refused takes note of a login that was refused.
func (p *Pool[S]) refused(ctx context.Context, a Account, why error, later bool) error {
	if p.opts.Shared.Guesses.refused(a, pauseOf(p.opts.Recovery)) {
		node, tenancy := "", ""
		if a.Node != nil {
			node, tenancy = a.Node.UUID, a.Node.Tenancy
		}
		p.opts.Log.Warn("logins were refused in a row, perhaps of accounts that a person guesses; further ones are made one in each pause", "driver", p.opts.Driver,
			"bmc", a.Address, "node", node, "tenancy", tenancy, "refused", guessesAtOnce, "pause", pauseOf(p.opts.Recovery))
	}
	return p.courtesy.refused(a.Sum, driver.TryOf(ctx), why, later)
}

// entered reports whether a session of the account is open. The caller has the BMC's turn.
func (p *Pool[S]) entered(b *place[S], a Account) bool {
	return b.open && b.sum == a.Sum && (a.PinnedBy == "" || p.pinned(a) != "" && p.pinned(a) == b.pinned)
}

// enter opens a session, unless one of the account is open. Refused credentials cost the session of another account nothing.
func (p *Pool[S]) enter(ctx context.Context, b *place[S], a Account, login func(context.Context) (S, error)) error {
	if p.entered(b, a) {
		return nil
	}
	if err := p.mayLogIn(ctx, a); err != nil {
		return err
	}
	b.logout(ctx)
	var s S
	err := p.shelter(a, func() (err error) { s, err = login(ctx); return err })
	if err != nil {
		if isRefusedLogin(err) {
			return p.refused(ctx, a, err, false)
		}
		return err
	}
	b.session, b.sum, b.open, b.pinned = s, a.Sum, true, p.pinned(a)
	return nil
}

// pinned is the key that is pinned for an account's node.
func (p *Pool[S]) pinned(a Account) string {
	if a.PinnedBy == "" || p.opts.Shared.Pins == nil {
		return ""
	}
	return p.opts.Shared.Pins.Of(a.Node, a.PinnedBy, a.Address)
}

// sheltered runs do with the place's session. A panic may have come after a write had left, so its outcome counts as unknown, and the
// session as lost.
func (p *Pool[S]) sheltered(b *place[S], a Account, do func(S) error) error {
	err := p.shelter(a, func() error { return do(b.session) })
	if fault, is := errors.AsType[*fault](err); is {
		b.drop()
		return fmt.Errorf("%w: %w", fault, driver.ErrUnknown)
	}
	return err
}

// fault is a panic in a driver, or in a library that it uses.
type fault struct{ cause string }

func (f *fault) Error() string {
	return "what it sent cannot be read, which is a fault of this driver that rackd's log tells of (" + f.cause + ")"
}

// shelter turns a panic into a *fault. What a BMC sends is input of libraries: without this one BMC would end rackd, and then each
// rackd that takes its node over.
func (p *Pool[S]) shelter(a Account, do func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			p.opts.Log.Error("a panic ended a call to a BMC; please report it", "driver", p.opts.Driver, "bmc", a.Address, "panic", fmt.Sprint(cause), "stack", string(debug.Stack()))
			err = &fault{fmt.Sprint(cause)}
		}
	}()
	return do()
}

// take waits for the BMC's turn.
func (b *place[S]) take(ctx context.Context) error {
	select {
	case b.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for other calls to this BMC (%w): %w", context.Cause(ctx), driver.ErrUnreachable)
	}
}

func (b *place[S]) give() { <-b.turn }

// logout ends the session, as far as ctx allows and no longer than farewell.
func (b *place[S]) logout(ctx context.Context) {
	if !b.open {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, farewell)
	defer cancel()
	b.session.Close(ctx)
	b.forget()
}

// drop forgets the session without a word to the BMC.
func (b *place[S]) drop() {
	b.session.Drop()
	b.forget()
}

func (b *place[S]) forget() {
	var none S
	b.session, b.open = none, false
}

func (p *Pool[S]) acquire(address string) (*place[S], error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, fmt.Errorf("the %s driver is closed", p.opts.Driver)
	}
	b := p.places[address]
	if b == nil {
		if len(p.places) >= p.opts.MaxBMCs {
			p.evict()
		}
		b = &place[S]{turn: make(chan struct{}, 1), pace: rate.NewLimiter(rate.Limit(p.opts.Pace), 2*p.opts.Pace)}
		p.places[address] = b
	}
	b.users++
	b.used = time.Now()
	return b, nil
}

func (p *Pool[S]) release(b *place[S]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b.users--
	b.used = time.Now()
}

// evict makes room: the idle BMC that was used longest ago leaves. When all are
// busy the pool grows past its bound until they are not.
func (p *Pool[S]) evict() {
	var oldest *place[S]
	var at string
	for address, b := range p.places {
		if b.users == 0 && !time.Now().Before(b.rest) && (oldest == nil || b.used.Before(oldest.used)) {
			oldest, at = b, address
		}
	}
	if oldest == nil {
		return
	}
	delete(p.places, at)
	p.leave(oldest)
}

// leave logs out in the background; Close waits for it.
func (p *Pool[S]) leave(b *place[S]) {
	p.leaving.Go(func() {
		if b.take(p.ctx) == nil {
			b.logout(p.ctx)
			b.give()
		}
	})
}

// Close logs out of every BMC. Those that take longer than ctx are left to their
// own session timeout. No call may follow.
func (p *Pool[S]) Close(ctx context.Context) error {
	p.mu.Lock()
	p.closed = true
	for _, b := range p.places {
		p.leave(b)
	}
	p.places = map[string]*place[S]{}
	p.mu.Unlock()
	stop := context.AfterFunc(ctx, p.cancel)
	defer stop()
	p.leaving.Wait()
	p.cancel()
	if err := ctx.Err(); err != nil {
		return errors.Join(fmt.Errorf("%s: some sessions could not be closed in time; the BMCs end them by themselves", p.opts.Driver), err)
	}
	return nil
}
