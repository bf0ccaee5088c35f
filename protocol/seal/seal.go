// Package seal keeps secrets closed: AES-256-GCM under a key of the fleet, with a label as associated
// data (Label): what the value is, of which node, in which field and for which work. So a sealed value
// that is copied to another node, field, kind or work does not open there. A rack gets a key derived
// for its conductor group only. The same key makes codes for documents (Key.Code).
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
const Prefix = "sealed:v2:"

// unlabelled begins values that were sealed before there were labels, with the name of what they
// belong to alone. They open until central key rotate seals them anew; nothing is sealed so now.
const unlabelled = "sealed:v1:"

// ErrOpen means that a sealed value does not open under this key with this label.
var ErrOpen = errors.New("sealed value does not open: wrong key, or it belongs to another node, field or work")

// Seal closes plain under label.
func (k *Key) Seal(label Label, plain string) string {
	nonce := make([]byte, k.aead.NonceSize(), k.aead.NonceSize()+len(plain)+k.aead.Overhead())
	rand.Read(nonce) // never fails: crypto/rand ends the program instead
	return Prefix + base64.StdEncoding.EncodeToString(k.aead.Seal(nonce, nonce, []byte(plain), label.data()))
}

// Open returns what Seal closed under the same label, under this generation of the key or an
// older one, or ErrOpen.
func (k *Key) Open(label Label, sealed string) (string, error) {
	plain, err := k.openAlone(label, sealed)
	for i := 0; err != nil && i < len(k.older); i++ {
		plain, err = k.older[i].openAlone(label, sealed)
	}
	return plain, err
}

// Current reports whether sealed opens under the newest generation, and with nothing but its label.
func (k *Key) Current(label Label, sealed string) bool {
	_, err := k.openAlone(label, sealed)
	return err == nil && strings.HasPrefix(sealed, Prefix)
}

func (k *Key) openAlone(label Label, sealed string) (string, error) {
	text, labelled := strings.CutPrefix(sealed, Prefix)
	data := label.data()
	if !labelled {
		if text = strings.TrimPrefix(sealed, unlabelled); text == sealed || !label.stored() {
			return "", ErrOpen
		}
		data = label.unlabelled()
	}
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(raw) < k.aead.NonceSize() {
		return "", ErrOpen
	}
	n := k.aead.NonceSize()
	plain, err := k.aead.Open(nil, raw[:n], raw[n:], data)
	if err != nil {
		return "", ErrOpen
	}
	return string(plain), nil
}

// SealBytes closes plain under label as Seal does. What it returns is no text, and takes a quarter less.
func (k *Key) SealBytes(label Label, plain []byte) []byte {
	nonce := make([]byte, k.aead.NonceSize(), k.aead.NonceSize()+len(plain)+k.aead.Overhead())
	rand.Read(nonce) // never fails: crypto/rand ends the program instead
	return k.aead.Seal(nonce, nonce, plain, label.data())
}

// OpenBytes returns what SealBytes closed under the same label, or ErrOpen. current: it was closed under this generation of the key,
// and not under an older one.
func (k *Key) OpenBytes(label Label, sealed []byte) (plain []byte, current bool, err error) {
	for i, g := range k.Generations() {
		n := g.aead.NonceSize()
		if len(sealed) < n {
			break
		}
		if plain, err = g.aead.Open(nil, sealed[:n], sealed[n:], label.data()); err == nil {
			return plain, i == 0, nil
		}
	}
	return nil, false, ErrOpen
}

// Withheld stands for a sealed value where nothing opens it. No key does.
const Withheld = Prefix + "withheld"

// Sealed reports whether v is a sealed value.
func Sealed(v string) bool { return strings.HasPrefix(v, Prefix) || strings.HasPrefix(v, unlabelled) }

// secretWords mark a field as secret wherever they occur in its name. They are the words that
// OpenStack's services mask, but for those of other services; further those of SNMP, of IPMI's key Kg, of keys for SSH, and of licences.
var secretWords = []string{"password", "secret", "token", "auth_key", "priv_key", "private_key", "passphrase", "community",
	"adminpass", "admin_pass", "new_pass", "sys_pswd", "encrypted_key", "fernetkey", "sslkey", "kg_key", "license_key", "key_contents"}

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

// SealFields returns a copy of fields with every secret string sealed under label, each for its
// own field. Values that are sealed already stay.
func (k *Key) SealFields(label Label, fields map[string]any) map[string]any {
	out, _ := mapSecrets(label.Field, fields, func(path, v string) (string, error) {
		if Sealed(v) {
			return v, nil
		}
		return k.Seal(label.At(path), v), nil
	})
	return out
}

// OpenFields returns a copy of fields with every sealed secret opened.
func (k *Key) OpenFields(label Label, fields map[string]any) (map[string]any, error) {
	return mapSecrets(label.Field, fields, func(path, v string) (string, error) {
		if !Sealed(v) {
			return v, nil
		}
		return k.Open(label.At(path), v)
	})
}

// CurrentFields reports whether every sealed secret of fields opens under the newest
// generation; when not, OpenFields and SealFields bring it there.
func (k *Key) CurrentFields(label Label, fields map[string]any) bool {
	current := true
	mapSecrets(label.Field, fields, func(path, v string) (string, error) {
		current = current && (!Sealed(v) || k.Current(label.At(path), v))
		return v, nil
	})
	return current
}

// MaskFields returns a copy of fields with every secret replaced by mask, in lists too, and the password in each address.
func MaskFields(fields map[string]any, mask string) map[string]any {
	out := make(map[string]any, len(fields))
	for name, v := range fields {
		out[name] = maskValue(name, v, mask)
	}
	return out
}

func maskValue(name string, v any, mask string) any {
	switch v := v.(type) {
	case string:
		if IsSecret(name) {
			return mask
		}
		return MaskAddresses(name, v, mask)
	case map[string]any:
		return MaskFields(v, mask)
	case []any:
		out := make([]any, len(v))
		for i, inner := range v {
			out[i] = maskValue(name, inner, mask)
		}
		return out
	}
	return v
}

func mapSecrets(at string, fields map[string]any, f func(path, v string) (string, error)) (map[string]any, error) {
	out := make(map[string]any, len(fields))
	for name, v := range fields {
		path := join(at, name)
		switch v := v.(type) {
		case map[string]any:
			inner, err := mapSecrets(path, v, f)
			if err != nil {
				return nil, err
			}
			out[name] = inner
		case string:
			out[name] = v
			if IsSecret(name) {
				s, err := f(path, v)
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
