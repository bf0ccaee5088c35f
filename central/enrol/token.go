package enrol

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/join"
)

// NewTokens makes a token for each scope. They work until life has passed, each once.
// at is where joiners find central; its Fingerprint is set to the authority's when it
// is empty.
func (a *Authority) NewTokens(ctx context.Context, at join.Central, life time.Duration, scopes ...join.Scope) ([]join.Token, error) {
	if life <= 0 {
		return nil, fmt.Errorf("a token that works for %s: its lifetime must be positive", life)
	}
	if at.Fingerprint == "" {
		at.Fingerprint, at.ServerName = join.Fingerprint(a.certificate), join.CentralName
	}
	var tokens []join.Token
	for _, s := range scopes {
		s.Name = strings.ToLower(s.Name)
		if err := s.Check(false); err != nil {
			return nil, err
		}
		id, err := uuid.NewV7()
		if err != nil {
			return nil, err
		}
		t := join.Token{URL: at.URL, Fingerprint: at.Fingerprint, ServerName: at.ServerName, ID: id.String(), Secret: join.NewSecret(),
			Expires: a.now().Add(life).UTC().Truncate(time.Second), Scope: s}
		if _, err := join.ParseToken(t.String()); err != nil {
			return nil, err // an URL that joiners would refuse
		}
		tokens = append(tokens, t)
	}
	err := a.store.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		for _, t := range tokens {
			row := &store.JoinToken{ID: t.ID, SecretHash: hashed(t.Secret), Scope: t.Scope, CreatedAt: a.now(), ExpiresAt: t.Expires}
			if err := tx.InsertJoinToken(ctx, row); err != nil {
				return err
			}
		}
		return nil
	})
	return tokens, err
}

// RevokeToken makes a token that nobody has used worthless; store.ErrNotFound when
// there is none such.
func (a *Authority) RevokeToken(ctx context.Context, id string) error {
	return a.store.Update(ctx, func(ctx context.Context, tx *store.Tx) error { return tx.RevokeJoinToken(ctx, id) })
}

// RevokeMember puts a member out: it can renew nothing, and the servers of its site
// refuse its credentials from their next renewal on. The others of a server's cluster refuse it
// from theirs on. The keys of a rackd's groups are replaced, which takes until their rackds have renewed
// and work that goes on has ended (central/groupkeys). store.ErrNotFound when there is none of that role and name.
func (a *Authority) RevokeMember(ctx context.Context, role join.Role, name string) error {
	return a.store.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		m, err := tx.MemberNamed(ctx, role, strings.ToLower(name))
		if err != nil {
			return err
		}
		return a.end(ctx, tx, m)
	})
}

// hashed is how a secret is kept. It is 32 random bytes: nothing slower is needed.
func hashed(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// fits compares a secret with what is kept of it, in the same time for each.
func fits(secret, hash string) bool {
	return subtle.ConstantTimeCompare([]byte(hashed(secret)), []byte(hash)) == 1
}

// refusal is why a request is refused, with the HTTP status that says so. Its text is
// for the operator who pasted the token.
type refusal struct {
	status int
	text   string
	// challenge, if not empty, is to be answered by the same request.
	challenge string
	// misused, if not nil, is the member whose certificate of long ago was shown.
	misused *store.Member
}

func (r *refusal) Error() string { return r.text }

func refuse(status int, format string, args ...any) error {
	return &refusal{status: status, text: fmt.Sprintf(format, args...)}
}
