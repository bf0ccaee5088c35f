package bmc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// guess is a request for a node with a password that was never tried.
type guess struct {
	*far
	pools []*Pool[*talk]
	count uint64
}

func (g *guess) try(ctx context.Context, n *node.Document, address string) error {
	g.count++
	a := Account{Address: address, Node: n}
	binary.BigEndian.PutUint64(a.Sum[:], g.count)
	return g.pools[g.count%uint64(len(g.pools))].Use(driver.WithTry(ctx), a, g.login, nothing)
}

func guessing() *guess {
	shared := Shared{}.Filled()
	g := &guess{far: &far{}}
	for _, name := range []string{"redfish", "ipmi"} {
		g.pools = append(g.pools, NewPool[*talk](PoolOptions{Driver: name, Shared: shared, Pace: 1000}))
	}
	g.refuse.Store(true)
	return g
}

// A tenant who may change driver_info names the address of another's BMC, and one password after the other. Other drivers, nodes and
// spellings of the address help as little. Each password is an account of its own, which no pause of an account holds back.
func TestPasswordsAreNotGuessed(t *testing.T) {
	for name, way := range map[string]func(i int) (n *node.Document, address string){
		"one node": func(int) (*node.Document, string) { return &node.Document{UUID: "n", Tenancy: "t"}, "10.0.0.5:443" },
		"one node, by many names": func(i int) (*node.Document, string) {
			return &node.Document{UUID: "n", Tenancy: "t"}, fmt.Sprintf("n%d.evil.example:443", i)
		},
		"one node, with many lessees": func(i int) (*node.Document, string) {
			return &node.Document{UUID: "n", Tenancy: fmt.Sprint(i)}, "10.0.0.5:443"
		},
		"many nodes of one owner": func(i int) (*node.Document, string) {
			at := []string{"10.0.0.5:443", "https://10.0.0.5", "https://10.0.0.5:443", "[::ffff:10.0.0.5]:443", "https://[::ffff:a00:5]/"}
			return &node.Document{UUID: fmt.Sprint(i), Tenancy: "t"}, at[i%len(at)]
		},
		"many nodes of one owner, by a name": func(i int) (*node.Document, string) {
			return &node.Document{UUID: fmt.Sprint(i), Tenancy: "t"}, []string{"bmc.example:443", "BMC.example.:443"}[i%2]
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := guessing()
				held, said := 0, ""
				for i := range 600 { // one a second
					n, address := way(i)
					err := g.try(t.Context(), n, address)
					if h, is := errors.AsType[driver.Withheld](err); is && !h.Tried() {
						held++
						said = Attempt{Node: n, Doing: "read the power state", BMC: address, User: "admin"}.Explain(err).Error()
						if !errors.Is(err, driver.ErrDenied) || h.Again().Before(time.Now()) || h.Again().After(time.Now().Add(time.Minute)) {
							t.Fatalf("%v, again at %s", err, h.Again())
						}
					}
					time.Sleep(time.Second)
				}
				if got := int(g.opened.Load()); got < guessesAtOnce || got > guessesAtOnce+10 {
					t.Errorf("%d passwords were tried in ten minutes, want %d and one a minute", got, guessesAtOnce)
				}
				if held+int(g.opened.Load()) != 600 || !strings.Contains(said, "rackd has not logged in") || strings.Contains(said, "unless driver_info changes") {
					t.Errorf("%d of 600 were held back: %s", held, said)
				}
			})
		})
	}
}

// A tenant's guesses hold back neither the nodes of others at that BMC, nor their own elsewhere.
func TestGuessesHoldBackTheirOwnerAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guessing()
		for i := range 100 {
			_ = g.try(t.Context(), &node.Document{UUID: fmt.Sprint(i), Tenancy: "thief"}, "10.0.0.5:443")
		}
		g.refuse.Store(false)
		for name, c := range map[string]struct {
			n       *node.Document
			address string
			let     bool
		}{
			"the BMC's own node":         {&node.Document{UUID: "own", Tenancy: "tenant"}, "10.0.0.5:443", true},
			"an operator's node there":   {&node.Document{UUID: "operator"}, "10.0.0.5:443", true},
			"the thief's node elsewhere": {&node.Document{UUID: "other", Tenancy: "thief"}, "10.0.0.6:443", true},
			"the thief's node there":     {&node.Document{UUID: "another", Tenancy: "thief"}, "10.0.0.5:443", false},
		} {
			if err := g.try(t.Context(), c.n, c.address); (err == nil) != c.let {
				t.Errorf("%s: %v", name, err)
			}
		}
		time.Sleep(time.Minute)
		for i := range 3 { // what is right costs nothing
			if err := g.try(t.Context(), &node.Document{UUID: "another", Tenancy: "thief"}, "10.0.0.5:443"); err != nil {
				t.Errorf("%d: a right password after a pause: %v", i, err)
			}
		}
	})
}

// A rack whose BMCs have all got another password is told so at once: each has its two logins.
func TestARackWithAnotherPassword(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guessing()
		p := g.pools[0]
		for range 2 {
			for i := range mostGuessers {
				a := Account{Address: fmt.Sprintf("10.0.%d.%d:443", i/250, i%250), Node: &node.Document{UUID: fmt.Sprint(i), Tenancy: "t"}}
				binary.BigEndian.PutUint64(a.Sum[:], uint64(i))
				if err := p.Use(t.Context(), a, g.login, nothing); !isRefusedLogin(err) {
					t.Fatalf("%v, want the BMC's refusal", err)
				}
			}
			time.Sleep(time.Minute)
		}
		if got := g.opened.Load(); got != 2*mostGuessers {
			t.Errorf("%d logins, want two of each", got)
		}
		time.Sleep(time.Hour)
		_ = g.try(t.Context(), &node.Document{UUID: "x"}, "10.1.0.0:443")
		if got := len(p.opts.Shared.Guesses.of); got > 2 {
			t.Errorf("%d are counted after an hour", got)
		}
	})
}
