// Package issuertest is an OpenID Connect issuer for tests: discovery, keys (JWKS) and
// signed tokens over HTTP on loopback. It can be away, ill, and change its keys.
//
// It imports nothing of the project, so that tests of every package may use it.
package issuertest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// Audience is whom tokens are for unless their claims say otherwise.
const Audience = "ironyard"

// Issuer is safe for concurrent use.
type Issuer struct {
	// URL is what tokens name as their issuer.
	URL string
	// Status, when it is not 0, is what every request is answered with; Away breaks every
	// connection instead.
	Status atomic.Int32
	Away   atomic.Bool
	// Asked counts requests for the keys.
	Asked atomic.Int32

	t    testing.TB
	mu   sync.Mutex
	made int
	keys []Key
}

// Key is one that tokens are signed with.
type Key struct {
	ID      string
	private *ecdsa.PrivateKey
}

// New starts an issuer with one key. It ends with the test.
func New(t testing.TB) *Issuer {
	t.Helper()
	i := &Issuer{t: t}
	i.Rotate()
	srv := httptest.NewServer(i)
	t.Cleanup(srv.Close)
	i.URL = srv.URL
	return i
}

// ServeHTTP implements http.Handler.
func (i *Issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status := int(i.Status.Load())
	switch {
	case i.Away.Load():
		panic(http.ErrAbortHandler) // breaks the connection
	case status != 0:
		w.WriteHeader(status)
	case r.URL.Path == "/.well-known/openid-configuration":
		json.NewEncoder(w).Encode(map[string]any{"issuer": i.URL, "jwks_uri": i.URL + "/keys"})
	case r.URL.Path == "/keys":
		i.Asked.Add(1)
		json.NewEncoder(w).Encode(i.published())
	default:
		http.NotFound(w, r)
	}
}

// Key is a new key that nobody has published.
func (i *Issuer) Key() Key {
	i.t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		i.t.Fatal(err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.made++
	return Key{ID: fmt.Sprintf("k%d", i.made), private: private}
}

// Publish makes keys the issuer's only ones. Tokens are signed with the first.
func (i *Issuer) Publish(keys ...Key) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = keys
}

// Rotate replaces all keys with a new one, which it returns.
func (i *Issuer) Rotate() Key {
	k := i.Key()
	i.Publish(k)
	return k
}

func (i *Issuer) published() jose.JSONWebKeySet {
	i.mu.Lock()
	defer i.mu.Unlock()
	var set jose.JSONWebKeySet
	for _, k := range i.keys {
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: k.private.Public(), KeyID: k.ID, Algorithm: string(jose.ES256), Use: "sig"})
	}
	return set
}

// Token signs claims over the usual ones: ann, member of the project lab, for an hour.
func (i *Issuer) Token(more map[string]any) string {
	i.t.Helper()
	i.mu.Lock()
	k := i.keys[0]
	i.mu.Unlock()
	return i.TokenBy(k, more)
}

// TokenBy is Token, signed with a key.
func (i *Issuer) TokenBy(k Key, more map[string]any) string {
	i.t.Helper()
	return i.Sign(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: k.private, KeyID: k.ID}}, more)
}

// Sign is Token, signed with any key and algorithm.
func (i *Issuer) Sign(key jose.SigningKey, more map[string]any) string {
	i.t.Helper()
	signer, err := jose.NewSigner(key, nil)
	if err != nil {
		i.t.Fatal(err)
	}
	claims := map[string]any{"iss": i.URL, "aud": Audience, "sub": "u-1", "preferred_username": "ann", "exp": time.Now().Add(time.Hour).Unix(),
		"roles": []string{"member"}, "project_id": "lab"}
	maps.Copy(claims, more)
	token, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		i.t.Fatal(err)
	}
	return token
}
