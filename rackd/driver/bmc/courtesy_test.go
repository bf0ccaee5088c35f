package bmc

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// logins calls use each half minute for some time, and returns when each of its logins was.
func (f *far) logins(t *testing.T, last time.Duration, use func() error) (at []time.Duration) {
	t.Helper()
	for began := time.Now(); time.Since(began) < last; time.Sleep(30 * time.Second) {
		before := f.opened.Load()
		if err := use(); err == nil || !strings.Contains(err.Error(), "wrong password") {
			t.Fatalf("%v, want the BMC's refusal", err)
		}
		if f.opened.Load() > before {
			at = append(at, time.Since(began))
		}
	}
	return at
}

// refusing is a pool whose BMC refuses the password, and a call for that account.
func refusing() (f *far, p *Pool[*talk], use func(context.Context) error) {
	f, p = &far{}, NewPool[*talk](PoolOptions{Chance: func() float64 { return 0 }})
	f.refuse.Store(true)
	return f, p, func(ctx context.Context) error { return p.Use(ctx, accountOf("a", 1), f.login, nothing) }
}

// Background work logs in once more after the first pause, and then not in days. Other credentials are tried at once.
func TestBackgroundWorkLogsInTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, p, use := refusing()
		got := f.logins(t, 5*24*time.Hour, func() error { return use(t.Context()) })
		if want := []time.Duration{0, time.Minute}; !slices.Equal(got, want) {
			t.Errorf("logins after %v, want after %v", got, want)
		}
		f.refuse.Store(false)
		if err := use(t.Context()); err == nil {
			t.Error("background work logged in with credentials that were refused twice")
		}
		if err := p.Use(t.Context(), accountOf("a", 2), f.login, nothing); err != nil {
			t.Errorf("other credentials: %v", err)
		}
	})
}

// A request has one login of its own, whatever it does and however long it takes. Requests of one minute have one together.
func TestARequestLogsInOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _, use := refusing()
		f.logins(t, time.Hour, func() error { return use(t.Context()) })
		asked := driver.WithTry(t.Context())
		if got := f.logins(t, 24*time.Hour, func() error { return use(asked) }); !slices.Equal(got, []time.Duration{0}) {
			t.Errorf("logins of a request that lasts a day after %v, want one at once", got)
		}
		all := f.logins(t, 10*time.Minute, func() error { return use(driver.WithTry(t.Context())) })
		if len(all) != 10 {
			t.Errorf("requests each half minute have logged in %d times in ten minutes, want one a minute: %v", len(all), all)
		}
		if got := f.logins(t, 24*time.Hour, func() error { return use(t.Context()) }); len(got) != 0 {
			t.Errorf("background work has logged in %v after a request", got)
		}
	})
}

// A request that is refused first has had its login, and shares the second with all else.
func TestARequestThatIsRefusedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _, use := refusing()
		asked := driver.WithTry(t.Context())
		if got := f.logins(t, 24*time.Hour, func() error { return use(asked) }); !slices.Equal(got, []time.Duration{0, time.Minute}) {
			t.Errorf("logins after %v, want at once and after a minute", got)
		}
	})
}

// The request that is let in ends it for background work, too, which counts from the beginning then.
func TestAnAccountThatWasCorrectedAtTheBMC(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, p, use := refusing()
		f.logins(t, time.Hour, func() error { return use(t.Context()) })
		f.refuse.Store(false)
		if err := use(t.Context()); err == nil {
			t.Error("background work has found out by itself")
		}
		if err := use(driver.WithTry(t.Context())); err != nil {
			t.Errorf("a request: %v", err)
		}
		if err := use(t.Context()); err != nil {
			t.Errorf("background work after a request: %v", err)
		}
		f.refuse.Store(true)
		if err := p.Use(t.Context(), accountOf("a", 2), f.login, nothing); err == nil { // the session of before ends
			t.Error("a refused login has no error")
		}
		if got := f.logins(t, time.Hour, func() error { return use(t.Context()) }); len(got) != 2 {
			t.Errorf("refused once more, background work has logged in after %v, want twice", got)
		}
	})
}

// What operators read says that rackd has given up, what to do, and from when on it helps.
func TestTheLastRefusalSaysWhatToDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := &counted{}
		f, p, _ := refusing()
		p.opts.Shared.Calls = calls
		ctx := t.Context()
		read := func() error {
			err := p.Use(ctx, accountOf("a", 1), func(context.Context) (*talk, error) {
				f.opened.Add(1)
				return nil, RefusedLogin(&Failure{Class: Denied, Said: "401"})
			}, nothing)
			return Attempt{Node: &node.Document{UUID: "b3d1"}, Doing: "read the power state", BMC: "a", User: "admin"}.Explain(err)
		}
		for i, step := range []struct {
			pause        time.Duration
			tried, alone bool
			says         string
		}{
			{0, true, true, ""},
			{time.Second, false, true, "not try these credentials again before 00:01:00 UTC"},
			{time.Minute, true, false, "does not log in again by itself, so that the account is not locked. Correct driver_info. If it is right, correct the account at the BMC, and after 00:02:01 UTC ask for something of the node, as by `baremetal node power on b3d1`"},
			{time.Hour, false, false, "does not log in again by itself, so that the account is not locked. Correct driver_info. If it is right, correct the account at the BMC, and ask for"},
		} {
			time.Sleep(step.pause)
			before := f.opened.Load()
			err := read()
			held, is := errors.AsType[driver.Withheld](err)
			switch {
			case !errors.Is(err, driver.ErrDenied) || !strings.Contains(err.Error(), step.says) || f.opened.Load() > before != step.tried:
				t.Errorf("call %d: %v, want %q", i, err, step.says)
			case i == 0 && is:
				t.Errorf("the first refusal holds back: %v", err)
			case i > 0 && (!is || held.Tried() != step.tried || held.Again().IsZero() == step.alone):
				t.Errorf("call %d is told apart wrongly: %v", i, err)
			}
		}
		if len(calls.all) != 2 {
			t.Errorf("counted %q, want the two logins", calls.all)
		}
	})
}

// A login beside the pool's session rests by itself: the session goes on.
func TestALoginBesideTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, p, _ := refusing()
		f.refuse.Store(false)
		open, logins := errors.New("no"), 0
		beside := func(ctx context.Context) error {
			return p.Beside(ctx, accountOf("a", 2), func() error { logins++; return open })
		}
		open = RefusedLogin(errors.New("wrong password"))
		for range 24 * 60 {
			if err := p.Use(t.Context(), accountOf("a", 1), f.login, nothing); err != nil {
				t.Fatal(err)
			}
			if err := beside(t.Context()); err == nil {
				t.Fatal("a refused login has no error")
			}
			time.Sleep(time.Minute)
		}
		if logins != 2 || f.opened.Load() != 1 {
			t.Errorf("%d logins beside a session that was opened %d times, want 2 and 1", logins, f.opened.Load())
		}
		open = nil
		if err := beside(driver.WithTry(t.Context())); err != nil || beside(t.Context()) != nil {
			t.Errorf("corrected at the BMC, a request is told %v", err)
		}
	})
}

// A refusal that no call asks after is forgotten, and only then.
func TestRefusalsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, p, use := refusing()
		f.logins(t, 48*time.Hour, func() error { return use(t.Context()) })
		other := func(sum byte) { _ = p.Use(t.Context(), accountOf("b", sum), f.login, nothing) }
		if other(7); len(p.courtesy.refusal) != 2 {
			t.Errorf("%d refusals are known, want 2", len(p.courtesy.refusal))
		}
		time.Sleep(25 * time.Hour)
		if other(8); len(p.courtesy.refusal) != 1 {
			t.Errorf("%d refusals are known after a day without a call, want that of now", len(p.courtesy.refusal))
		}
	})
}

// The pause is over before power sync reads again, which waits for its own first pause, less a tenth.
func TestThePauseIsShorterThanThatOfPowerSync(t *testing.T) {
	for _, recovery := range []time.Duration{2 * time.Second, 300 * time.Second, time.Hour} {
		if got := pauseOf(recovery); got <= 0 || got >= recovery*9/10 {
			t.Errorf("recovery %s: the pause is %s", recovery, got)
		}
	}
}

// The login of a request is let in, and what the request then asks for fails for another reason. Another account of the BMC ends that
// session. Background work goes on all the same: the BMC takes the credentials.
func TestALoginThatIsLetInIsEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, p, use := refusing()
		f.logins(t, time.Hour, func() error { return use(t.Context()) })
		f.refuse.Store(false)
		fails := func(*talk) error { return &Failure{Class: Busy, Said: "503"} }
		if err := p.Use(driver.WithTry(t.Context()), accountOf("a", 1), f.login, fails); err == nil || isRefusedLogin(err) {
			t.Fatalf("a request to a BMC that is busy is told %v", err)
		}
		if err := p.Use(t.Context(), accountOf("a", 2), f.login, nothing); err != nil {
			t.Fatal(err)
		}
		if err := use(t.Context()); err != nil {
			t.Errorf("background work, after the BMC has let a request in: %v", err)
		}
	})
}

// Where a BMC is sent the credentials with each request, a login that sends nothing proves none.
func TestALoginThatSendsNothingProvesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, p := &far{}, NewPool[*talk](PoolOptions{Chance: func() float64 { return 0 }})
		sent := 0
		call := func(ctx context.Context, answer error) error {
			return p.Use(ctx, accountOf("a", 1), f.login, func(*talk) error { sent++; return answer })
		}
		refused, busy := RefusedLogin(errors.New("wrong password")), &Failure{Class: Busy, Said: "503"}
		for range 10 {
			_ = call(t.Context(), refused)
			time.Sleep(time.Minute)
		}
		_ = call(driver.WithTry(t.Context()), busy)
		_ = p.Use(t.Context(), accountOf("a", 2), f.login, nothing)
		if err := call(t.Context(), refused); sent != 3 || !isRefusedLogin(err) {
			t.Errorf("the credentials were sent %d times, want two and that of the request: %v", sent, err)
		}
	})
}

// Many logins beside the pool that begin at one moment, as of all consoles of a host, are one refusal to the BMC. Those that it lets in
// follow each other, and one that waits too long gives up.
func TestLoginsBesideThePoolAreRefusedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, p, _ := refusing()
		var logins atomic.Int32
		refuse := true
		login := func() error {
			logins.Add(1)
			time.Sleep(time.Second)
			if refuse {
				return RefusedLogin(&Failure{Class: Denied, Said: "wrong password"})
			}
			return nil
		}
		all := func(ctx context.Context) (failed int32) {
			var n atomic.Int32
			var g sync.WaitGroup
			for range 16 {
				g.Go(func() {
					if p.Beside(ctx, accountOf("a", 1), login) != nil {
						n.Add(1)
					}
				})
			}
			g.Wait()
			return n.Load()
		}
		if failed := all(driver.WithTry(t.Context())); failed != 16 || logins.Load() != 1 {
			t.Errorf("%d of 16 consoles were refused by %d logins, want all by one", failed, logins.Load())
		}
		time.Sleep(time.Minute)
		refuse = false
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second+time.Millisecond)
		defer cancel()
		if failed := all(ctx); failed != 5 || len(p.courtesy.turns) != 0 {
			t.Errorf("%d of 16 logins of a second each gave up after ten seconds, want 5; %d turns are left", failed, len(p.courtesy.turns))
		}
	})
}
