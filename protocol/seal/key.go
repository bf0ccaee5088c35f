package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
)

// Key seals and opens. It does not change, besides what it remembers, and is safe for
// concurrent use.
type Key struct {
	raw    []byte
	aead   cipher.AEAD
	id     string
	older  []*Key // newest first, each without older ones of its own
	groups *groupKeys
}

// groupKeys are keys of conductor groups that have been derived: what is sealed for a rack
// is sealed for one group thousands of times.
type groupKeys struct {
	mu   sync.Mutex
	keys map[string]*Key // by the numbers of their generations and the group
}

// maxGroupKeys bounds the groups whose keys are remembered.
const maxGroupKeys = 1024

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
	return &Key{raw: append([]byte(nil), raw...), aead: aead, id: idOf(raw), groups: new(groupKeys)}, nil
}

// ParseKey reads a key as it is kept in a file or in the environment: 32 bytes in
// base64. Several, one a line (or between spaces or commas), are generations of one
// key: the first seals, all open. Lines that begin with # are left out.
func ParseKey(text string) (*Key, error) {
	var generations []*Key
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "#") {
			continue
		}
		for word := range strings.FieldsFuncSeq(line, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\r' || r == '\n' }) {
			raw, err := base64.StdEncoding.DecodeString(word)
			if err != nil {
				return nil, fmt.Errorf("secret key is not base64: %w", err)
			}
			k, err := NewKey(raw)
			if err != nil {
				return nil, err
			}
			generations = append(generations, k)
		}
	}
	if len(generations) == 0 {
		return nil, errors.New("there is no secret key, want 32 bytes in base64")
	}
	return generations[0].WithOlder(generations[1:]...), nil
}

// GenerateKey returns a new random key.
func GenerateKey() (*Key, error) {
	raw := make([]byte, 32)
	if _, err := io.ReadFull(rand.Reader, raw); err != nil {
		return nil, err
	}
	return NewKey(raw)
}

// WithOlder returns the key with more generations that open, newest first. A
// generation that is there already is not added again.
func (k *Key) WithOlder(older ...*Key) *Key {
	out := Key{raw: k.raw, aead: k.aead, id: k.id, older: append([]*Key(nil), k.older...), groups: new(groupKeys)}
	for _, o := range older {
		for _, g := range o.Generations() {
			if !out.has(g) {
				out.older = append(out.older, g)
			}
		}
	}
	return &out
}

// Newest returns the generation that seals, alone.
func (k *Key) Newest() *Key { return &Key{raw: k.raw, aead: k.aead, id: k.id, groups: new(groupKeys)} }

// Generations returns each generation as a key of its own, the one that seals first.
func (k *Key) Generations() []*Key {
	return append([]*Key{k.Newest()}, k.older...)
}

// Text is the key, one generation a line, as ParseKey reads it: keep it out of logs.
func (k *Key) Text() string {
	var lines []string
	for _, g := range k.Generations() {
		lines = append(lines, base64.StdEncoding.EncodeToString(g.raw))
	}
	return strings.Join(lines, "\n")
}

// ForGroup derives the key of a conductor group, all that a rack of it needs, with
// as many generations. It is the key of a group whose key was never replaced.
func (k *Key) ForGroup(group string) (*Key, error) { return k.ForGroupAt(group, 0) }

// ForGroupAt derives a group's key with those of its own generations that numbers names; the
// first seals. The group has each of them once for each generation of k. Who knows a group's
// generation can derive no other.
func (k *Key) ForGroupAt(group string, numbers ...uint64) (*Key, error) {
	group = strings.ToLower(group)
	id := fmt.Sprint(numbers, group)
	k.groups.mu.Lock()
	defer k.groups.mu.Unlock()
	if known := k.groups.keys[id]; known != nil {
		return known, nil
	}
	derived, err := k.derive(group, numbers)
	if err != nil {
		return nil, err
	}
	if k.groups.keys == nil || len(k.groups.keys) >= maxGroupKeys {
		k.groups.keys = map[string]*Key{}
	}
	k.groups.keys[id] = derived
	return derived, nil
}

func (k *Key) derive(group string, numbers []uint64) (*Key, error) {
	var generations []*Key
	for _, g := range k.Generations() {
		for _, number := range numbers {
			label := "ironyard group " + group
			if number > 0 {
				label += "\x00" + strconv.FormatUint(number, 10) // no group's name has a NUL
			}
			raw, err := hkdf.Key(sha256.New, g.raw, nil, label, 32)
			if err != nil {
				return nil, err
			}
			derived, err := NewKey(raw)
			if err != nil {
				return nil, err
			}
			generations = append(generations, derived)
		}
	}
	if len(generations) == 0 {
		return nil, fmt.Errorf("key of conductor group %q: no generation is asked for", group)
	}
	return generations[0].WithOlder(generations[1:]...), nil
}

// Token derives the agent token of one boot, which a piece of work has counted: every rackd of
// the group can check it, none needs to remember it. Boot 0 is of a rackd that did not count.
func (k *Key) Token(node, work string, boot uint64) string {
	return base64.RawURLEncoding.EncodeToString(k.ofBoot("agent token", node, work, boot))
}

// Tokens are those of one boot under each generation, the newest first: an agent has the one that was
// the newest when it was answered.
func (k *Key) Tokens(node, work string, boot uint64) []string {
	var list []string
	for _, g := range k.Generations() {
		list = append(list, g.Token(node, work, boot))
	}
	return list
}

// TokenFits reports whether token is that of the boot, under any generation: an
// agent keeps its token for as long as its machine runs. It takes the same time for
// every wrong token.
func (k *Key) TokenFits(node, work string, boot uint64, token string) bool {
	return k.fits(token, func(g *Key) string { return g.Token(node, work, boot) })
}

// BootID derives the id by which an agent shows that its machine was given the boot script
// of one boot. It is no longer than a URL on a kernel's command line has room for.
func (k *Key) BootID(node, work string, boot uint64) string {
	return base64.RawURLEncoding.EncodeToString(k.ofBoot("boot id", node, work, boot)[:16])
}

// BootIDFits is TokenFits for a boot's id.
func (k *Key) BootIDFits(node, work string, boot uint64, id string) bool {
	return k.fits(id, func(g *Key) string { return g.BootID(node, work, boot) })
}

func (k *Key) ofBoot(purpose, node, work string, boot uint64) []byte {
	mac := hmac.New(sha256.New, k.raw)
	io.WriteString(mac, purpose+"\x00"+node+"\x00"+work)
	if boot > 0 {
		io.WriteString(mac, "\x00"+strconv.FormatUint(boot, 10))
	}
	return mac.Sum(nil)
}

func (k *Key) fits(given string, of func(*Key) string) bool {
	fits := 0
	for _, g := range k.Generations() {
		fits |= subtle.ConstantTimeCompare([]byte(given), []byte(of(g)))
	}
	return fits == 1
}

// Derive returns n bytes for the purpose that label names: the same for everybody
// who holds the newest generation, of no use for anything else.
func (k *Key) Derive(label string, n int) ([]byte, error) {
	return hkdf.Key(sha256.New, k.raw, nil, "ironyard derive "+label, n)
}
