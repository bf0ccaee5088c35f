package store

import (
	"context"
	"fmt"
)

// Secret is a row of vault: something that central keeps sealed. What it means is
// its user's.
type Secret struct {
	Name  string
	Value string // sealed with the fleet's key
}

var (
	selectSecret  = register("SELECT v.name, v.value FROM vault v WHERE v.name = $1")
	selectSecrets = register("SELECT v.name, v.value FROM vault v WHERE v.name > $1 ORDER BY v.name LIMIT $2")
	insertSecret  = register("INSERT INTO vault (name, value, updated_at) VALUES ($1, $2, $3) ON CONFLICT (name) DO NOTHING")
	updateSecret  = register("UPDATE vault SET value = $3, updated_at = $4 WHERE name = $1 AND value = $2")
)

func readSecrets(ctx context.Context, c conn, stmt string, args ...any) ([]*Secret, error) {
	var list []*Secret
	r, err := c.query(ctx, stmt, args...)
	err = scanAll(r, err, func(r rows) error {
		s := new(Secret)
		list = append(list, s)
		return r.Scan(&s.Name, &s.Value)
	})
	if err != nil {
		return nil, fmt.Errorf("read vault: %w", err)
	}
	return list, nil
}

// Secret returns the secret of that name, or ErrNotFound.
func (s *Store) Secret(ctx context.Context, name string) (*Secret, error) {
	return oneSecret(ctx, s.engine, name)
}

// Secret is Store.Secret as the transaction sees it.
func (tx *Tx) Secret(ctx context.Context, name string) (*Secret, error) {
	return oneSecret(ctx, tx.conn, name)
}

func oneSecret(ctx context.Context, c conn, name string) (*Secret, error) {
	list, err := readSecrets(ctx, c, selectSecret, name)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("secret %s: %w", name, ErrNotFound)
	}
	return list[0], nil
}

// Secrets returns up to limit secrets after a name, in order of the name.
func (s *Store) Secrets(ctx context.Context, after string, limit int) ([]*Secret, error) {
	return readSecrets(ctx, s.engine, selectSecrets, after, limit)
}

// InsertSecret adds a secret unless there is one of that name: among replicas that
// make one at once the first counts. Read it afterwards.
func (tx *Tx) InsertSecret(ctx context.Context, secret *Secret) error {
	if _, err := tx.conn.exec(ctx, insertSecret, secret.Name, secret.Value, tx.s.now().UnixMicro()); err != nil {
		return fmt.Errorf("write secret %s: %w", secret.Name, err)
	}
	return nil
}

// ReplaceSecret changes a secret from what it was; ErrConflict when it has changed.
func (tx *Tx) ReplaceSecret(ctx context.Context, was *Secret, value string) error {
	n, err := tx.conn.exec(ctx, updateSecret, was.Name, was.Value, value, tx.s.now().UnixMicro())
	if err == nil && n == 0 {
		err = ErrConflict
	}
	if err != nil {
		return fmt.Errorf("replace secret %s: %w", was.Name, err)
	}
	return nil
}
