// Package seal keeps secrets closed: AES-256-GCM under a key of the fleet, with
// the node's UUID as associated data, so that a sealed value copied to another
// node does not open. A rack gets a key derived for its conductor group only.
//
// It may import nothing of the project. Open secrets live in memory only, and
// IsSecret is the one place that says which fields are secret.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Prefix begins every sealed value.
const Prefix = "sealed:v1:"

// ErrOpen means that a sealed value does not open under this key for this node.
var ErrOpen = errors.New("sealed value does not open: wrong key, or it belongs to another node")

// Key seals and opens. It is immutable and safe for concurrent use.
type Key struct {
	raw  []byte
	aead cipher.AEAD
}

// NewKey makes a key of 32 bytes.
func NewKey(raw []byte) (*Key, error) {
	if len(raw) != 32 {
		return nil, fmt.Errorf("secret key has %d bytes, want 32", len(raw))
	}
	block, err := aes.NewCipher(raw)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	return &Key{raw: append([]byte(nil), raw...), aead: aead}, nil
}

// ParseKey reads a key as it is kept in a file: 32 bytes in base64.
func ParseKey(text string) (*Key, error) {
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil {
		return nil, fmt.Errorf("secret key is not base64: %w", err)
	}
	return NewKey(raw)
}

// GenerateKey returns a new random key.
func GenerateKey() (*Key, error) {
	raw := make([]byte, 32)
	if _, err := io.ReadFull(rand.Reader, raw); err != nil {
		return nil, err
	}
	return NewKey(raw)
}

// Text is the key as ParseKey reads it: keep it out of logs.
func (k *Key) Text() string { return base64.StdEncoding.EncodeToString(k.raw) }

// ForGroup derives the key of a conductor group, all that a rack of it needs.
func (k *Key) ForGroup(group string) (*Key, error) {
	raw, err := hkdf.Key(sha256.New, k.raw, nil, "ironyard group "+strings.ToLower(group), 32)
	if err != nil {
		return nil, err
	}
	return NewKey(raw)
}

// Token derives an agent token for one piece of work: every rackd of the group
// can check it, none needs to remember it.
func (k *Key) Token(node, work string) string {
	mac := hmac.New(sha256.New, k.raw)
	fmt.Fprintf(mac, "agent token\x00%s\x00%s", node, work)
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// Seal closes plain for node.
func (k *Key) Seal(node, plain string) string {
	nonce := make([]byte, k.aead.NonceSize())
	rand.Read(nonce) // never fails: crypto/rand ends the program instead
	return Prefix + base64.StdEncoding.EncodeToString(k.aead.Seal(nonce, nonce, []byte(plain), []byte(node)))
}

// Open returns what Seal closed, or ErrOpen.
func (k *Key) Open(node, sealed string) (string, error) {
	raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(sealed, Prefix))
	if err != nil || !Sealed(sealed) || len(raw) < k.aead.NonceSize() {
		return "", ErrOpen
	}
	n := k.aead.NonceSize()
	plain, err := k.aead.Open(nil, raw[:n], raw[n:], []byte(node))
	if err != nil {
		return "", ErrOpen
	}
	return string(plain), nil
}

// Sealed reports whether v is a sealed value.
func Sealed(v string) bool { return strings.HasPrefix(v, Prefix) }

// secretWords mark a field as secret wherever they occur in its name.
var secretWords = []string{"password", "secret", "token", "auth_key", "priv_key", "private_key", "passphrase", "community"}

// IsSecret reports whether a field of driver_info of that name holds a secret.
func IsSecret(field string) bool {
	f := strings.ToLower(field)
	for _, w := range secretWords {
		if strings.Contains(f, w) {
			return true
		}
	}
	return false
}

// SealFields returns a copy of fields with every secret string sealed for node.
// Values that are sealed already stay.
func (k *Key) SealFields(node string, fields map[string]any) map[string]any {
	out, _ := mapSecrets(fields, func(v string) (string, error) {
		if Sealed(v) {
			return v, nil
		}
		return k.Seal(node, v), nil
	})
	return out
}

// OpenFields returns a copy of fields with every sealed secret opened.
func (k *Key) OpenFields(node string, fields map[string]any) (map[string]any, error) {
	return mapSecrets(fields, func(v string) (string, error) {
		if !Sealed(v) {
			return v, nil
		}
		return k.Open(node, v)
	})
}

// MaskFields returns a copy of fields with every secret replaced by mask.
func MaskFields(fields map[string]any, mask string) map[string]any {
	out, _ := mapSecrets(fields, func(string) (string, error) { return mask, nil })
	return out
}

func mapSecrets(fields map[string]any, f func(string) (string, error)) (map[string]any, error) {
	out := make(map[string]any, len(fields))
	for name, v := range fields {
		switch v := v.(type) {
		case map[string]any:
			inner, err := mapSecrets(v, f)
			if err != nil {
				return nil, err
			}
			out[name] = inner
		case string:
			out[name] = v
			if IsSecret(name) {
				s, err := f(v)
				if err != nil {
					return nil, fmt.Errorf("field %s: %w", name, err)
				}
				out[name] = s
			}
		default:
			out[name] = v
		}
	}
	return out, nil
}

// Derive returns n bytes for the purpose that label names: the same for everybody
// who holds the key, of no use for anything else.
func (k *Key) Derive(label string, n int) ([]byte, error) {
	return hkdf.Key(sha256.New, k.raw, nil, "ironyard derive "+label, n)
}
