package clients

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"

	"github.com/ironyard/ironyard/central/auth"
	"github.com/ironyard/ironyard/central/auth/issuertest"
	central "github.com/ironyard/ironyard/central/daemon"
	"github.com/ironyard/ironyard/e2e/clients/debian"
)

//go:embed bearer.py
var tokenProgram []byte

// tokenFleet is a fleet that takes tokens of an issuer: dc-admins administer, dc-readers
// read all, lab are members of their token's project.
func tokenFleet(t *testing.T, i *issuertest.Issuer) string {
	t.Helper()
	claims := auth.Claims{Roles: "realm_access.roles"}
	for _, text := range []string{"dc-admins=system:admin", "dc-readers=system:reader", "lab=project:member"} {
		g, err := auth.ParseGrant(text)
		if err != nil {
			t.Fatal(err)
		}
		claims.Grants = append(claims.Grants, g)
	}
	return guardedFleet(t, central.Access{Strategies: []string{"oidc"}, OIDC: auth.OIDCConfig{Issuer: i.URL, Audience: issuertest.Audience, Claims: claims}})
}

// of are the claims of somebody with groups, and more of them.
func of(more map[string]any, groups ...string) map[string]any {
	claims := map[string]any{"realm_access": map[string]any{"roles": groups}}
	for k, v := range more {
		claims[k] = v
	}
	return claims
}

// bearing are the options with which the program shows a token that it did not fetch itself.
func bearing(token string) []string {
	return []string{"--os-auth-type", "admin_token", "--os-token", token, "--max-retries", "0"}
}

// TestBaremetalWithTokens has the program show tokens of an OpenID Connect issuer. What it
// prints says which are good, and what their holders may do.
func TestBaremetalWithTokens(t *testing.T) {
	i := issuertest.New(t)
	s := newSession(t, tokenFleet(t, i))
	show := func(what, want, token string, args ...string) string {
		t.Helper()
		r := s.try(bearing(token), args...)
		switch {
		case want == "" && r.Status != 0:
			t.Errorf("%s: baremetal %s: status %d, %q", what, strings.Join(args, " "), r.Status, r.Stderr)
		case want != "" && (r.Status != 1 || r.Stdout != "" || !strings.Contains(r.Stderr, "(HTTP "+want+")")):
			t.Errorf("%s: baremetal %s: status %d, want 1 and HTTP %s: %q, %q", what, strings.Join(args, " "), r.Status, want, r.Stdout, r.Stderr)
		}
		return r.Stdout
	}
	list := []string{"node", "list", "-f", "json"}

	i.Away.Store(true)
	show("the issuer away at the start", "503", i.Token(of(nil, "dc-admins")), list...)
	i.Away.Store(false)
	admin := i.Token(of(nil, "dc-admins"))
	show("an administrator", "", admin, "node", "create", "--driver", "fake-hardware", "--name", "one")
	show("an administrator", "", admin, "node", "set", "one", "--owner", "lab")
	show("an administrator", "", admin, "node", "create", "--driver", "fake-hardware", "--name", "two")

	reader := i.Token(of(nil, "dc-readers"))
	var all []map[string]any
	if text := show("a reader", "", reader, list...); json.Unmarshal([]byte(text), &all) != nil || len(all) != 2 {
		t.Errorf("a reader of the system sees %s", text)
	}
	show("a reader", "403", reader, "node", "set", "one", "--extra", "a=b")
	member := i.Token(of(nil, "lab"))
	if text := show("a member", "", member, list...); json.Unmarshal([]byte(text), &all) != nil || len(all) != 1 || !strings.Contains(text, `"one"`) {
		t.Errorf("a member of the owning project sees %s", text)
	}
	show("a member", "", member, "node", "set", "one", "--extra", "a=b")
	show("a member", "404", member, "node", "show", "two")
	show("a member of another project", "404", i.Token(of(map[string]any{"project_id": "other"}, "lab")), "node", "show", "one")
	show("one of no group", "403", i.Token(of(nil)), "node", "create", "--driver", "fake-hardware")

	for what, token := range map[string]string{
		"for another audience": i.Token(of(map[string]any{"aud": "elsewhere"}, "dc-admins")),
		"expired":              i.Token(of(map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}, "dc-admins")),
		"not yet valid":        i.Token(of(map[string]any{"nbf": time.Now().Add(time.Hour).Unix()}, "dc-admins")),
		"of another issuer":    issuertest.New(t).Token(of(nil, "dc-admins")),
		"signed by a stranger": i.TokenBy(i.Key(), of(nil, "dc-admins")),
		"spoiled":              admin[:len(admin)-6],
		"no token":             "secret",
	} {
		show(what, "401", token, list...)
	}

	i.Rotate()
	show("another key", "", i.Token(of(nil, "dc-admins")), list...)
	show("the key before", "401", admin, list...)
	i.Away.Store(true)
	show("a known key, the issuer away", "", i.Token(of(nil, "dc-admins")), list...)
	show("an unknown key, the issuer away", "503", i.TokenBy(i.Key(), of(nil, "dc-admins")), list...)
}

// TestOpenStackSDKWithToken has the library show a token, by options and by clouds.yaml.
func TestOpenStackSDKWithToken(t *testing.T) {
	i := issuertest.New(t)
	s := debian.New(t)
	cmd := s.Command(t, "python3", s.Put(t, "bearer.py", tokenProgram), tokenFleet(t, i), i.Token(of(nil, "dc-admins")), i.Token(of(nil)),
		i.Token(of(map[string]any{"aud": "elsewhere"}, "dc-admins")))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer time.AfterFunc(time.Minute, func() { cmd.Process.Kill() }).Stop()
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s (Debian's package python3-openstacksdk)", err, out.String())
	}
}

// TestGophercloudWithToken gives the library a token that it did not fetch itself.
func TestGophercloudWithToken(t *testing.T) {
	i := issuertest.New(t)
	endpoint := tokenFleet(t, i)
	with := func(token string) *gophercloud.ServiceClient {
		provider := &gophercloud.ProviderClient{}
		provider.UseTokenLock()
		provider.SetToken(token)
		return &gophercloud.ServiceClient{ProviderClient: provider, Endpoint: endpoint + "/v1/", Type: "baremetal", Microversion: "1.95"}
	}
	good := with(i.Token(of(nil, "dc-admins")))
	n, err := nodes.Create(t.Context(), good, nodes.CreateOpts{Driver: "fake-hardware", Name: "one"}).Extract()
	if err != nil || n.Name != "one" {
		t.Fatalf("create: %+v, %v", n, err)
	}
	bad := with(i.Token(of(map[string]any{"aud": "elsewhere"}, "dc-admins")))
	if err := nodes.Get(t.Context(), bad, "one").Err; !gophercloud.ResponseCodeIs(err, http.StatusUnauthorized) {
		t.Errorf("a token for another audience: %v", err)
	}
	if err := nodes.Delete(t.Context(), with(i.Token(of(nil, "dc-readers"))), "one").ExtractErr(); !gophercloud.ResponseCodeIs(err, http.StatusForbidden) {
		t.Errorf("a reader deletes: %v", err)
	}
}
