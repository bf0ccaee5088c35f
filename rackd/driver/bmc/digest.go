package bmc

import (
	"crypto/md5" // RFC 2617 has BMCs use it
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
)

// Challenge is what a server wants a digest for (RFC 2617), and how often it was answered. It is not safe for concurrent use: the holder
// of the BMC's turn has it.
type Challenge struct {
	// Realm, Nonce and Opaque are the server's. QOP is auth, or empty for the older form.
	Realm, Nonce, Opaque, QOP string
	count                     int
}

// ParseChallenge reads a WWW-Authenticate header.
func ParseChallenge(header string) (*Challenge, error) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(header), "Digest ")
	if !ok {
		return nil, fmt.Errorf("it wants no digest, but %.20q", header)
	}
	c := &Challenge{}
	for rest = strings.TrimSpace(rest); rest != ""; {
		name, after, found := strings.Cut(rest, "=")
		if !found {
			return nil, fmt.Errorf("its challenge is cut off: %.100q", header)
		}
		var value string
		if quoted, isQuoted := strings.CutPrefix(after, `"`); isQuoted {
			if value, rest, found = strings.Cut(quoted, `"`); !found {
				return nil, fmt.Errorf("its challenge is cut off: %.100q", header)
			}
		} else {
			value, rest, _ = strings.Cut(after, ",")
		}
		rest = strings.TrimLeft(rest, ", ")
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "realm":
			c.Realm = value
		case "nonce":
			c.Nonce = value
		case "opaque":
			c.Opaque = value
		case "qop":
			for _, q := range strings.Split(value, ",") {
				if strings.TrimSpace(q) == "auth" {
					c.QOP = "auth"
				}
			}
		case "algorithm":
			if !strings.EqualFold(value, "MD5") {
				return nil, fmt.Errorf("it wants digests by %.20q, and MD5 alone is known", value)
			}
		}
	}
	if c.Nonce == "" {
		return nil, fmt.Errorf("its challenge has no nonce: %.100q", header)
	}
	return c, nil
}

func md5Hex(text string) string {
	sum := md5.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

// Answer is an Authorization header for one request. The password is in no part of it.
func (c *Challenge) Answer(user, password, method, uri string) string {
	raw := make([]byte, 8)
	_, _ = rand.Read(raw) // it never fails
	c.count++
	return c.Digest(user, password, method, uri, hex.EncodeToString(raw), c.count)
}

// Digest is the answer with a client nonce and a count of its own.
func (c *Challenge) Digest(user, password, method, uri, cnonce string, count int) string {
	ha1, ha2 := md5Hex(user+":"+c.Realm+":"+password), md5Hex(method+":"+uri)
	header := fmt.Sprintf(`Digest username="%s", realm="%s", nonce="%s", uri="%s", algorithm=MD5`, user, c.Realm, c.Nonce, uri)
	if c.Opaque != "" {
		header += fmt.Sprintf(`, opaque="%s"`, c.Opaque)
	}
	if c.QOP == "" {
		return header + fmt.Sprintf(`, response="%s"`, md5Hex(ha1+":"+c.Nonce+":"+ha2))
	}
	nc := fmt.Sprintf("%08x", count)
	return header + fmt.Sprintf(`, qop=auth, nc=%s, cnonce="%s", response="%s"`, nc, cnonce, md5Hex(strings.Join([]string{ha1, c.Nonce, nc, cnonce, "auth", ha2}, ":")))
}
