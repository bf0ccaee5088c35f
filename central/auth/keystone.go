package auth

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// KeystoneConfig is what Keystone needs. URL, Username and Password are required.
type KeystoneConfig struct {
	// URL is Keystone's, with or without /v3 at its end. PublicURL is what clients are told; empty: URL.
	URL, PublicURL string
	// The account that asks Keystone about others' tokens, and its scope: a project, or,
	// where that is empty, the system.
	Username, Password, UserDomain string
	Project, ProjectDomain         string
	// Remember bounds how long a token counts as good without asking again, and so how
	// long one that was revoked still works; 0: 5 min. Never longer than it is valid.
	Remember time.Duration
	Client   *http.Client     // nil: one with a timeout of 10 s
	Now      func() time.Time // nil: time.Now
}

// Keystone authenticates by tokens in X-Auth-Token that OpenStack's Keystone has issued,
// and asks it about them (Identity API v3, /auth/tokens).
type Keystone struct {
	cfg    KeystoneConfig
	flight singleflight.Group // by token: many requests with a new one ask once

	mu      sync.Mutex
	good    *memory // tokens that Keystone knows
	bad     *memory // others, apart: tokens that are made up must not displace good ones
	service string  // the token of our own account
}

const (
	// rememberBad is how long a token that is not good is not asked about again.
	rememberBad = 10 * time.Second
)

// errNotGood is Keystone's answer to a token that it does not know, or no longer.
var errNotGood = errors.New("keystone does not know the token, or no longer")

// NewKeystone makes the strategy. Keystone is asked when the first token comes.
func NewKeystone(cfg KeystoneConfig) (*Keystone, error) {
	if cfg.URL == "" || cfg.Username == "" || cfg.Password == "" {
		return nil, errors.New("Keystone needs its URL, and an account that may validate tokens: --keystone-url, --keystone-user and --keystone-password-file")
	}
	cfg.URL = strings.TrimSuffix(strings.TrimRight(cfg.URL, "/"), "/v3")
	if cfg.PublicURL == "" {
		cfg.PublicURL = cfg.URL
	}
	if cfg.UserDomain == "" {
		cfg.UserDomain = "Default"
	}
	if cfg.ProjectDomain == "" {
		cfg.ProjectDomain = "Default"
	}
	if cfg.Remember == 0 {
		cfg.Remember = 5 * time.Minute
	}
	if cfg.Client == nil {
		cfg.Client = &http.Client{Timeout: 10 * time.Second}
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Keystone{cfg: cfg, good: newMemory(), bad: newMemory()}, nil
}

// Authenticate implements Strategy.
func (k *Keystone) Authenticate(r *http.Request) (*Caller, error) {
	token := r.Header.Get("X-Auth-Token")
	if token == "" {
		return nil, ErrNone
	}
	id := sha256.Sum256([]byte(token))
	if known, ok := k.recall(id); ok {
		return k.answer(known)
	}
	_, leave, err := enter(r.Context())
	if err != nil {
		return nil, err
	}
	ask := func() (any, error) {
		// For all who wait, so not in the context of one.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), 20*time.Second)
		defer cancel()
		return k.learn(ctx, id, token)
	}
	asked := k.flight.DoChan(string(id[:]), ask)
	select {
	case done := <-asked:
		leave()
		if done.Err != nil {
			return nil, &Denied{Status: http.StatusServiceUnavailable, Title: "Service Unavailable",
				Message: "Keystone cannot be asked about the request's token.", Reason: done.Err.Error()}
		}
		return k.answer(done.Val.(remembered))
	case <-r.Context().Done():
		go func() { <-asked; leave() }() // the question goes on, and takes part in the share of its address until then
		return nil, r.Context().Err()
	}
}

func (k *Keystone) answer(known remembered) (*Caller, error) {
	if known.caller == nil {
		return nil, k.denied(errNotGood.Error())
	}
	return known.caller, nil
}

func (k *Keystone) recall(id [sha256.Size]byte) (remembered, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.cfg.Now()
	if known, ok := k.good.recall(id, now); ok {
		return known, true
	}
	return k.bad.recall(id, now)
}

// learn asks Keystone about a token and remembers what it says.
func (k *Keystone) learn(ctx context.Context, id [sha256.Size]byte, token string) (remembered, error) {
	now := k.cfg.Now()
	caller, expires, err := k.validate(ctx, token)
	known := remembered{caller: caller, until: now.Add(k.cfg.Remember)}
	switch {
	case errors.Is(err, errNotGood) || err == nil && !now.Before(expires):
		known = remembered{until: now.Add(rememberBad)}
	case err != nil:
		return known, fmt.Errorf("ask Keystone at %s about a token: %w", k.cfg.URL, err)
	case expires.Before(known.until):
		known.until = expires
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if known.caller == nil {
		k.bad.keep(id, known, now)
	} else {
		k.good.keep(id, known, now)
	}
	return known, nil
}

func (k *Keystone) denied(reason string) *Denied {
	return &Denied{Message: "The request you have made requires authentication.", Title: "Unauthorized", Reason: reason}
}

// Missing implements Strategy.
func (k *Keystone) Missing() *Denied { return k.denied("no token") }

// Challenges implements Strategy.
func (k *Keystone) Challenges() []string { return []string{`Keystone uri="` + k.cfg.PublicURL + `"`} }
