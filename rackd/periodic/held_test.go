package periodic

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// withheld is the error of credentials that a driver holds back.
type withheld struct {
	again time.Time
	tried bool
}

func (withheld) Error() string      { return "BMC refuses user admin" }
func (withheld) Unwrap() error      { return driver.ErrDenied }
func (w withheld) Again() time.Time { return w.again }
func (w withheld) Tried() bool      { return w.tried }

// Of credentials that are held back for good the last login is a failure. The looks that follow come at the usual interval, for they send
// nothing. They are told of, and count for nothing.
func TestWhatIsHeldBackIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRack(1)
		task := r.task("power", 2*time.Minute, true)
		r.fails["power n0"] = withheld{tried: true}
		told := 0
		task.Troubled = func(_ context.Context, _ *node.Document, trouble Trouble) {
			if told++; !trouble.Held || trouble.Failures != 1 {
				t.Errorf("told of %+v, want one failure and that the credentials are held back", trouble)
			}
			r.set(func() { r.fails["power n0"] = withheld{} })
		}
		_, stop := r.running(t, task)
		time.Sleep(time.Hour)
		synctest.Wait() // a look that begins now ends
		stop()
		times := r.ran["power n0"]
		if len(times) < 25 || len(times) > 33 || told != len(times) || r.counts["power denied"] != 1 || len(r.counts) != 1 {
			t.Errorf("%d looks in an hour, told %d times, counted %v; want one each two minutes, and the first counted", len(times), told, r.counts)
		}
		if first := times[1].Sub(times[0]); first > 3*time.Minute {
			t.Errorf("the second look came %s after the first", first)
		}
	})
}

// Credentials that a driver tries again by itself are waited for, and that is no trouble.
func TestWhatIsHeldBackForAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRack(1)
		task := r.task("power", time.Hour, true)
		task.Troubled = func(context.Context, *node.Document, Trouble) { t.Error("trouble") }
		do, again := task.Do, time.Time{}
		task.Do = func(ctx context.Context, n *node.Document, hw *driver.Hardware) error {
			_ = do(ctx, n, hw)
			if again.IsZero() {
				again = time.Now().Add(time.Minute)
				return withheld{again: again}
			}
			return nil
		}
		_, stop := r.running(t, task)
		time.Sleep(90 * time.Minute)
		synctest.Wait()
		stop()
		times := r.ran["power n0"]
		if len(times) < 2 || times[1].Before(again) || times[1].Sub(again) > 5*time.Second || r.counts["power denied"] != 0 {
			t.Errorf("turns at %v, want the second at %v; counted %v", times, again, r.counts)
		}
	})
}
