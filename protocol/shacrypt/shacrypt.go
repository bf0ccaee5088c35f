// Package shacrypt makes and checks passwords in the form in which Linux keeps them in /etc/shadow: SHA-crypt, of which the
// prefixes are $5$ (SHA-256) and $6$ (SHA-512). The source is Ulrich Drepper's "Unix crypt using SHA-256 and SHA-512".
//
// It imports nothing of the project. It keeps no state and is safe for concurrent use.
package shacrypt

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"errors"
	"fmt"
	"hash"
	"strconv"
	"strings"
)

const (
	defaultRounds = 5000
	minRounds     = 1000
	// maxRounds bounds the time for which another's hash keeps a processor busy: some seconds.
	maxRounds = 1_000_000
	maxSalt   = 16
	// MaxPassword bounds a password, in bytes: the time to hash one grows with the square of its length.
	MaxPassword = 4 << 10
)

// alphabet of the encoding, which is not that of base64.
const alphabet = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// kind is one of the two functions.
type kind struct {
	prefix string
	new    func() hash.Hash
	// order is in which bytes of the digest are encoded, three a group; -1 is none.
	order []int
}

var kinds = []kind{
	{"$5$", sha256.New, []int{
		0, 10, 20, 21, 1, 11, 12, 22, 2, 3, 13, 23, 24, 4, 14, 15, 25, 5, 6, 16, 26, 27, 7, 17, 18, 28, 8, 9, 19, 29, -1, 31, 30}},
	{"$6$", sha512.New, []int{
		0, 21, 42, 22, 43, 1, 44, 2, 23, 3, 24, 45, 25, 46, 4, 47, 5, 26, 6, 27, 48, 28, 49, 7, 50, 8, 29, 9, 30, 51, 31, 52,
		10, 53, 11, 32, 12, 33, 54, 34, 55, 13, 56, 14, 35, 15, 36, 57, 37, 58, 16, 59, 17, 38, 18, 39, 60, 40, 61, 19, 62, 20, 41, -1, -1, 63}},
}

// errForm says that a text is no such hash. It does not repeat the text.
var errForm = errors.New("it is no SHA-crypt hash: that begins with $5$ or $6$, then has a salt of at most 16 characters and the digest")

// Hash hashes a password with SHA-256 and a salt of its own.
func Hash(password string) (string, error) {
	if len(password) > MaxPassword {
		return "", fmt.Errorf("hash a password: it has %d bytes, more than %d", len(password), MaxPassword)
	}
	raw := make([]byte, maxSalt)
	_, _ = rand.Read(raw) // it never fails
	for i, b := range raw {
		raw[i] = alphabet[b&63]
	}
	k := kinds[0]
	return k.prefix + string(raw) + "$" + k.digest(password, string(raw), defaultRounds), nil
}

// Check says whether a text is a hash that Verify can use.
func Check(hash string) error {
	_, err := parse(hash)
	return err
}

// Verify reports whether the password has that hash. It takes as long for a wrong password as for the right one, and
// reports false for a hash that Check refuses.
func Verify(hash, password string) bool {
	h, err := parse(hash)
	if err != nil || len(password) > MaxPassword {
		return false
	}
	return subtle.ConstantTimeCompare([]byte(h.digest), []byte(h.kind.digest(password, h.salt, h.rounds))) == 1
}

// parsed is a hash in its parts.
type parsed struct {
	kind         kind
	salt, digest string
	rounds       int
}

func parse(text string) (p parsed, err error) {
	for _, p.kind = range kinds {
		rest, ok := strings.CutPrefix(text, p.kind.prefix)
		if !ok {
			continue
		}
		p.rounds = defaultRounds
		if given, after, found := strings.Cut(rest, "$"); found && strings.HasPrefix(given, "rounds=") {
			if p.rounds, err = strconv.Atoi(given[len("rounds="):]); err != nil || p.rounds < minRounds || p.rounds > maxRounds {
				return p, fmt.Errorf("it asks for a number of rounds that is not within %d and %d", minRounds, maxRounds)
			}
			rest = after
		}
		var found bool
		if p.salt, p.digest, found = strings.Cut(rest, "$"); !found || len(p.salt) > maxSalt || len(p.digest) != p.kind.length() {
			return p, errForm
		}
		return p, nil
	}
	return p, errForm
}

// length of an encoded digest.
func (k kind) length() int { return len(k.encode(make([]byte, k.new().Size()))) }

// digest is the algorithm; the letters are those of its description.
func (k kind) digest(password, salt string, rounds int) string {
	p, s := []byte(password), []byte(salt)
	b := k.sum(p, s, p)
	a := k.new()
	a.Write(p)
	a.Write(s)
	a.Write(repeated(b, len(p)))
	for n := len(p); n > 0; n >>= 1 {
		if n&1 != 0 {
			a.Write(b)
		} else {
			a.Write(p)
		}
	}
	sum := a.Sum(nil)
	dp := k.new()
	for range p {
		dp.Write(p)
	}
	pp := repeated(dp.Sum(nil), len(p))
	ds := k.new()
	for range 16 + int(sum[0]) {
		ds.Write(s)
	}
	ss := repeated(ds.Sum(nil), len(s))
	c := k.new()
	for i := range rounds {
		c.Reset()
		if i&1 != 0 {
			c.Write(pp)
		} else {
			c.Write(sum)
		}
		if i%3 != 0 {
			c.Write(ss)
		}
		if i%7 != 0 {
			c.Write(pp)
		}
		if i&1 != 0 {
			c.Write(sum)
		} else {
			c.Write(pp)
		}
		sum = c.Sum(sum[:0])
	}
	return k.encode(sum)
}

func (k kind) sum(parts ...[]byte) []byte {
	h := k.new()
	for _, p := range parts {
		h.Write(p)
	}
	return h.Sum(nil)
}

// repeated is a digest again and again, up to n bytes.
func repeated(digest []byte, n int) []byte {
	out := make([]byte, 0, n)
	for len(out) < n {
		out = append(out, digest[:min(len(digest), n-len(out))]...)
	}
	return out
}

// encode writes three bytes as four characters, and of the last group as many as its bytes need.
func (k kind) encode(sum []byte) string {
	var out strings.Builder
	for i := 0; i < len(k.order); i += 3 {
		v, chars := 0, 1
		for _, at := range k.order[i : i+3] {
			v <<= 8
			if at >= 0 {
				v |= int(sum[at])
				chars++
			}
		}
		for range chars {
			out.WriteByte(alphabet[v&63])
			v >>= 6
		}
	}
	return out.String()
}
