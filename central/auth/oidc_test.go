package auth

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// issuer is an OpenID Connect issuer on loopback.
type issuer struct {
	t    *testing.T
	url  string
	key  atomic.Pointer[ecdsa.PrivateKey]
	down atomic.Bool
}

func newIssuer(t *testing.T) *issuer {
	i := &issuer{t: t}
	i.rotate()
	mux := http.NewServeMux()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if i.down.Load() {
			panic(http.ErrAbortHandler)
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	i.url = srv.URL
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(map[string]any{"issuer": i.url, "jwks_uri": i.url + "/keys"})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: i.key.Load().Public(), KeyID: "k", Algorithm: "ES256", Use: "sig"}}})
	})
	return i
}

func (i *issuer) rotate() {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		i.t.Fatal(err)
	}
	i.key.Store(key)
}

// token signs claims over the usual ones.
func (i *issuer) token(more map[string]any) string {
	i.t.Helper()
	return i.sign(jose.SigningKey{Algorithm: jose.ES256, Key: i.key.Load()}, more)
}

func (i *issuer) sign(key jose.SigningKey, more map[string]any) string {
	i.t.Helper()
	signer, err := jose.NewSigner(key, (&jose.SignerOptions{}).WithHeader("kid", "k"))
	if err != nil {
		i.t.Fatal(err)
	}
	claims := map[string]any{"iss": i.url, "aud": "ironyard", "sub": "u-1", "preferred_username": "ann", "exp": time.Now().Add(time.Hour).Unix(),
		"roles": []string{"member"}, "project_id": "lab"}
	maps.Copy(claims, more)
	token, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		i.t.Fatal(err)
	}
	return token
}

func bearer(token string) *http.Request {
	r := httptest.NewRequest("GET", "/v1/nodes", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	return r
}

func (i *issuer) strategy(c Claims) *OIDC {
	i.t.Helper()
	o, err := NewOIDC(OIDCConfig{Issuer: i.url, Audience: "ironyard", Claims: c})
	if err != nil {
		i.t.Fatal(err)
	}
	return o
}

func TestOIDC(t *testing.T) {
	i := newIssuer(t)
	o := i.strategy(Claims{})
	c, err := o.Authenticate(bearer(i.token(nil)))
	if err != nil || c.User != "ann" || c.UserID != "u-1" || c.Project != "lab" || c.System || !c.Has("member") || !c.Has("reader") || c.Has("admin") {
		t.Fatalf("caller %+v, %v", c, err)
	}
	if c, err = o.Authenticate(bearer(i.token(map[string]any{"system_scope": "all", "roles": []string{"Admin"}}))); err != nil || !c.System || c.Project != "" || !c.Has("admin") || !c.Has("manager") {
		t.Fatalf("of the system: %+v, %v", c, err)
	}
	// As OpenStack's clients send a token.
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("X-Auth-Token", i.token(nil))
	if c, err = o.Authenticate(r); err != nil || c.User != "ann" {
		t.Errorf("in X-Auth-Token: %v", err)
	}
	for _, other := range []string{"", "gAAAAAB", "a.b.c", i.token(map[string]any{"iss": "https://keystone"})} {
		r.Header.Set("X-Auth-Token", other)
		if _, err := o.Authenticate(r); !errors.Is(err, ErrNone) {
			t.Errorf("%.10q in X-Auth-Token: %v", other, err)
		}
	}
}

func TestOIDCDenies(t *testing.T) {
	i := newIssuer(t)
	o := i.strategy(Claims{})
	forger := newIssuer(t)
	forger.url = i.url
	good := i.token(nil)
	for name, token := range map[string]string{
		"expired":             i.token(map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}),
		"for others":          i.token(map[string]any{"aud": "elsewhere"}),
		"of another issuer":   i.token(map[string]any{"iss": "https://elsewhere"}),
		"not yet":             i.token(map[string]any{"nbf": time.Now().Add(time.Hour).Unix()}),
		"forged":              forger.token(nil),
		"cut":                 good[:len(good)-8],
		"no token":            "x",
		"a secret's":          i.sign(jose.SigningKey{Algorithm: jose.HS256, Key: []byte("0123456789abcdef0123456789abcdef")}, nil),
		"of strange roles":    i.token(map[string]any{"roles": []any{1}}),
		"without a signature": good[:strings.LastIndex(good, ".")+1],
	} {
		if _, err := o.Authenticate(bearer(token)); status(err) != 401 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := o.Authenticate(bearer(good)); err != nil {
		t.Error(err)
	}
}

func TestOIDCFollowsTheIssuersKeys(t *testing.T) {
	i := newIssuer(t)
	o := i.strategy(Claims{})
	i.down.Store(true)
	if _, err := o.Authenticate(bearer(i.token(nil))); status(err) != 503 {
		t.Errorf("with the issuer away: %v", err)
	}
	i.down.Store(false)
	if _, err := o.Authenticate(bearer(i.token(nil))); err != nil {
		t.Errorf("with the issuer back: %v", err)
	}
	i.rotate()
	accepted(t, o, i, "with another key")
	i.down.Store(true)
	accepted(t, o, i, "a key that is known needs the issuer")
	i.rotate()
	if _, err := o.Authenticate(bearer(i.token(nil))); status(err) != 503 {
		t.Errorf("with a key that cannot be fetched: %v", err)
	}
}

// Whoever comes while the issuer does not answer waits for the same question, not for a
// turn to ask it.
func TestOIDCSilentIssuer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const patience = 10 * time.Second
		var asked atomic.Int32
		o, err := NewOIDC(OIDCConfig{Issuer: "https://sso.example", Audience: "ironyard", Client: &http.Client{Transport: silence(func() {
			asked.Add(1)
			time.Sleep(patience) // of the bubble's clock
		})}})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if _, err := o.Authenticate(bearer("x")); status(err) != 503 {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if took := time.Since(began); took != patience || asked.Load() != 1 {
			t.Errorf("20 requests were refused after %s, the issuer was asked %d times; want %s and once", took, asked.Load(), patience)
		}
	})
}

// silence is an issuer that does not answer.
type silence func()

func (s silence) RoundTrip(*http.Request) (*http.Response, error) {
	s()
	return nil, errors.New("no answer")
}

// accepted waits until a token is: a fetch of keys that is under way serves whoever
// comes meanwhile, and what it brought is kept a moment after it has been used.
func accepted(t *testing.T, o *OIDC, i *issuer, what string) {
	t.Helper()
	token := i.token(nil)
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		_, err := o.Authenticate(bearer(token))
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

func TestClaims(t *testing.T) {
	grant := func(text string) Grant {
		g, err := ParseGrant(text)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	groups := Claims{User: "email", Project: "tenant.id", Roles: "realm_access.roles",
		Grants: []Grant{grant("/ops=x=system:admin"), grant("lab=project:Member")}}
	for name, c := range map[string]struct {
		claims Claims
		in     map[string]any
		want   Caller
	}{
		"by group":    {groups, map[string]any{"email": "a@b", "realm_access": map[string]any{"roles": []any{"lab", "else"}}, "tenant": map[string]any{"id": "p"}}, Caller{User: "a@b", UserID: "s", Project: "p", Roles: []string{"member", "reader"}}},
		"of system":   {groups, map[string]any{"realm_access": map[string]any{"roles": []any{"lab", "/ops=x"}}, "tenant": map[string]any{"id": "p"}}, Caller{User: "s", UserID: "s", System: true, Roles: []string{"admin", "manager", "member", "reader"}}},
		"no group":    {groups, map[string]any{"system_scope": "all", "realm_access": 1}, Caller{User: "s", UserID: "s"}},
		"one text":    {Claims{Roles: "scope"}, map[string]any{"scope": "reader service", "project_id": "p"}, Caller{User: "s", UserID: "s", Project: "p", Roles: []string{"reader", "service"}}},
		"dotted name": {Claims{Roles: "https://x.y/roles"}, map[string]any{"https://x.y/roles": []any{"reader"}}, Caller{User: "s", UserID: "s", Roles: []string{"reader"}}},
	} {
		got, err := c.claims.caller("s", c.in)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if g, w := *got, c.want; g.User != w.User || g.UserID != w.UserID || g.Project != w.Project || g.System != w.System || strings.Join(g.Roles, ",") != strings.Join(w.Roles, ",") {
			t.Errorf("%s: %+v, want %+v", name, g, w)
		}
	}
	for _, text := range []string{"", "x", "x=admin", "x=world:admin", "=system:admin", "x=system:"} {
		if g, err := ParseGrant(text); err == nil {
			t.Errorf("%q is %+v", text, g)
		}
	}
}
