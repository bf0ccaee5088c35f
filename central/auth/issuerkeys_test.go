package auth

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/central/auth/issuertest"
)

// good and bad hold what a token comes to.
func good(t *testing.T, o *OIDC, what, token string) {
	t.Helper()
	if _, err := o.Authenticate(bearer(token)); err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

func bad(t *testing.T, o *OIDC, want int, what, token string) {
	t.Helper()
	if _, err := o.Authenticate(bearer(token)); status(err) != want {
		t.Errorf("%s: %v, want status %d", what, err, want)
	}
}

func TestOIDCFollowsTheIssuersKeys(t *testing.T) {
	i := issuertest.New(t)
	o := by(t, i, Claims{})
	i.Away.Store(true)
	bad(t, o, 503, "with the issuer away", i.Token(nil))
	i.Away.Store(false)
	i.Status.Store(502)
	bad(t, o, 503, "with the issuer ill", i.Token(nil))
	i.Status.Store(0)
	good(t, o, "with the issuer back", i.Token(nil))
	stranger := i.TokenBy(i.Key(), nil)
	bad(t, o, 401, "a key that nobody has published", stranger)
	i.Rotate()
	good(t, o, "with another key", i.Token(nil))
	next := i.Key()
	i.Publish(next)
	good(t, o, "with the next, at once", i.TokenBy(next, nil))
	i.Away.Store(true)
	good(t, o, "a key that is known needs the issuer", i.Token(nil))
	bad(t, o, 503, "a key that cannot be fetched", stranger)
	i.Away.Store(false)
	i.Status.Store(500)
	bad(t, o, 503, "a key that cannot be fetched, with the issuer ill", stranger)
	good(t, o, "a key that is known, with the issuer ill", i.Token(nil))
}

// within reaches an issuer without a network, and so in a bubble of synctest, whose clock
// makes hours pass at once.
type within struct {
	*issuertest.Issuer
	takes time.Duration // from question to answer
	tries atomic.Int32
}

func (w *within) RoundTrip(r *http.Request) (*http.Response, error) {
	w.tries.Add(1)
	if w.Away.Load() {
		time.Sleep(w.takes)
		return nil, errors.New("connection refused")
	}
	answer := httptest.NewRecorder()
	w.ServeHTTP(answer, r)
	time.Sleep(w.takes)
	return answer.Result(), nil
}

// inBubble runs f in a bubble, with an issuer and a strategy that asks it.
func inBubble(t *testing.T, f func(*testing.T, *within, *OIDC)) {
	w := &within{Issuer: issuertest.New(t)}
	synctest.Test(t, func(t *testing.T) {
		o, err := NewOIDC(OIDCConfig{Issuer: w.URL, Audience: issuertest.Audience, Client: &http.Client{Transport: w}})
		if err != nil {
			t.Fatal(err)
		}
		f(t, w, o)
	})
}

func TestOIDCForgetsWithdrawnKeys(t *testing.T) {
	inBubble(t, func(t *testing.T, i *within, o *OIDC) {
		stays, leaves := i.Key(), i.Key()
		i.Publish(stays, leaves)
		good(t, o, "the first", i.TokenBy(stays, nil))
		good(t, o, "the second", i.TokenBy(leaves, nil))
		i.Publish(stays)
		time.Sleep(keysGoodFor + time.Second)
		bad(t, o, 401, "one that was withdrawn", i.TokenBy(leaves, nil))
		good(t, o, "one that stays", i.TokenBy(stays, nil))
	})
}

// An issuer that is away for hours costs those whose keys are known little, whether it
// refuses or is silent.
func TestOIDCKnownKeysOutliveTheIssuer(t *testing.T) {
	for name, takes := range map[string]time.Duration{"refuses": 0, "is silent": 10 * time.Second} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, i *within, o *OIDC) {
				good(t, o, "with the issuer there", i.Token(nil))
				i.Away.Store(true)
				i.takes = takes
				time.Sleep(time.Hour)
				for range 100 {
					began := time.Now()
					good(t, o, "with the issuer away", i.Token(nil))
					if waited := time.Since(began); waited > keysWait {
						t.Fatalf("a token waited %s, want at most %s", waited, keysWait)
					}
					time.Sleep(time.Second)
				}
			})
		})
	}
}

// Whoever makes up keys' names does not make central ask the issuer each time.
func TestOIDCAsksSeldom(t *testing.T) {
	inBubble(t, func(t *testing.T, i *within, o *OIDC) {
		stranger := i.TokenBy(i.Key(), nil)
		began := time.Now()
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				for range 50 {
					bad(t, o, 401, "a key that nobody has published", stranger)
				}
			})
		}
		all.Wait()
		if most := int32(time.Since(began)/keysAskedEvery) + 1; i.Asked.Load() > most {
			t.Errorf("the issuer was asked %d times in %s, want at most %d", i.Asked.Load(), time.Since(began), most)
		}
	})
}

// A token is not refused because of an answer that the issuer gave before the token came.
func TestOIDCAnswersUnderWayAreOld(t *testing.T) {
	inBubble(t, func(t *testing.T, i *within, o *OIDC) {
		good(t, o, "the first key", i.Token(nil))
		stranger := i.TokenBy(i.Key(), nil)
		time.Sleep(time.Second)
		i.takes = time.Second
		var asked sync.WaitGroup
		asked.Go(func() { bad(t, o, 401, "a key that nobody has published", stranger) })
		time.Sleep(500 * time.Millisecond)
		i.Rotate()
		good(t, o, "a key published while the issuer was being asked", i.Token(nil))
		asked.Wait()
	})
}

// Whoever comes while the issuer does not answer waits for the same question, not for a
// turn to ask it.
func TestOIDCSilentIssuer(t *testing.T) {
	inBubble(t, func(t *testing.T, i *within, o *OIDC) {
		i.takes = 10 * time.Second
		i.Away.Store(true)
		began := time.Now()
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() { bad(t, o, 503, "with a silent issuer", i.Token(nil)) })
		}
		all.Wait()
		if took := time.Since(began); took != i.takes || i.tries.Load() != 1 {
			t.Errorf("20 requests were refused after %s, the issuer was asked %d times; want %s and once", took, i.tries.Load(), i.takes)
		}
		bad(t, o, 401, "what is no token", "x")
		if i.tries.Load() != 1 {
			t.Error("the issuer was asked because of what is no token")
		}
	})
}
