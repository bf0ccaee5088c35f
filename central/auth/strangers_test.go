package auth

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/ironyard/ironyard/central/auth/issuertest"
)

// A name that is no user's costs as much time as one that is, whatever the file's passwords cost.
func TestUnknownNamesCostAsMuchAsKnownOnes(t *testing.T) {
	hash, err := bcrypt.GenerateFromPassword([]byte("one"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	users := Users{"ann": hash}
	b := NewBasic(func() Users { return users })
	cost := func(name string) time.Duration {
		var all []time.Duration
		for range 15 {
			began := time.Now()
			if _, err := b.Authenticate(basic(name, "wrong")); status(err) != 401 {
				t.Fatal(err)
			}
			all = append(all, time.Since(began))
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	known, unknown := cost("ann"), cost("eve")
	if unknown > 5*known || known > 5*unknown {
		t.Errorf("a known name takes %v, an unknown one %v", known, unknown)
	}
}

// countedDoor lets so many through, and counts them.
type countedDoor struct {
	ctx             context.Context
	let             int
	entered, within int
}

func (d *countedDoor) Enter() (context.Context, func(), error) {
	if d.entered++; d.entered > d.let {
		return nil, nil, &Denied{Status: http.StatusServiceUnavailable, Reason: "full"}
	}
	d.within++
	return d.ctx, func() { d.within-- }, nil
}

// Checks that cost something go through the door, each once; credentials that are known to be good never do.
func TestChecksGoThroughTheDoor(t *testing.T) {
	users := Users{"ann": []byte(hashed(t, "one"))}
	keystone := newIdentity(t)
	keystone.tokens["P"] = ofProject
	issuer := issuertest.New(t)
	good := issuer.Token(nil)
	for name, c := range map[string]struct {
		strategy  Strategy
		good, bad *http.Request
	}{
		"basic":    {NewBasic(func() Users { return users }), basic("ann", "one"), basic("ann", "two")},
		"keystone": {keystone.strategy(func() time.Time { return time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC) }), withToken("P"), withToken("Q")},
		"oidc":     {by(t, issuer, Claims{}), bearer(good), bearer(good[:len(good)-8])},
	} {
		d := &countedDoor{ctx: t.Context(), let: 2}
		ask := func(r *http.Request) int {
			_, err := c.strategy.Authenticate(r.WithContext(WithDoor(t.Context(), d)))
			return status(err)
		}
		for i, want := range []struct{ status, entered int }{{0, 1}, {0, 1}, {401, 2}} {
			r := c.good
			if want.status != 0 {
				r = c.bad
			}
			if got := ask(r); got != want.status || d.entered != want.entered || d.within != 0 {
				t.Errorf("%s: request %d gets %d, the door was entered %d times and not left %d times; want %+v", name, i, got, d.entered, d.within, want)
			}
		}
		other := c.bad.Clone(t.Context())
		if other.Header.Get("X-Auth-Token") != "" {
			other.Header.Set("X-Auth-Token", "R") // what was found bad is remembered for some time
		}
		c.bad = other
		if got := ask(c.bad); got != 503 {
			t.Errorf("%s: behind a door that is full: %d", name, got)
		}
		if got := ask(c.good); got != 0 {
			t.Errorf("%s: who is known is not let in where the door is full: %d", name, got)
		}
	}
}

// A question to Keystone that its asker does not wait for takes part in the share until it has ended.
func TestQuestionsThatGoOnCount(t *testing.T) {
	asked, answer := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(asked)
		<-answer
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer server.Close()
	k, err := NewKeystone(KeystoneConfig{URL: server.URL, Username: "u", Password: "p"})
	if err != nil {
		t.Fatal(err)
	}
	left := make(chan struct{})
	ctx, cancel := context.WithCancel(WithDoor(t.Context(), doorOf(func() { close(left) })))
	go func() { <-asked; cancel() }()
	if _, err := k.Authenticate(withToken("P").WithContext(ctx)); err == nil {
		t.Error("a token that was not checked is good")
	}
	select {
	case <-left:
		t.Error("the door was left while the question was under way")
	default:
	}
	close(answer)
	<-left
}

type doorOf func()

func (leave doorOf) Enter() (context.Context, func(), error) {
	return context.Background(), leave, nil
}

// Names that are none take the times of those that are, each its own.
func TestDecoysAreTheFilesOwn(t *testing.T) {
	users := Users{}
	for i := range 8 {
		hash, err := bcrypt.GenerateFromPassword([]byte("one"), bcrypt.MinCost+i%2)
		if err != nil {
			t.Fatal(err)
		}
		users[string(rune('a'+i))] = hash
	}
	b := NewBasic(func() Users { return users })
	costs := map[int]int{}
	for i := range 200 {
		name := fmt.Sprintf("nobody-%d", i)
		first := b.decoy(users, name)
		if string(b.decoy(users, name)) != string(first) {
			t.Fatal("a name has two decoys")
		}
		cost, err := bcrypt.Cost(first)
		if err != nil {
			t.Fatal(err)
		}
		costs[cost]++
		if _, err := b.Authenticate(basic(name, "one")); i < 3 && status(err) != 401 {
			t.Errorf("%s is let in with another's password: %v", name, err)
		}
	}
	if costs[bcrypt.MinCost] < 50 || costs[bcrypt.MinCost+1] < 50 {
		t.Errorf("decoys by cost: %v, want about as many of each", costs)
	}
}
