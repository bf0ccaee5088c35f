package store

import (
	"context"
	"fmt"
	"time"

	"github.com/ironyard/ironyard/protocol/join"
)

// JoinToken is a row of join_tokens: a token that lets a server or a rackd join the
// fleet once. Times are zero for what has not happened.
type JoinToken struct {
	ID         string
	SecretHash string
	Scope      join.Scope
	CreatedAt  time.Time
	ExpiresAt  time.Time
	UsedAt     time.Time
	// UsedKey names the keys with which it was used, Member whom it made.
	UsedKey   string
	Member    string
	RevokedAt time.Time
}

var joinTokenColumns = []column[JoinToken]{
	{"id", key, func(t *JoinToken) any { return &t.ID }},
	{"secret_hash", key, func(t *JoinToken) any { return &t.SecretHash }},
	{"scope", key, func(t *JoinToken) any { return asObject(&t.Scope) }},
	{"created_at", key, func(t *JoinToken) any { return &t.CreatedAt }},
	{"expires_at", key, func(t *JoinToken) any { return &t.ExpiresAt }},
	{"used_at", key, func(t *JoinToken) any { return &t.UsedAt }},
	{"used_key", key, func(t *JoinToken) any { return &t.UsedKey }},
	{"member", key, func(t *JoinToken) any { return &t.Member }},
	{"revoked_at", key, func(t *JoinToken) any { return &t.RevokedAt }},
}

var (
	selectJoinTokens = "SELECT " + names(joinTokenColumns, "t.") + " FROM join_tokens t"
	selectJoinToken  = register(selectJoinTokens + " WHERE t.id = $1")
	pageJoinTokens   = register(selectJoinTokens + " WHERE t.id > $1 ORDER BY t.id LIMIT $2")
	insertJoinToken  = register("INSERT INTO join_tokens (" + names(joinTokenColumns, "") + ") VALUES (" + placeholders(1, len(joinTokenColumns)) + ")")
	useJoinToken     = register("UPDATE join_tokens SET used_at = $2, used_key = $3, member = $4 WHERE id = $1 AND used_at = 0 AND revoked_at = 0")
	revokeJoinToken  = register("UPDATE join_tokens SET revoked_at = $2 WHERE id = $1 AND used_at = 0 AND revoked_at = 0")
)

func readJoinTokens(ctx context.Context, c conn, stmt string, args ...any) ([]*JoinToken, error) {
	var list []*JoinToken
	r, err := c.query(ctx, stmt, args...)
	err = scanAll(r, err, func(r rows) error {
		t := new(JoinToken)
		list = append(list, t)
		return r.Scan(fields(joinTokenColumns, t)...)
	})
	if err != nil {
		return nil, fmt.Errorf("read tokens: %w", err)
	}
	return list, nil
}

// JoinTokens returns up to limit tokens after an id, oldest first.
func (s *Store) JoinTokens(ctx context.Context, after string, limit int) ([]*JoinToken, error) {
	return readJoinTokens(ctx, s.engine, pageJoinTokens, after, limit)
}

// JoinToken returns a token, or ErrNotFound.
func (tx *Tx) JoinToken(ctx context.Context, id string) (*JoinToken, error) {
	list, err := readJoinTokens(ctx, tx.conn, selectJoinToken, id)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("token %s: %w", id, ErrNotFound)
	}
	return list[0], nil
}

// InsertJoinToken adds a token; its id is time-ordered.
func (tx *Tx) InsertJoinToken(ctx context.Context, t *JoinToken) error {
	if t.CreatedAt.IsZero() {
		t.CreatedAt = tx.s.now()
	}
	if _, err := tx.conn.exec(ctx, insertJoinToken, fields(joinTokenColumns, t)...); err != nil {
		return fmt.Errorf("write token %s: %w", t.ID, err)
	}
	return nil
}

// UseJoinToken marks a token as used; ErrConflict when it was used or revoked.
func (tx *Tx) UseJoinToken(ctx context.Context, id, usedKey, member string) error {
	n, err := tx.conn.exec(ctx, useJoinToken, id, tx.s.now().UnixMicro(), usedKey, member)
	if err == nil && n == 0 {
		err = ErrConflict
	}
	if err != nil {
		return fmt.Errorf("use token %s: %w", id, err)
	}
	return nil
}

// RevokeJoinToken makes a token that nobody has used worthless; ErrNotFound when
// there is none such.
func (tx *Tx) RevokeJoinToken(ctx context.Context, id string) error {
	n, err := tx.conn.exec(ctx, revokeJoinToken, id, tx.s.now().UnixMicro())
	if err == nil && n == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("revoke token %s: %w", id, err)
	}
	return nil
}
