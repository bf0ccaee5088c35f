package enrol_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/enrol"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/central/store/storetest"
	"github.com/ironyard/ironyard/protocol/join"
	"github.com/ironyard/ironyard/protocol/membership"
	"github.com/ironyard/ironyard/protocol/seal"
)

// world is an authority that listens.
type world struct {
	*testing.T
	key   *seal.Key
	store *store.Store
	now   atomic.Int64 // added to the clock
	auth  *enrol.Authority
	front *enrol.Authority // makes the listeners' certificates, by the true time
	url   string
	asked atomic.Int64
	// handler answers at url, and was made last.
	handler http.Handler
}

func newWorld(t *testing.T, address string) *world {
	t.Helper()
	key, err := seal.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, key: key, store: storetest.Open(t, address)}
	w.auth = w.open(w.key)
	if w.front, err = enrol.Open(t.Context(), w.store, key, nil); err != nil {
		t.Fatal(err)
	}
	w.url = w.serve(w.auth)
	return w
}

// clock is the authority's; tests move it.
func (w *world) clock() time.Time { return time.Now().Add(time.Duration(w.now.Load())) }

func (w *world) open(key *seal.Key) *enrol.Authority {
	w.Helper()
	a, err := enrol.Open(w.Context(), w.store, key, w.clock)
	if err != nil {
		w.Fatal(err)
	}
	return a
}

// serve listens for an authority.
func (w *world) serve(a *enrol.Authority) string {
	h := a.Handler(slog.New(slog.DiscardHandler))
	w.handler = h
	return w.listen(func(rw http.ResponseWriter, r *http.Request) {
		w.asked.Add(1)
		h.ServeHTTP(rw, r)
	})
}

// listen serves h under central's certificate.
func (w *world) listen(h http.HandlerFunc) string {
	srv := httptest.NewUnstartedServer(h)
	srv.TLS = &tls.Config{GetCertificate: w.front.OwnCertificate("localhost").ForServer}
	srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	srv.StartTLS()
	w.Cleanup(srv.Close)
	return srv.URL
}

var rackA = join.Scope{Role: join.Rackd, Site: "east", Name: "r1", Group: "rack-a"}

func (w *world) token(s join.Scope) join.Token {
	w.Helper()
	tokens, err := w.auth.NewTokens(w.Context(), join.Central{URL: w.url}, time.Hour, s)
	if err != nil {
		w.Fatal(err)
	}
	return tokens[0]
}

// join joins into a new folder.
func (w *world) join(t join.Token, name string) (*membership.Member, error) {
	return membership.Join(w.Context(), t, filepath.Join(w.TempDir(), "m"), name)
}

// refusal is the status of a refusal, 0 for another error or none.
func refusal(err error) int {
	var no *join.RefusedError
	if errors.As(err, &no) {
		return no.Status
	}
	return 0
}

func TestJoin(t *testing.T) {
	w := newWorld(t, storetest.SQLite(t))
	s := rackA
	s.FailoverOf = []string{"Rack-B"}
	m, err := w.join(w.token(s), "")
	if err != nil {
		t.Fatal(err)
	}
	if m.Scope.Name != "r1" || m.ID == "" || time.Until(m.Expires) < 24*time.Hour {
		t.Errorf("member %+v", m)
	}
	ring, err := m.Keyring()
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range []string{"rack-a", "rack-b"} {
		want, _ := w.key.ForGroup(g)
		if got := ring.Of(g); got == nil || got.Text() != want.Text() {
			t.Errorf("key of %s: %v", g, got)
		}
	}
	if len(ring.Groups()) != 2 {
		t.Errorf("keys of %q", ring.Groups())
	}
	again, err := membership.Open(m.Dir)
	if err != nil || again.ID != m.ID || again.Scope.Group != "rack-a" {
		t.Errorf("read back: %+v, %v", again, err)
	}
	files, err := os.ReadDir(m.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if info, err := f.Info(); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s is for others too: %v, %v", f.Name(), info.Mode(), err)
		}
		if f.Name() == "joining.json" {
			t.Error("the keys of the joining were left")
		}
	}
	if _, err := membership.Join(t.Context(), w.token(rackA), m.Dir, ""); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("joining into the same folder: %v", err)
	}
}

func TestTokenWorksOnce(t *testing.T) {
	for name, address := range engines {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, address(t))
			other := w.serve(w.open(w.key)) // another replica
			token := w.token(rackA)
			const joiners = 8
			var won, refused atomic.Int64
			var wg sync.WaitGroup
			for i := range joiners {
				mine := token
				if i%2 == 1 {
					mine.URL = other
				}
				wg.Go(func() {
					if _, err := w.join(mine, ""); err == nil {
						won.Add(1)
					} else if refusal(err) == http.StatusForbidden {
						refused.Add(1)
					} else {
						t.Errorf("neither joined nor refused: %v", err)
					}
				})
			}
			wg.Wait()
			if won.Load() != 1 || refused.Load() != joiners-1 {
				t.Errorf("%d of %d joined with one token, %d were refused", won.Load(), joiners, refused.Load())
			}
			if list, err := w.store.Members(t.Context(), "", 10); err != nil || len(list) != 1 {
				t.Errorf("%d members, %v", len(list), err)
			}
		})
	}
}

// A joiner whose answer got lost asks again, with the keys that it has kept.
func TestLostAnswer(t *testing.T) {
	w := newWorld(t, storetest.SQLite(t))
	token := w.token(rackA)
	dir := filepath.Join(t.TempDir(), "m")
	lose := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.auth.Handler(slog.New(slog.DiscardHandler)).ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	}))
	lose.TLS = &tls.Config{GetCertificate: w.auth.OwnCertificate().ForServer}
	lose.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	lose.StartTLS()
	defer lose.Close()
	lost := token
	lost.URL = lose.URL
	if _, err := membership.Join(t.Context(), lost, dir, ""); err == nil {
		t.Fatal("the answer was not lost")
	}
	m, err := membership.Join(t.Context(), token, dir, "")
	if err != nil {
		t.Fatalf("asking again: %v", err)
	}
	if list, err := w.store.Members(t.Context(), "", 10); err != nil || len(list) != 1 || list[0].ID != m.ID {
		t.Errorf("members %v, %v, want the one", list, err)
	}
}

func TestTokensThatDoNotWork(t *testing.T) {
	w := newWorld(t, storetest.SQLite(t))
	expired, revoked, used := w.token(rackA), w.token(rackA), w.token(rackA)
	if _, err := w.join(used, ""); err != nil {
		t.Fatal(err)
	}
	if err := w.auth.RevokeToken(t.Context(), revoked.ID); err != nil {
		t.Fatal(err)
	}
	w.now.Store(int64(59 * time.Minute))
	guessed := w.token(rackA)
	guessed.Secret = join.NewSecret()
	unknown := w.token(rackA)
	unknown.ID = "01920000-0000-7000-8000-000000000000"
	good := w.token(rackA)
	w.now.Store(int64(61 * time.Minute))
	for _, c := range []struct {
		what, says string
		token      join.Token
	}{
		{"expired", "expired", expired}, {"revoked", "revoked", revoked}, {"used", "was used", used},
		{"with another secret", "no such token", guessed}, {"that nobody made", "no such token", unknown},
	} {
		if _, err := w.join(c.token, ""); refusal(err) != http.StatusForbidden || !strings.Contains(err.Error(), c.says) {
			t.Errorf("a token %s: %v, want 403 that says %q", c.what, err, c.says)
		}
	}
	if _, err := w.join(good, ""); err != nil {
		t.Errorf("a good token: %v", err)
	}
}

// The secret goes to nobody but the central whose fingerprint the token names.
func TestStrangersAreSentNothing(t *testing.T) {
	w := newWorld(t, storetest.SQLite(t))
	token := w.token(rackA)
	heard := atomic.Int64{}
	listen := func(config *tls.Config) string {
		srv := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { heard.Add(1) }))
		srv.TLS = config
		srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
		srv.StartTLS()
		t.Cleanup(srv.Close)
		return srv.URL
	}
	other := newWorld(t, storetest.SQLite(t))
	// A rackd of this very fleet, with the key of its own certificate, and the fleet's
	// certificate beside it.
	m, err := w.join(w.token(rackA), "")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(m.Path(membership.IdentityFile), m.Path(membership.IdentityFile))
	if err != nil {
		t.Fatal(err)
	}
	pair.Certificate = append(pair.Certificate, w.auth.Certificate().Raw)
	// A server of this fleet's hub: it may serve, but not as central.
	hub, err := w.join(w.token(join.Scope{Role: join.Hub, Name: "h", Address: "127.0.0.1"}), "")
	if err != nil {
		t.Fatal(err)
	}
	server, err := tls.LoadX509KeyPair(hub.Path(membership.IdentityFile), hub.Path(membership.IdentityFile))
	if err != nil {
		t.Fatal(err)
	}
	server.Certificate = append(server.Certificate, w.auth.Certificate().Raw)
	for what, config := range map[string]*tls.Config{
		"another fleet's":                        {GetCertificate: other.auth.OwnCertificate().ForServer},
		"a certificate that signs itself":        nil,
		"a rackd's":                              {Certificates: []tls.Certificate{pair}},
		"a server's of the hub":                  {Certificates: []tls.Certificate{server}},
		"another's, with the fleet's root aside": {GetCertificate: withRoot(other.auth, w.auth)},
	} {
		lure := token
		lure.URL = listen(config)
		if _, err := w.join(lure, ""); !errors.Is(err, join.ErrStranger) {
			t.Errorf("central shows %s: %v, want ErrStranger", what, err)
		}
	}
	// One that is genuine and sends the joiner elsewhere.
	elsewhere := listen(&tls.Config{GetCertificate: w.auth.OwnCertificate().ForServer})
	redirect := httptest.NewUnstartedServer(http.RedirectHandler(elsewhere, http.StatusTemporaryRedirect))
	redirect.TLS = &tls.Config{GetCertificate: w.auth.OwnCertificate().ForServer}
	redirect.StartTLS()
	defer redirect.Close()
	lure := token
	lure.URL = redirect.URL
	if _, err := w.join(lure, ""); refusal(err) != http.StatusTemporaryRedirect {
		t.Errorf("a redirect: %v", err)
	}
	if heard.Load() != 0 {
		t.Errorf("%d requests were sent to strangers", heard.Load())
	}
	if _, err := w.join(token, ""); err != nil {
		t.Errorf("the token at its own central: %v", err)
	}
}

// withRoot serves a's certificate with the root of b in the chain.
func withRoot(a, b *enrol.Authority) func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	own := a.OwnCertificate()
	return func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
		c, err := own.ForServer(h)
		if err != nil {
			return nil, err
		}
		out := *c
		out.Certificate = append(append([][]byte(nil), c.Certificate...), b.Certificate().Raw)
		return &out, nil
	}
}

func TestNames(t *testing.T) {
	w := newWorld(t, storetest.SQLite(t))
	open := rackA
	open.Name = ""
	first, err := w.join(w.token(open), "R7.example")
	if err != nil || first.Scope.Name != "r7.example" {
		t.Fatalf("a name of the joiner's choice: %v, %v", first, err)
	}
	if _, err := w.join(w.token(open), "r7.EXAMPLE"); refusal(err) != http.StatusConflict {
		t.Errorf("a name that is taken: %v, want 409", err)
	}
	for _, bad := range []string{"", "*", "a b", "x>", "rack/1", strings.Repeat("x", 300)} {
		if _, err := w.join(w.token(open), bad); refusal(err) != http.StatusBadRequest {
			t.Errorf("name %q: %v, want 400", bad, err)
		}
	}
	// A token that names a member replaces it.
	named := open
	named.Name = "r7.example"
	second, err := w.join(w.token(named), "ignored")
	if err != nil || second.Scope.Name != "r7.example" || second.ID == first.ID {
		t.Fatalf("replacing: %+v, %v", second, err)
	}
	if _, err := first.Renew(t.Context()); refusal(err) != http.StatusForbidden || !strings.Contains(err.Error(), "replaced") {
		t.Errorf("renewal of the one that was replaced: %v", err)
	}
}

func TestScopesThatNobodyGets(t *testing.T) {
	w := newWorld(t, storetest.SQLite(t))
	for _, s := range []join.Scope{
		{Role: "admin"}, {Role: join.Rackd, Site: "east", Group: "*"}, {Role: join.Rackd, Site: "east", Group: ">"}, {Role: join.Rackd, Site: "east", Group: "a", FailoverOf: []string{"*"}},
		{Role: join.Rackd, Site: "east", Group: "a", FailoverOf: []string{"A"}}, {Role: join.Rackd, Group: "a"}, {Role: join.Rackd, Site: "e.w", Group: "a"},
		{Role: join.Rackd, Site: "*", Group: "a"}, {Role: join.Bus, Site: "east"}, {Role: join.Bus, Site: "east", Address: "a b"}, {Role: join.Hub, Site: "east", Address: "h"},
		{Role: join.Bus, Site: "east", Address: "10.0.0.1:x"}, {Role: join.Bus, Site: "east", Address: "h", Peers: []string{`"`}}, {Role: join.Rackd, Site: "east", Group: "a", Address: "h"},
	} {
		if tokens, err := w.auth.NewTokens(t.Context(), join.Central{URL: w.url}, time.Hour, s); err == nil {
			t.Errorf("a token for %+v: %v", s, tokens)
		}
	}
	for _, life := range []time.Duration{0, -time.Hour} {
		if _, err := w.auth.NewTokens(t.Context(), join.Central{URL: w.url}, life, rackA); err == nil {
			t.Errorf("a token that works for %s", life)
		}
	}
	for _, url := range []string{"http://central", "central", "https://", "https://u:p@central"} {
		if _, err := w.auth.NewTokens(t.Context(), join.Central{URL: url}, time.Hour, rackA); err == nil {
			t.Errorf("a token that sends joiners to %q", url)
		}
	}
}

func TestRenew(t *testing.T) {
	w := newWorld(t, storetest.SQLite(t))
	m, err := w.join(w.token(rackA), "")
	if err != nil {
		t.Fatal(err)
	}
	identity := read(t, m.Path(membership.IdentityFile))
	creds := read(t, m.Path(membership.CredentialsFile))
	w.now.Store(int64(24 * time.Hour))
	expires := m.Expires
	if changed, err := m.Renew(t.Context()); err != nil || changed {
		t.Fatalf("renewal: changed %t, %v", changed, err)
	}
	if m.Expires.Sub(expires) < 23*time.Hour || bytes.Equal(identity, read(t, m.Path(membership.IdentityFile))) || bytes.Equal(creds, read(t, m.Path(membership.CredentialsFile))) {
		t.Errorf("nothing lasts longer: %v, then %v", expires, m.Expires)
	}
	// A key of the fleet that is new reaches the rackd.
	fresh, _ := seal.GenerateKey()
	m.Central.URL = w.serve(w.open(fresh.WithOlder(w.key)))
	if changed, err := m.Renew(t.Context()); err != nil || !changed {
		t.Errorf("renewal under a new key: changed %t, %v", changed, err)
	}
	ring, err := m.Keyring()
	if err != nil {
		t.Fatal(err)
	}
	want, _ := fresh.WithOlder(w.key).ForGroup("rack-a")
	if got := ring.Of("rack-a"); got.Text() != want.Text() || len(got.Generations()) != 2 {
		t.Errorf("keys after the renewal: %d generations", len(got.Generations()))
	}
	// One that was away for too long joins anew.
	w.now.Store(int64(200 * 24 * time.Hour))
	if _, err := m.Renew(t.Context()); refusal(err) != http.StatusForbidden || !strings.Contains(err.Error(), "join again") {
		t.Errorf("renewal of what has expired: %v", err)
	}
}

func TestRenewalsThatAreRefused(t *testing.T) {
	w := newWorld(t, storetest.SQLite(t))
	m, err := w.join(w.token(rackA), "")
	if err != nil {
		t.Fatal(err)
	}
	stranger := newWorld(t, storetest.SQLite(t))
	foreign, err := stranger.join(stranger.token(rackA), "")
	if err != nil {
		t.Fatal(err)
	}
	central := join.Central{URL: w.url, Fingerprint: join.Fingerprint(w.auth.Certificate()), ServerName: join.CentralName}
	certificate := func(m *membership.Member) string {
		for rest := read(t, m.Path(membership.IdentityFile)); ; {
			var block *pem.Block
			if block, rest = pem.Decode(rest); block == nil || block.Type == "CERTIFICATE" {
				return string(pem.EncodeToMemory(block))
			}
		}
	}
	root := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.auth.Certificate().Raw}))
	for what, r := range map[string]join.Renewal{
		"a certificate without its key":      {Certificate: certificate(m), Signature: "AAAA"},
		"a certificate of another fleet":     {Certificate: certificate(foreign)},
		"the root":                           {Certificate: root},
		"nothing":                            {},
		"what is no certificate":             {Certificate: "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"},
		"a signature of another's statement": {Certificate: certificate(m), CSR: "x", Signature: "MEUCIQ=="},
	} {
		if _, err := central.Renew(t.Context(), r); refusal(err) != http.StatusForbidden {
			t.Errorf("renewal with %s: %v, want 403", what, err)
		}
	}
	if err := w.auth.RevokeMember(t.Context(), join.Rackd, "r1"); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Renew(t.Context()); refusal(err) != http.StatusForbidden || !strings.Contains(err.Error(), "revoked") {
		t.Errorf("renewal of a member that was revoked: %v", err)
	}
	if err := w.auth.RevokeMember(t.Context(), join.Rackd, "r1"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("revoking again: %v, want ErrNotFound", err)
	}
}

// Replicas that start at once have one authority between them.
func TestReplicasShareTheAuthority(t *testing.T) {
	for _, address := range engines {
		key, _ := seal.GenerateKey()
		db := storetest.Open(t, address(t))
		roots := make([]string, 6)
		var wg sync.WaitGroup
		for i := range roots {
			wg.Go(func() {
				a, err := enrol.Open(t.Context(), db, key, nil)
				if err != nil {
					t.Error(err)
					return
				}
				roots[i] = join.Fingerprint(a.Certificate())
			})
		}
		wg.Wait()
		for _, r := range roots {
			if r == "" || r != roots[0] {
				t.Errorf("authorities %q", roots)
			}
		}
		wrong, _ := seal.GenerateKey()
		if _, err := enrol.Open(t.Context(), db, wrong, nil); !errors.Is(err, seal.ErrOpen) {
			t.Errorf("with another key of the fleet: %v, want ErrOpen", err)
		}
	}
}

// A certificate opens no more than its role needs.
func TestCertificatesFitTheirRole(t *testing.T) {
	w := newWorld(t, storetest.SQLite(t))
	roots := x509.NewCertPool()
	roots.AddCert(w.auth.Certificate())
	for _, c := range []struct {
		scope  join.Scope
		server bool
		names  string
	}{
		{rackA, false, ""},
		{join.Scope{Role: join.Bus, Site: "east", Name: "e1", Address: "10.1.0.5"}, true, "10.1.0.5"},
		{join.Scope{Role: join.Hub, Name: "h1", Address: "hub.example"}, true, "hub.example"},
	} {
		m, err := w.join(w.token(c.scope), "")
		if err != nil {
			t.Fatal(err)
		}
		pair, err := tls.LoadX509KeyPair(m.Path(membership.IdentityFile), m.Path(membership.IdentityFile))
		if err != nil {
			t.Fatal(err)
		}
		for usage, want := range map[x509.ExtKeyUsage]bool{x509.ExtKeyUsageClientAuth: true, x509.ExtKeyUsageServerAuth: c.server} {
			_, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{usage}})
			if (err == nil) != want {
				t.Errorf("%s: usage %v: %v", c.scope, usage, err)
			}
		}
		if got := pair.Leaf.VerifyHostname(c.names) == nil; got != c.server {
			t.Errorf("%s: good for %q: %t", c.scope, c.names, got)
		}
		if pair.Leaf.IsCA || pair.Leaf.VerifyHostname(join.CentralName) == nil || pair.Leaf.VerifyHostname("localhost") == nil {
			t.Errorf("%s: its certificate says too much: %v", c.scope, pair.Leaf.DNSNames)
		}
	}
}

func FuzzEnrol(f *testing.F) {
	key, _ := seal.NewKey(make([]byte, 32))
	db, err := store.Open(context.Background(), storetest.SQLite(f), store.Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { db.Close() })
	if _, err := db.Migrate(context.Background()); err != nil {
		f.Fatal(err)
	}
	auth, err := enrol.Open(context.Background(), db, key, nil)
	if err != nil {
		f.Fatal(err)
	}
	h := auth.Handler(slog.New(slog.DiscardHandler))
	f.Add(true, []byte(`{"token":"x","secret":"y","csr":"-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n","user_key":"UA"}`))
	f.Add(false, []byte(`{"certificate":"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n","csr":"","signature":""}`))
	f.Add(true, []byte(`[`))
	f.Fuzz(func(t *testing.T, enrol bool, body []byte) {
		path := join.RenewPath
		if enrol {
			path = join.EnrolPath
		}
		rw := httptest.NewRecorder()
		h.ServeHTTP(rw, httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body)))
		var no join.Failure
		if rw.Code != http.StatusBadRequest && rw.Code != http.StatusForbidden || json.Unmarshal(rw.Body.Bytes(), &no) != nil || no.Error == "" {
			t.Errorf("%d %s", rw.Code, rw.Body)
		}
	})
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
