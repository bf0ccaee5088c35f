package amt

import (
	"crypto/md5" // RFC 2617 has AMT use it
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
)

// challenge is what a server wants a digest for (RFC 2617), and how often it was answered.
type challenge struct {
	realm, nonce, opaque, qop string
	count                     int
}

// parseChallenge reads a WWW-Authenticate header.
func parseChallenge(header string) (*challenge, error) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(header), "Digest ")
	if !ok {
		return nil, fmt.Errorf("it wants no digest, but %.20q", header)
	}
	c := &challenge{}
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
			c.realm = value
		case "nonce":
			c.nonce = value
		case "opaque":
			c.opaque = value
		case "qop":
			for _, q := range strings.Split(value, ",") {
				if strings.TrimSpace(q) == "auth" {
					c.qop = "auth"
				}
			}
		case "algorithm":
			if !strings.EqualFold(value, "MD5") {
				return nil, fmt.Errorf("it wants digests by %.20q, and MD5 alone is known", value)
			}
		}
	}
	if c.nonce == "" {
		return nil, fmt.Errorf("its challenge has no nonce: %.100q", header)
	}
	return c, nil
}

func md5Hex(text string) string {
	sum := md5.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

// answer is an Authorization header for one request.
func (c *challenge) answer(user, password, method, uri string) string {
	raw := make([]byte, 8)
	_, _ = rand.Read(raw) // it never fails
	c.count++
	return c.digest(user, password, method, uri, hex.EncodeToString(raw), c.count)
}

func (c *challenge) digest(user, password, method, uri, cnonce string, count int) string {
	ha1, ha2 := md5Hex(user+":"+c.realm+":"+password), md5Hex(method+":"+uri)
	header := fmt.Sprintf(`Digest username="%s", realm="%s", nonce="%s", uri="%s", algorithm=MD5`, user, c.realm, c.nonce, uri)
	if c.opaque != "" {
		header += fmt.Sprintf(`, opaque="%s"`, c.opaque)
	}
	if c.qop == "" {
		return header + fmt.Sprintf(`, response="%s"`, md5Hex(ha1+":"+c.nonce+":"+ha2))
	}
	nc := fmt.Sprintf("%08x", count)
	return header + fmt.Sprintf(`, qop=auth, nc=%s, cnonce="%s", response="%s"`, nc, cnonce, md5Hex(strings.Join([]string{ha1, c.nonce, nc, cnonce, "auth", ha2}, ":")))
}
