package auth

import (
	"crypto/sha256"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// remembered is what is known of a token; a nil caller: that it is not good.
type remembered struct {
	caller *Caller
	until  time.Time
	signer jose.JSONWebKey // with OIDC
}

// maxTokens bounds how many tokens a memory holds.
const maxTokens = 10_000

// memory holds what is known of tokens, by their hashes. Its owner sees to it that one goroutine at a time uses it.
type memory struct {
	tokens map[[sha256.Size]byte]remembered
}

func newMemory() *memory { return &memory{map[[sha256.Size]byte]remembered{}} }

// recall returns what is known of a token, if that still counts.
func (m *memory) recall(id [sha256.Size]byte, now time.Time) (remembered, bool) {
	known, ok := m.tokens[id]
	return known, ok && now.Before(known.until)
}

// keep remembers a token. When there are too many, those that no longer count go first, then as many others as make
// room for some time: with a tenth of all at once, looking for them is no work that each new token repeats.
func (m *memory) keep(id [sha256.Size]byte, r remembered, now time.Time) {
	if len(m.tokens) >= maxTokens {
		for old, r := range m.tokens {
			if !now.Before(r.until) {
				delete(m.tokens, old)
			}
		}
		for old := range m.tokens {
			if len(m.tokens) < maxTokens*9/10 {
				break
			}
			delete(m.tokens, old)
		}
	}
	m.tokens[id] = r
}
