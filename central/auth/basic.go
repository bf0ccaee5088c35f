package auth

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"maps"
	"net/http"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/crypto/bcrypt"
)

// Basic authenticates by HTTP basic against a file of users, all of whom administer the
// system, as with Ironic's http_basic.
//
// A bcrypt hash takes long to check, by design. A password that was found right is
// remembered under a key of this process, together with the hash that it fits: another
// hash in the file, and it is checked again. Checks that run at a time are bounded, so that
// guessing passwords does not keep others from being served; each goes through the request's Door first.
type Basic struct {
	users   func() Users
	key     []byte
	checks  chan struct{}
	mu      sync.Mutex
	known   map[[sha256.Size]byte]bool
	callers map[string]*Caller
	decoys  decoys
}

// maxKnown bounds the passwords that are remembered.
const maxKnown = 4096

// decoys are the hashes of a file's users. Where there is no such user the password is compared with one of them, which
// the name chooses: so names that there are not take the times that names take that there are, also in a file
// whose passwords cost different times.
type decoys struct {
	of     uintptr // the file that they are of
	hashes [][]byte
}

// noUsers is what is compared with where the file names no user.
var noUsers = []byte("$2a$10$7EqJtq98hPqEX7fNZaFWoOhi6gBdgxZ5Y3C6ZJxLCnYCG7DVGz2hC")

// decoy is the hash for a name that none of the users has.
func (b *Basic) decoy(users Users, name string) []byte {
	if len(users) == 0 {
		return noUsers
	}
	b.mu.Lock()
	if of := reflect.ValueOf(users).Pointer(); b.decoys.of != of || len(b.decoys.hashes) != len(users) {
		b.decoys = decoys{of, make([][]byte, 0, len(users))}
		for _, user := range slices.Sorted(maps.Keys(users)) {
			b.decoys.hashes = append(b.decoys.hashes, users[user])
		}
	}
	hashes := b.decoys.hashes
	b.mu.Unlock()
	mac := hmac.New(sha256.New, b.key)
	mac.Write([]byte(name))
	return hashes[binary.BigEndian.Uint64(mac.Sum(nil))%uint64(len(hashes))]
}

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
	users := b.users()
	fits := false
	if len(password) <= 72 { // bcrypt takes no more
		fits, err = b.fits(r, users, name, password)
	}
	switch {
	case err != nil:
		return nil, err
	case !fits:
		return nil, &Denied{Message: "Incorrect username or password", Reason: "wrong password, or no such user"}
	}
	return b.caller(name), nil
}

// fits reports whether a password is the user's; an error: there was no time to look.
func (b *Basic) fits(r *http.Request, users Users, name, password string) (bool, error) {
	hash := users[name]
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
	ctx, leave, err := enter(r.Context())
	if err != nil {
		return false, err
	}
	defer leave()
	select {
	case b.checks <- struct{}{}:
		defer func() { <-b.checks }()
	case <-ctx.Done():
		return false, &Denied{Status: http.StatusServiceUnavailable, Title: "Service Unavailable", Message: "Too many passwords wait to be checked. Please retry.",
			Reason: "the password was not checked in time, because many others wait for their check: a caller may be guessing passwords"}
	}
	compared := hash
	if hash == nil {
		compared = b.decoy(users, name)
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
