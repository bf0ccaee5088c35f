package sites

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// rack is a site as listen sees it.
type rack struct {
	link  *link
	asked int
	reply func(context.Context) error
}

func newRack() *rack {
	r := &rack{link: newLink(nil)}
	r.link.hear()
	return r
}

func (r *rack) listen(ctx context.Context) error {
	return listen(ctx, r.link.lastHeard, func(ctx context.Context) error { r.asked++; return r.reply(ctx) }, r.link.hear)
}

func TestSiteThatIsHeardIsNotAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		r := newRack()
		var beating sync.WaitGroup
		beating.Go(func() {
			for ctx.Err() == nil {
				r.link.hear()
				time.Sleep(3 * time.Second)
			}
		})
		defer beating.Wait()
		if err := r.listen(ctx); err != nil || r.asked != 0 {
			t.Errorf("asked %d times, error %v", r.asked, err)
		}
	})
}

func TestSilentSiteIsAwayWithinTenSeconds(t *testing.T) {
	refused := errors.New("no responders")
	for name, reply := range map[string]func(context.Context) error{
		"the hub knows": func(context.Context) error { return refused },
		"nobody knows":  func(ctx context.Context) error { <-ctx.Done(); return refused },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, began := newRack(), time.Now()
				r.reply = reply
				if err := r.listen(t.Context()); !errors.Is(err, refused) {
					t.Errorf("error %v", err)
				}
				if d := time.Since(began); d > 8*time.Second {
					t.Errorf("away after %s", d)
				}
			})
		})
	}
}

// A site without rackds answers for itself, and one lost answer is not the end.
func TestSiteThatAnswersIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		r := newRack()
		r.reply = func(context.Context) error {
			if r.asked%2 == 0 {
				return nil
			}
			return errors.New("lost")
		}
		if err := r.listen(ctx); err != nil {
			t.Errorf("away: %v", err)
		}
		if r.asked == 0 || r.asked > 40 {
			t.Errorf("asked %d times in a minute", r.asked)
		}
	})
}

func TestAwaySinceItWasLastHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink(nil)
		if open, _, err := l.state(); open || err == nil {
			t.Error("open before it was found")
		}
		l.hear()
		l.found()
		heard := time.Now()
		time.Sleep(7 * time.Second)
		l.lose(errors.New("first"))
		time.Sleep(time.Minute)
		l.lose(errors.New("still")) // another attempt to open it
		if open, since, err := l.state(); open || !since.Equal(heard) || err.Error() != "still" {
			t.Errorf("open %v, since %s (heard %s), %v", open, since, heard, err)
		}
	})
}

// Callers are not told where a site's bus is; whoever looks at the error itself is.
func TestAwayErrorNamesNoAddress(t *testing.T) {
	cause := errors.New("no connection to the bus at nats://10.1.2.3:4222")
	err := error(&AwayError{Site: "par1", Since: time.Unix(0, 0), Cause: cause})
	if text := err.Error(); strings.Contains(text, "10.1.2.3") || !strings.HasPrefix(text, `Site "par1" has been unreachable since 1970-01-01T00:00:00Z. `) || !errors.Is(err, cause) {
		t.Errorf("callers are told %q", text)
	}
	if text := (&AwayError{Why: "its conductors are still being read", NotYet: true}).Error(); !strings.Contains(text, "has not been reached since central started at") || !strings.Contains(text, "Z: its conductors are still being read. ") {
		t.Errorf("callers are told %q", text)
	}
}
