package auth

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"runtime"
	"strings"
	"sync"

	"golang.org/x/crypto/bcrypt"
)

// Basic authenticates by HTTP basic against a file of users, all of whom administer the
// system, as with Ironic's http_basic.
//
// A bcrypt hash takes long to check, by design. A password that was found right is
// remembered under a key of this process, together with the hash that it fits: another
// hash in the file, and it is checked anew. Checks that run at a time are bounded, so that
// guessing passwords does not keep others from being served.
type Basic struct {
	users   func() Users
	key     []byte
	checks  chan struct{}
	mu      sync.Mutex
	known   map[[sha256.Size]byte]bool
	callers map[string]*Caller
}

// maxKnown bounds the passwords that are remembered.
const maxKnown = 4096

// decoy is compared with where there is no such user, so that the time an answer takes
// does not tell.
var decoy = []byte("$2a$10$7EqJtq98hPqEX7fNZaFWoOhi6gBdgxZ5Y3C6ZJxLCnYCG7DVGz2hC")

// NewBasic makes the strategy. users returns the users as they are now.
func NewBasic(users func() Users) *Basic {
	b := &Basic{users: users, key: make([]byte, 32), checks: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)-1)),
		known: map[[sha256.Size]byte]bool{}, callers: map[string]*Caller{}}
	rand.Read(b.key) // never fails
	return b
}

// Authenticate implements Strategy.
func (b *Basic) Authenticate(r *http.Request) (*Caller, error) {
	kind, rest, _ := strings.Cut(strings.TrimSpace(r.Header.Get("Authorization")), " ")
	if !strings.EqualFold(kind, "basic") {
		return nil, ErrNone
	}
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(rest))
	name, password, found := strings.Cut(string(raw), ":")
	if err != nil || !found {
		return nil, &Denied{Status: http.StatusBadRequest, Message: "Could not decode Authorization header", Reason: "the Authorization header is not what HTTP basic has"}
	}
	hash := b.users()[name]
	fits := false
	if len(password) <= 72 { // bcrypt takes no more
		fits, err = b.fits(r, name, hash, password)
	}
	switch {
	case err != nil:
		return nil, err
	case !fits:
		return nil, &Denied{Message: "Incorrect username or password", Reason: "wrong password, or no such user"}
	}
	return b.caller(name), nil
}

// fits reports whether a password is the user's; an error: nobody had the time to look.
func (b *Basic) fits(r *http.Request, name string, hash []byte, password string) (bool, error) {
	mac := hmac.New(sha256.New, b.key)
	for _, part := range []string{name, string(hash), password} {
		mac.Write([]byte(part))
		mac.Write([]byte{0})
	}
	id := [sha256.Size]byte(mac.Sum(nil))
	b.mu.Lock()
	known := b.known[id]
	b.mu.Unlock()
	if known {
		return true, nil
	}
	select {
	case b.checks <- struct{}{}:
		defer func() { <-b.checks }()
	case <-r.Context().Done():
		return false, &Denied{Status: http.StatusServiceUnavailable, Title: "Service Unavailable", Message: "Too many passwords wait to be checked. Please retry.",
			Reason: "the password was not checked in time, for many others wait to be: somebody may be guessing"}
	}
	compared := hash
	if hash == nil {
		compared = decoy
	}
	if bcrypt.CompareHashAndPassword(compared, []byte(password)) != nil || hash == nil {
		return false, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.known) >= maxKnown {
		clear(b.known)
	}
	b.known[id] = true
	return true, nil
}

// caller returns the one caller of a name.
func (b *Basic) caller(name string) *Caller {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.callers[name]
	if c == nil {
		c = &Caller{User: name, UserID: name, System: true, Unscoped: true, Roles: implied([]string{"admin"})}
		b.callers[name] = c
	}
	return c
}

// Missing implements Strategy, in the words of Ironic's middleware.
func (b *Basic) Missing() *Denied {
	return &Denied{Message: "Authorization required", Reason: "no credentials"}
}

// Challenges implements Strategy.
func (b *Basic) Challenges() []string { return []string{`Basic realm="Baremetal API"`} }
