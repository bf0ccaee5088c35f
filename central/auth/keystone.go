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
	tokens  map[[sha256.Size]byte]remembered
	service string // the token of our own account
}

// remembered is what Keystone has said of a token; a nil caller: that it is not good.
type remembered struct {
	caller *Caller
	until  time.Time
}

const (
	maxTokens = 10000
	// rememberBad is how long a token that is not good is not asked about again.
	rememberBad = 10 * time.Second
)

// errNotGood is Keystone's answer to a token that it does not know, or no longer.
var errNotGood = errors.New("keystone does not know the token, or no longer")

// NewKeystone makes the strategy. Keystone is asked when the first token comes.
func NewKeystone(cfg KeystoneConfig) (*Keystone, error) {
	if cfg.URL == "" || cfg.Username == "" || cfg.Password == "" {
		return nil, errors.New("Keystone needs its URL, and the name and the password of an account that may validate tokens")
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
	return &Keystone{cfg: cfg, tokens: map[[sha256.Size]byte]remembered{}}, nil
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
	ask := func() (any, error) {
		// For all who wait, so not in the context of one.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), 20*time.Second)
		defer cancel()
		return k.learn(ctx, id, token)
	}
	select {
	case done := <-k.flight.DoChan(string(id[:]), ask):
		if done.Err != nil {
			return nil, &Denied{Status: http.StatusServiceUnavailable, Title: "Service Unavailable",
				Message: "Keystone cannot be asked about the request's token.", Reason: done.Err.Error()}
		}
		return k.answer(done.Val.(remembered))
	case <-r.Context().Done():
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
	known, ok := k.tokens[id]
	return known, ok && k.cfg.Now().Before(known.until)
}

// learn asks Keystone about a token and remembers what it says.
func (k *Keystone) learn(ctx context.Context, id [sha256.Size]byte, token string) (remembered, error) {
	now := k.cfg.Now()
	caller, expires, err := k.validate(ctx, token)
	known := remembered{caller, now.Add(k.cfg.Remember)}
	switch {
	case errors.Is(err, errNotGood) || err == nil && !now.Before(expires):
		known = remembered{nil, now.Add(rememberBad)}
	case err != nil:
		return known, fmt.Errorf("ask Keystone at %s about a token: %w", k.cfg.URL, err)
	case expires.Before(known.until):
		known.until = expires
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.tokens) >= maxTokens {
		for old, r := range k.tokens {
			if !now.Before(r.until) {
				delete(k.tokens, old)
			}
		}
		if len(k.tokens) >= maxTokens {
			clear(k.tokens)
		}
	}
	k.tokens[id] = known
	return known, nil
}

func (k *Keystone) denied(reason string) *Denied {
	return &Denied{Message: "The request you have made requires authentication.", Title: "Unauthorized", Reason: reason}
}

// Missing implements Strategy.
func (k *Keystone) Missing() *Denied { return k.denied("no token") }

// Challenges implements Strategy.
func (k *Keystone) Challenges() []string { return []string{`Keystone uri="` + k.cfg.PublicURL + `"`} }
