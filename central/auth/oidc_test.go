package auth

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/ironyard/ironyard/central/auth/issuertest"
)

func bearer(token string) *http.Request {
	r := httptest.NewRequest("GET", "/v1/nodes", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	return r
}

func by(t *testing.T, i *issuertest.Issuer, c Claims) *OIDC {
	t.Helper()
	o, err := NewOIDC(OIDCConfig{Issuer: i.URL, Audience: issuertest.Audience, Claims: c})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestOIDC(t *testing.T) {
	i := issuertest.New(t)
	o := by(t, i, Claims{})
	c, err := o.Authenticate(bearer(i.Token(nil)))
	if err != nil || c.User != "ann" || c.UserID != "u-1" || c.Project != "lab" || c.System || !c.Has("member") || !c.Has("reader") || c.Has("admin") {
		t.Fatalf("caller %+v, %v", c, err)
	}
	if c, err = o.Authenticate(bearer(i.Token(map[string]any{"system_scope": "all", "roles": []string{"Admin"}}))); err != nil || !c.System || c.Project != "" || !c.Has("admin") || !c.Has("manager") {
		t.Fatalf("of the system: %+v, %v", c, err)
	}
	// As OpenStack's clients send a token.
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("X-Auth-Token", i.Token(nil))
	if c, err = o.Authenticate(r); err != nil || c.User != "ann" {
		t.Errorf("in X-Auth-Token: %v", err)
	}
	for _, other := range []string{"", "gAAAAAB", "a.b.c", i.Token(map[string]any{"iss": "https://keystone"})} {
		r.Header.Set("X-Auth-Token", other)
		if _, err := o.Authenticate(r); !errors.Is(err, ErrNone) {
			t.Errorf("%.10q in X-Auth-Token: %v", other, err)
		}
	}
}

func TestOIDCDenies(t *testing.T) {
	i := issuertest.New(t)
	o := by(t, i, Claims{})
	forger := issuertest.New(t)
	forger.URL = i.URL
	good := i.Token(nil)
	for name, token := range map[string]string{
		"expired":             i.Token(map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}),
		"for others":          i.Token(map[string]any{"aud": "elsewhere"}),
		"of another issuer":   i.Token(map[string]any{"iss": "https://elsewhere"}),
		"not yet":             i.Token(map[string]any{"nbf": time.Now().Add(time.Hour).Unix()}),
		"forged":              forger.Token(nil),
		"cut":                 good[:len(good)-8],
		"no token":            "x",
		"a secret's":          i.Sign(jose.SigningKey{Algorithm: jose.HS256, Key: []byte("0123456789abcdef0123456789abcdef")}, nil),
		"of strange roles":    i.Token(map[string]any{"roles": []any{1}}),
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
