package bmc

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/ironyard/ironyard/rackd/driver"
)

// Who may change driver_info of a node of theirs names the address of a BMC and an account. The courtesy remembers refusals by account, so
// that each further password would be another account, and be tried at once. So logins that a BMC has refused are counted beside that: for
// each node, whatever addresses it names, and at each BMC for the nodes of one owner and lessee, whichever node names it.

// guessesAtOnce is how many refused logins there may be in a row. After them there is one in each pause of refused credentials.
const guessesAtOnce = 5

// mostGuessers is from how many on those are forgotten that may log in as often as at first.
const mostGuessers = 1024

// Guesses counts refused logins. All drivers of a rackd share it. Safe for concurrent use.
type Guesses struct {
	mu    sync.Mutex
	of    map[guesser]tally
	swept time.Time
}

// guesser is who is counted: a node, or an owner and lessee at a BMC.
type guesser struct{ node, tenancy, bmc string }

// tally is how many logins may be refused at a moment before the next has to wait; it grows by one in each pause.
type tally struct {
	left float64
	at   time.Time
}

// NewGuesses returns one that has counted nothing.
func NewGuesses() *Guesses { return &Guesses{of: map[guesser]tally{}} }

func guessers(a Account) []guesser {
	at := guesser{bmc: hostOf(a.Address)}
	if a.Node == nil {
		return []guesser{at}
	}
	at.tenancy = a.Node.Tenancy
	return []guesser{{node: a.Node.UUID}, at}
}

// grown is the tally at a moment.
func (t tally) grown(now time.Time, pause time.Duration) tally {
	return tally{min(guessesAtOnce, t.left+now.Sub(t.at).Seconds()/pause.Seconds()), now}
}

// refused counts a login that a BMC has refused, and reports whether the next one has to wait for that alone.
func (g *Guesses) refused(a Account, pause time.Duration) (waits bool) {
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, who := range guessers(a) {
		before, counted := g.of[who]
		if !counted {
			before = tally{guessesAtOnce, now}
		}
		after := before.grown(now, pause)
		waits = waits || after.left >= 1 && after.left < 2
		after.left = max(0, after.left-1)
		g.of[who] = after
	}
	if len(g.of) > mostGuessers && now.Sub(g.swept) >= pause {
		g.swept = now
		for who, t := range g.of {
			if t.grown(now, pause).left >= guessesAtOnce {
				delete(g.of, who)
			}
		}
	}
	return waits
}

// check returns an error that holds a login back where too many were refused.
func (g *Guesses) check(a Account, pause time.Duration) error {
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, who := range guessers(a) {
		before, counted := g.of[who]
		if !counted {
			continue
		}
		if left := before.grown(now, pause).left; left < 1 {
			until := now.Add(time.Duration((1 - left) * float64(pause)))
			of := "this node"
			if who.node == "" {
				of = "nodes of this owner and lessee, at this BMC"
			}
			return &heldBack{until: until, alone: true, guess: true, cause: fmt.Errorf("rackd has not logged in: %d and more logins were refused for %s, so that it logs in "+
				"for them once in %s; the next time is %s. Correct driver_info, and wait until then: %w", guessesAtOnce, of, pause, until.UTC().Format(time.TimeOnly+" MST"), driver.ErrDenied)}
		}
	}
	return nil
}

// hostOf is a BMC's host and port as the pool's addresses name them, in one spelling of several.
func hostOf(address string) string {
	scheme, rest, is := strings.Cut(address, "://")
	if !is {
		scheme, rest = "", address
	}
	rest, _, _ = strings.Cut(rest, "/")
	host, port, err := net.SplitHostPort(rest)
	if err != nil {
		host, port = strings.Trim(rest, "[]"), map[string]string{"https": "443", "http": "80"}[scheme]
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if ip, err := netip.ParseAddr(host); err == nil {
		host = ip.Unmap().WithZone("").String()
	}
	return net.JoinHostPort(host, port)
}
