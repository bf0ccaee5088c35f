// Package seal keeps secrets closed: AES-256-GCM under a key of the fleet, with
// the node's UUID as associated data, so that a sealed value copied to another
// node does not open. A rack gets a key derived for its conductor group only.
//
// A Key may stand for several generations: the newest seals, all of them open. That
// is what lets a key be replaced while the fleet runs.
//
// It may import nothing of the project. Open secrets live in memory only, and
// IsSecret is the one place that says which fields are secret.
package seal

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// Prefix begins every sealed value.
const Prefix = "sealed:v1:"

// ErrOpen means that a sealed value does not open under this key for this node.
var ErrOpen = errors.New("sealed value does not open: wrong key, or it belongs to another node")

// Seal closes plain for node.
func (k *Key) Seal(node, plain string) string {
	nonce := make([]byte, k.aead.NonceSize())
	rand.Read(nonce) // never fails: crypto/rand ends the program instead
	return Prefix + base64.StdEncoding.EncodeToString(k.aead.Seal(nonce, nonce, []byte(plain), []byte(node)))
}

// Open returns what Seal closed, under this generation of the key or an older one,
// or ErrOpen.
func (k *Key) Open(node, sealed string) (string, error) {
	plain, err := k.openAlone(node, sealed)
	for i := 0; err != nil && i < len(k.older); i++ {
		plain, err = k.older[i].openAlone(node, sealed)
	}
	return plain, err
}

// Current reports whether sealed opens for node under the newest generation.
func (k *Key) Current(node, sealed string) bool {
	_, err := k.openAlone(node, sealed)
	return err == nil
}

func (k *Key) openAlone(node, sealed string) (string, error) {
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

// secretWords mark a field as secret wherever they occur in its name. They are the words that
// OpenStack's services mask, but for those of other services, and SNMP's.
var secretWords = []string{"password", "secret", "token", "auth_key", "priv_key", "private_key", "passphrase", "community",
	"adminpass", "admin_pass", "new_pass", "sys_pswd", "encrypted_key", "fernetkey", "sslkey"}

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

// Holds reports whether fields have a member, however deep, that may be a secret: without
// one, whatever is done to their secrets leaves them as they are.
func Holds(fields map[string]any) bool {
	for name, v := range fields {
		switch v := v.(type) {
		case map[string]any:
			if Holds(v) {
				return true
			}
		case string:
			if IsSecret(name) {
				return true
			}
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

// CurrentFields reports whether every sealed secret of fields opens under the newest
// generation; when not, OpenFields and SealFields bring it there.
func (k *Key) CurrentFields(node string, fields map[string]any) bool {
	current := true
	mapSecrets(fields, func(v string) (string, error) {
		current = current && (!Sealed(v) || k.Current(node, v))
		return v, nil
	})
	return current
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
