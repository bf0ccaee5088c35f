package bmc

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// far counts what BMCs see of a pool.
type far struct {
	opened, closed, dropped atomic.Int64
	refuse                  atomic.Bool
	stuck                   time.Duration // that a log-out takes
}

type talk struct{ f *far }

func (s *talk) Close(ctx context.Context) {
	select {
	case <-time.After(s.f.stuck):
	case <-ctx.Done():
	}
	s.f.closed.Add(1)
}
func (s *talk) Drop() { s.f.dropped.Add(1) }

func (f *far) login(context.Context) (*talk, error) {
	f.opened.Add(1)
	if f.refuse.Load() {
		return nil, RefusedLogin(errors.New("wrong password"))
	}
	return &talk{f}, nil
}

func nothing(*talk) error { return nil }

func accountOf(address string, sum byte) Account {
	return Account{Address: address, Sum: [32]byte{sum}}
}

func TestCallsToOneAddressTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, p := &far{}, NewPool[*talk](PoolOptions{})
		var busy, most atomic.Int64
		began := time.Now()
		var all sync.WaitGroup
		for _, address := range []string{"a", "a", "a", "b"} {
			all.Go(func() {
				err := p.Use(t.Context(), accountOf(address, 1), f.login, func(*talk) error {
					if address == "a" {
						most.Store(max(most.Load(), busy.Add(1)))
						defer busy.Add(-1)
					}
					time.Sleep(time.Second)
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if took := time.Since(began); most.Load() != 1 || took != 3*time.Second || f.opened.Load() != 2 {
			t.Errorf("%d calls at once, %s, %d sessions; want 1, 3s and 2", most.Load(), took, f.opened.Load())
		}
		if err := p.Close(t.Context()); err != nil || f.closed.Load() != 2 {
			t.Errorf("Close: %v, %d sessions were closed", err, f.closed.Load())
		}
		if err := p.Use(t.Context(), accountOf("a", 1), f.login, nothing); err == nil {
			t.Error("a closed pool serves")
		}
	})
}

func TestWaitForATurnEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, p := &far{}, NewPool[*talk](PoolOptions{})
		go func() { // holds the turn
			_ = p.Use(t.Context(), accountOf("a", 1), f.login, func(*talk) error { time.Sleep(time.Hour); return nil })
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := p.Use(ctx, accountOf("a", 1), f.login, nothing); !errors.Is(err, driver.ErrUnreachable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want ErrUnreachable for want of time", err)
		}
		// Close waits no longer than it is told.
		bounded, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		began := time.Now()
		if err := p.Close(bounded); err == nil || time.Since(began) != time.Minute {
			t.Errorf("Close: %v after %s", err, time.Since(began))
		}
		time.Sleep(time.Hour)
	})
}

func TestSessionEndsBeforeOneOfAnotherAccountBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, p := &far{stuck: time.Hour}, NewPool[*talk](PoolOptions{})
		began := time.Now()
		for _, sum := range []byte{1, 1, 2} {
			if err := p.Use(t.Context(), accountOf("a", sum), f.login, func(*talk) error {
				if f.opened.Load()-f.closed.Load() != 1 {
					t.Errorf("%d sessions were opened, %d closed", f.opened.Load(), f.closed.Load())
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); f.opened.Load() != 2 || took != farewell {
			t.Errorf("%d sessions in %s, want 2 and a log-out of %s", f.opened.Load(), took, farewell)
		}
	})
}

func TestIdleBMCUsedLongestAgoLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, p := &far{}, NewPool[*talk](PoolOptions{MaxBMCs: 2})
		use := func(address string) {
			time.Sleep(time.Second)
			if err := p.Use(t.Context(), accountOf(address, 1), f.login, nothing); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		for _, address := range []string{"a", "b", "a", "c"} {
			use(address)
		}
		if f.closed.Load() != 1 {
			t.Fatalf("%d sessions were closed, want that of b", f.closed.Load())
		}
		use("a")
		if f.opened.Load() != 3 {
			t.Errorf("%d sessions were opened, want 3: a stays", f.opened.Load())
		}
	})
}

func TestForgottenSessionIsOpenedAgainOnce(t *testing.T) {
	f, p := &far{}, NewPool[*talk](PoolOptions{})
	tries, gone := 0, errors.New("no such session")
	forget := func(*talk) error {
		if tries++; tries%2 == 1 {
			return Forgotten(gone)
		}
		return nil
	}
	if err := p.Use(t.Context(), accountOf("a", 1), f.login, forget); err != nil || tries != 2 || f.opened.Load() != 2 || f.dropped.Load() != 1 {
		t.Errorf("%v: %d tries, %d sessions, %d dropped", err, tries, f.opened.Load(), f.dropped.Load())
	}
	tries = 0
	err := p.Use(t.Context(), accountOf("a", 1), f.login, func(*talk) error { tries++; return Forgotten(gone) })
	if !errors.Is(err, gone) || tries != 2 {
		t.Errorf("%v after %d tries, want the BMC's refusal after 2", err, tries)
	}
}

// A node with a wrong password does not end the session that its chassis' other nodes use, but once for each of its logins.
func TestHeldBackLoginLeavesTheSessionOfOthers(t *testing.T) {
	f, p := &far{}, NewPool[*talk](PoolOptions{})
	f.refuse.Store(true)
	if err := p.Use(t.Context(), accountOf("a", 1), f.login, nothing); err == nil {
		t.Fatal("a refused login has no error")
	}
	f.refuse.Store(false)
	for range 3 {
		if err := p.Use(t.Context(), accountOf("a", 2), f.login, nothing); err != nil {
			t.Fatal(err)
		}
		if err := p.Use(t.Context(), accountOf("a", 1), f.login, nothing); err == nil {
			t.Fatal("refused credentials were tried again")
		}
	}
	if f.opened.Load() != 2 || f.closed.Load() != 0 {
		t.Errorf("%d logins, %d log-outs; want 2 and none", f.opened.Load(), f.closed.Load())
	}
}

// However many ask, a BMC answers a burst and then a few requests a second.
func TestABMCIsNotAskedTooOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, p := &far{}, NewPool[*talk](PoolOptions{})
		defer func() { _ = p.Close(t.Context()) }()
		began := time.Now()
		var all sync.WaitGroup
		for range 5 * DefaultPace {
			all.Go(func() {
				if err := p.Use(t.Context(), accountOf("a", 1), f.login, nothing); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("%d calls took %s, want 3s", 5*DefaultPace, took)
		}
		for range 2 * DefaultPace {
			_ = p.Use(t.Context(), accountOf("b", 1), f.login, nothing)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := p.Use(ctx, accountOf("b", 1), f.login, nothing); !errors.Is(err, driver.ErrUnreachable) || !strings.Contains(err.Error(), "may be asked again") {
			t.Errorf("a caller without time for its turn gets %v", err)
		}
	})
}

// Two nodes may name one BMC, and a project may have enrolled one of them without its password. However often that is asked for, the other
// node's calls do not wait.
func TestHeldBackCallsLeaveThePaceToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, p := &far{}, NewPool[*talk](PoolOptions{})
		defer func() { _ = p.Close(t.Context()) }()
		if err := p.Use(t.Context(), accountOf("a", 1), f.login, nothing); err != nil {
			t.Fatal(err)
		}
		f.refuse.Store(true)
		if err := p.Use(t.Context(), accountOf("a", 2), f.login, nothing); err == nil {
			t.Fatal("a refused login has no error")
		}
		f.refuse.Store(false)
		time.Sleep(10 * time.Second) // the burst is there again
		opened := f.opened.Load()
		for range 20 * DefaultPace {
			if err := p.Use(driver.WithTry(t.Context()), accountOf("a", 2), f.login, nothing); err == nil {
				t.Fatal("refused credentials were tried again")
			}
		}
		began := time.Now()
		for range 2 * DefaultPace {
			if err := p.Use(t.Context(), accountOf("a", 1), f.login, nothing); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("the other node's calls have waited %s", took)
		}
		if f.opened.Load() != opened+1 { // the session that the one refused login has ended
			t.Errorf("%d logins", f.opened.Load()-opened)
		}
	})
}

// Nothing is sent to a BMC that was told to restart, and its old session is not used again.
func TestABMCThatRestartsIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, p := &far{}, NewPool[*talk](PoolOptions{MaxBMCs: 1})
		defer func() { _ = p.Close(t.Context()) }()
		a := accountOf("a", 1)
		if err := p.Use(t.Context(), a, f.login, func(*talk) error { p.Rest("a", time.Minute); return nil }); err != nil {
			t.Fatal(err)
		}
		if err := p.Use(t.Context(), accountOf("b", 1), f.login, nothing); err != nil { // for which "a" is not forgotten
			t.Fatal(err)
		}
		err := p.Use(t.Context(), a, f.login, func(*talk) error { t.Error("it was asked while it restarts"); return nil })
		r, resting := errors.AsType[driver.Resting](err)
		if !resting || !errors.Is(err, driver.ErrUnreachable) || time.Until(r.Until()) != time.Minute {
			t.Errorf("while it restarts: %v", err)
		}
		explained := Attempt{Node: &node.Document{UUID: "u"}, Doing: "read the power state", BMC: "a"}.Explain(err)
		if r, resting := errors.AsType[driver.Resting](explained); !resting || r.Until().IsZero() || !strings.Contains(explained.Error(), "told to restart") {
			t.Errorf("explained: %v", explained)
		}
		time.Sleep(time.Minute)
		if err := p.Use(t.Context(), a, f.login, nothing); err != nil || f.opened.Load() != 3 || f.dropped.Load() != 1 {
			t.Errorf("afterwards: %v, %d sessions opened, %d dropped; want 3 and 1", err, f.opened.Load(), f.dropped.Load())
		}
	})
}

// A library that panics at what a BMC sends ends that call. It must not end rackd, and then each rackd that takes the node over.
func TestAPanicEndsTheCallAlone(t *testing.T) {
	f, p := &far{}, NewPool[*talk](PoolOptions{})
	defer func() { _ = p.Close(t.Context()) }()
	a := accountOf("a", 1)
	err := p.Use(t.Context(), a, f.login, func(*talk) error { var none *talk; return errors.New(none.f.stuck.String()) })
	if err == nil || !strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("%v", err)
	}
	if err := p.Use(t.Context(), a, func(context.Context) (*talk, error) { panic("login") }, nothing); err == nil {
		t.Error("a login that panics has no error")
	}
	if err := p.Use(t.Context(), a, f.login, nothing); err != nil || f.dropped.Load() != 1 {
		t.Errorf("afterwards: %v, %d sessions dropped", err, f.dropped.Load())
	}
}

// Chance takes a fifth of a pause away at most, and adds nothing: reads of power sync are not held back longer.
func TestPausesDiffer(t *testing.T) {
	for chance, want := range map[float64]time.Duration{0: 60 * time.Second, 0.5: 54 * time.Second, 1: 48 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			f, p := &far{}, NewPool[*talk](PoolOptions{Chance: func() float64 { return chance }})
			f.refuse.Store(true)
			_ = p.Use(t.Context(), accountOf("a", 1), f.login, nothing)
			for _, after := range []time.Duration{want - time.Second, 2 * time.Second} {
				time.Sleep(after)
				_ = p.Use(t.Context(), accountOf("a", 1), f.login, nothing)
				if after == want-time.Second && f.opened.Load() != 1 {
					t.Errorf("chance %g: another login before %s", chance, want)
				}
			}
			if f.opened.Load() != 2 {
				t.Errorf("chance %g: %d logins after %s, want 2", chance, f.opened.Load(), want)
			}
		})
	}
	var different bool
	first := NewPool[*talk](PoolOptions{}).opts.Chance
	for range 100 {
		different = different || first() != first()
	}
	if !different {
		t.Error("by default all pauses are alike")
	}
}
