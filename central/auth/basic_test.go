package auth

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"
)

func hashed(t testing.TB, password string) string {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return string(hash)
}

func basic(name, password string) *http.Request {
	r := httptest.NewRequest("GET", "/v1/nodes", nil)
	r.SetBasicAuth(name, password)
	return r
}

func status(err error) int {
	d, ok := errors.AsType[*Denied](err)
	switch {
	case !ok:
		return 0
	case d.Status == 0:
		return 401
	}
	return d.Status
}

func TestBasic(t *testing.T) {
	users, err := ParseUsers([]byte("# operators\n\nann:" + strings.Replace(hashed(t, "one"), "$2a$", "$2y$", 1) + "\nbob:" + hashed(t, "two") + "\r\n"))
	if err != nil {
		t.Fatal(err)
	}
	b := NewBasic(func() Users { return users })
	for range 2 { // the second time from memory
		c, err := b.Authenticate(basic("ann", "one"))
		if err != nil || c.User != "ann" || !c.System || !c.Has("admin") || !c.Has("reader") || c.Has("service") {
			t.Fatalf("ann is %+v, %v", c, err)
		}
	}
	for _, r := range []*http.Request{basic("ann", "two"), basic("bob", "one"), basic("eve", "one"), basic("ann", ""), basic("", ""), basic("ann", strings.Repeat("x", 100))} {
		name, password, _ := r.BasicAuth()
		if _, err := b.Authenticate(r); status(err) != 401 {
			t.Errorf("%s %.10q: %v", name, password, err)
		}
	}
	// Another password, or no such user any more: what was remembered does not count.
	users = Users{"ann": []byte(hashed(t, "three"))}
	for _, c := range []struct {
		name, password string
		want           int
	}{{"ann", "one", 401}, {"ann", "three", 0}, {"bob", "two", 401}} {
		if _, err := b.Authenticate(basic(c.name, c.password)); status(err) != c.want {
			t.Errorf("after the change %s %s: %v", c.name, c.password, err)
		}
	}
}

// Who waits for others' passwords to be checked for longer than a request may take is not told
// that the password is wrong, which may be right.
func TestBasicWithoutTime(t *testing.T) {
	users := Users{"ann": []byte(hashed(t, "one"))}
	b := NewBasic(func() Users { return users })
	for range cap(b.checks) {
		b.checks <- struct{}{} // somebody else's
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Authenticate(basic("ann", "one").WithContext(ctx)); status(err) != 503 {
		t.Errorf("without time: %v", err)
	}
	for range cap(b.checks) {
		<-b.checks
	}
	if _, err := b.Authenticate(basic("ann", "one")); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func TestBasicHeader(t *testing.T) {
	b := NewBasic(func() Users { return nil })
	for header, want := range map[string]int{"Basic ?": 400, "Basic YWJj": 400, "basic": 400} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Authorization", header)
		if _, err := b.Authenticate(r); status(err) != want {
			t.Errorf("%q: %v", header, err)
		}
	}
	for _, header := range []string{"", "Bearer x"} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Authorization", header)
		if _, err := b.Authenticate(r); !errors.Is(err, ErrNone) {
			t.Errorf("%q: %v", header, err)
		}
	}
	if _, err := bcrypt.Cost(noUsers); err != nil || len(noUsers) != 60 {
		t.Errorf("where there is no user names take no time: the decoy has %d bytes, %v", len(noUsers), err)
	}
}

func TestUsersFile(t *testing.T) {
	hash := hashed(t, "x")
	for text, want := range map[string]string{
		"":                              "names no user",
		"ann":                           "line 1: want NAME:HASH",
		"ann:" + hash + "\nbob:{SHA}x=": `line 2: the password of "bob" is not hashed with bcrypt`,
		"ann:" + hash + "\nann:" + hash: `line 2: user "ann" is listed twice`,
		":" + hash:                      "line 1: want NAME:HASH",
		"J\xf6rg:" + hash:               "line 1: the name is not written in UTF-8",
	} {
		if _, err := ParseUsers([]byte(text)); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "{SHA}") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzParseUsers(f *testing.F) {
	f.Add([]byte("ann:$2y$05$abcdefghijklmnopqrstuv\n#x\n:"))
	f.Fuzz(func(t *testing.T, text []byte) {
		users, err := ParseUsers(text)
		if err == nil && len(users) == 0 {
			t.Error("a file without users is taken")
		}
	})
}

func TestChain(t *testing.T) {
	users := Users{"ann": []byte(hashed(t, "one"))}
	k, err := NewKeystone(KeystoneConfig{URL: "http://127.0.0.1:1/v3/", Username: "u", Password: "p", PublicURL: "https://keys"})
	if err != nil {
		t.Fatal(err)
	}
	c := Chain{k, NewBasic(func() Users { return users })}
	if caller, err := c.Authenticate(basic("ann", "one")); err != nil || caller.User != "ann" {
		t.Errorf("the second strategy: %v", err)
	}
	_, err = c.Authenticate(httptest.NewRequest("GET", "/", nil))
	if d, ok := errors.AsType[*Denied](err); !ok || d.Title != "Unauthorized" {
		t.Errorf("nobody: %v", err)
	}
	if got := strings.Join(c.Challenges(), "; "); got != `Keystone uri="https://keys"; Basic realm="Baremetal API"` {
		t.Errorf("challenges %s", got)
	}
}

func BenchmarkBasicRemembered(b *testing.B) {
	users := Users{"ann": []byte(hashed(b, "one"))}
	s, r := NewBasic(func() Users { return users }), basic("ann", "one")
	for b.Loop() {
		if _, err := s.Authenticate(r); err != nil {
			b.Fatal(err)
		}
	}
}
