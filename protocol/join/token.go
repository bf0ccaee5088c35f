package join

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// prefix begins the text of every token, and says its version.
const prefix = "iyjoin1_"

// maxToken bounds the text of a token.
const maxToken = 8 << 10

// checksum is how many bytes of the contents' SHA-256 end the text: enough to tell
// a paste that lost its end from one that is whole.
const checksum = 4

// Token lets one server or rackd join, once. Its secret is for nobody's eyes but the
// joiner's.
type Token struct {
	// URL is where central takes enrolments; https.
	URL string `json:"url"`
	// Fingerprint is the hex SHA-256 of a certificate that central's chain holds: of
	// the fleet's own authority, or of what the operator's certificate hangs on.
	Fingerprint string `json:"pin"`
	// ServerName is the name in central's certificate; empty: the host in URL.
	ServerName string    `json:"server_name,omitempty"`
	ID         string    `json:"id"`
	Secret     string    `json:"secret"`
	Expires    time.Time `json:"expires"`
	// Scope is what the token is for. It is here for people: central goes by what it
	// keeps under ID.
	Scope Scope `json:"scope"`
}

// NewSecret returns the secret of a new token: 32 random bytes as text.
func NewSecret() string {
	raw := make([]byte, 32)
	rand.Read(raw) // never fails: crypto/rand ends the program instead
	return base64.RawURLEncoding.EncodeToString(raw)
}

// Fingerprint is that of a certificate in a token.
func Fingerprint(c *x509.Certificate) string {
	sum := sha256.Sum256(c.Raw)
	return hex.EncodeToString(sum[:])
}

// String is the token as it is pasted. It holds the secret.
func (t Token) String() string {
	body, err := json.Marshal(t)
	if err != nil {
		panic(err) // strings and a time
	}
	sum := sha256.Sum256(body)
	return prefix + base64.RawURLEncoding.EncodeToString(append(body, sum[:checksum]...))
}

// ParseToken reads what String wrote. White space, which terminals and mail put in,
// is left out.
func ParseToken(text string) (Token, error) {
	var t Token
	text = strings.Join(strings.Fields(text), "")
	rest, ours := strings.CutPrefix(text, prefix)
	switch {
	case len(text) > maxToken:
		return t, fmt.Errorf("the token has %d characters, more than %d", len(text), maxToken)
	case !ours:
		return t, fmt.Errorf("that is not a token: a token begins with %s", prefix)
	}
	raw, err := base64.RawURLEncoding.DecodeString(rest)
	if err != nil || len(raw) < checksum {
		return t, errors.New("the token is damaged: paste it again, as a whole")
	}
	body, sum := raw[:len(raw)-checksum], raw[len(raw)-checksum:]
	if want := sha256.Sum256(body); !bytes.Equal(sum, want[:checksum]) {
		return t, errors.New("the token is not whole: paste it again")
	}
	if err := json.Unmarshal(body, &t); err != nil {
		return t, fmt.Errorf("the token's contents: %w", err)
	}
	return t, t.check()
}

func (t Token) check() error {
	u, err := url.Parse(t.URL)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
		return fmt.Errorf("the token's URL %.200q is not https://HOST", t.URL)
	}
	if pin, err := hex.DecodeString(t.Fingerprint); err != nil || len(pin) != sha256.Size {
		return errors.New("the token has no fingerprint of central's certificate")
	}
	if t.ID == "" || len(t.Secret) < 32 {
		return errors.New("the token has no secret")
	}
	if err := t.Scope.Check(false); err != nil {
		return fmt.Errorf("the token's scope: %w", err)
	}
	return nil
}
