package auth

import (
	"cmp"
	"context"
	"crypto"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
)

const (
	// keysGoodFor is how long keys count without asking the issuer whether they still are its.
	keysGoodFor = 5 * time.Minute
	// keysAskedEvery is how often the issuer is asked at most: whoever makes up names of
	// keys must not make central a burden to it.
	keysAskedEvery = 200 * time.Millisecond
	// keysAskedAgain is when an issuer that did not answer is asked whether keys which are
	// known are still its, and keysWait for how long tokens wait for its answer then.
	keysAskedAgain = 30 * time.Second
	keysWait       = 2 * time.Second

	keysSize = 1 << 20 // bytes of JWKS at most
)

// issuerKeys are the keys with which an issuer signs tokens (JWKS). They are fetched when
// the first token comes, when one is signed by a key that is not among them, and when
// they are old, so that a key that the issuer has withdrawn does not count for ever. While
// the issuer is away, those that are known do.
type issuerKeys struct {
	issuer string
	url    string // of the keys; empty: what the issuer's discovery document says
	client *http.Client

	mu     sync.Mutex
	latest *keysFetch // the one under way, else the last
	known  *keysFetch // the last that brought keys
}

// keysFetch is one question to the issuer. What it brought may be read after done is closed.
type keysFetch struct {
	begins time.Time // when the issuer is asked, which may be a moment ahead
	done   chan struct{}
	keys   []jose.JSONWebKey
	err    error
}

// all returns what a fetch that has ended brought; f may be nil.
func (f *keysFetch) all() []jose.JSONWebKey {
	if f == nil {
		return nil
	}
	return f.keys
}

func (f *keysFetch) ended() bool {
	select {
	case <-f.done:
		return true
	default:
		return false
	}
}

// unreachable says that an issuer's keys could not be fetched.
type unreachable struct{ error }

var errSignature = errors.New("it is signed by none of the issuer's keys")

// verifySignature returns what a token says and the key that has signed it. It fails with unreachable where the
// issuer had to be asked and did not answer.
func (k *issuerKeys) verifySignature(ctx context.Context, token string) (payload []byte, signer jose.JSONWebKey, err error) {
	came := time.Now()
	signed, err := jose.ParseSignedCompact(token, algorithms)
	if err != nil {
		return nil, signer, err
	}
	for _, key := range k.current(ctx) {
		if payload, ok := verify(signed, key); ok {
			return payload, key, nil
		}
	}
	f, err := k.since(ctx, came)
	if err != nil {
		return nil, signer, unreachable{err}
	}
	for _, key := range f.keys {
		if payload, ok := verify(signed, key); ok {
			return payload, key, nil
		}
	}
	return nil, signer, errSignature
}

// holds reports whether a key is among others.
func holds(keys []jose.JSONWebKey, key jose.JSONWebKey) bool {
	public, ok := key.Key.(interface{ Equal(crypto.PublicKey) bool })
	return ok && slices.ContainsFunc(keys, func(k jose.JSONWebKey) bool { return k.Use != "enc" && public.Equal(k.Key) })
}

// verify reports whether a key made a token's signature, and returns what is signed.
func verify(signed *jose.JSONWebSignature, key jose.JSONWebKey) ([]byte, bool) {
	id := signed.Signatures[0].Header.KeyID
	if key.Use == "enc" || id != "" && id != key.KeyID {
		return nil, false
	}
	payload, err := signed.Verify(&key)
	return payload, err == nil
}

// current returns the keys that are known, after asking whether they still are the issuer's
// when that is long ago.
func (k *issuerKeys) current(ctx context.Context) []jose.JSONWebKey {
	k.mu.Lock()
	known, latest := k.known, k.latest
	if known == nil || time.Since(known.begins) <= keysGoodFor {
		k.mu.Unlock()
		return known.all()
	}
	if latest.ended() && time.Since(latest.begins) > keysAskedAgain {
		latest = k.ask()
	}
	k.mu.Unlock()
	ctx, cancel := context.WithDeadline(ctx, latest.begins.Add(keysWait))
	defer cancel()
	select {
	case <-latest.done:
		if latest.err == nil {
			return latest.keys
		}
	case <-ctx.Done():
	}
	return known.keys
}

// since returns an answer of the issuer to a question asked at t or later: an older one
// may have missed the key that a token of now is signed by.
func (k *issuerKeys) since(ctx context.Context, t time.Time) (*keysFetch, error) {
	for {
		k.mu.Lock()
		f := k.latest
		if f == nil || f.ended() && f.begins.Before(t) {
			f = k.ask()
		}
		k.mu.Unlock()
		select {
		case <-f.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if f.err != nil || !f.begins.Before(t) {
			return f, f.err
		}
	}
}

// ask begins a fetch. k.mu is held, and no other is under way.
func (k *issuerKeys) ask() *keysFetch {
	f := &keysFetch{begins: time.Now(), done: make(chan struct{})}
	if k.latest != nil {
		if next := k.latest.begins.Add(keysAskedEvery); next.After(f.begins) {
			f.begins = next
		}
	}
	k.latest = f
	// It ends by the client's timeout, and goes on when the token that it began for does not
	// wait any more: others may.
	go func() {
		time.Sleep(time.Until(f.begins))
		f.keys, f.err = k.fetch(context.Background())
		k.mu.Lock()
		defer k.mu.Unlock()
		if f.err == nil {
			k.known = f
		}
		close(f.done)
	}()
	return f
}

// fetch asks the issuer, first where its keys are where that is not configured.
func (k *issuerKeys) fetch(ctx context.Context) ([]jose.JSONWebKey, error) {
	url := k.url
	if url == "" {
		provider, err := oidc.NewProvider(oidc.ClientContext(ctx, k.client), k.issuer)
		if err != nil {
			return nil, fmt.Errorf("read the discovery document: %w", err)
		}
		var doc struct {
			KeysURL string `json:"jwks_uri"`
		}
		if err := provider.Claims(&doc); err != nil || doc.KeysURL == "" {
			return nil, errors.New("the discovery document names no keys")
		}
		url = doc.KeysURL
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("address of the keys: %w", err)
	}
	req.Header.Set("Cache-Control", "no-cache")
	answer, err := k.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("read the keys: %w", err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, keysSize+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the keys at %s: %w", url, err)
	case answer.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("read the keys at %s: %s", url, answer.Status)
	case len(text) > keysSize:
		return nil, fmt.Errorf("the keys at %s are longer than %d bytes", url, keysSize)
	}
	keys, err := parseKeys(text)
	if err != nil {
		return nil, fmt.Errorf("the keys at %s: %w", url, err)
	}
	return keys, nil
}

// parseKeys reads a set of public keys (RFC 7517, section 5). Those of kinds that nothing
// here can use are left out.
func parseKeys(text []byte) ([]jose.JSONWebKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, fmt.Errorf("the answer is not a set of keys (JWKS): %w", err)
	}
	var keys []jose.JSONWebKey
	var unread error
	for _, raw := range set.Keys {
		var key jose.JSONWebKey
		if err := json.Unmarshal(raw, &key); err != nil {
			unread = err
			continue
		}
		if key = key.Public(); key.Valid() { // no secret ever verifies a token
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil, cmp.Or(unread, errors.New("the set holds no usable key"))
	}
	return keys, nil
}
