package store

import (
	"context"
	"fmt"
	"time"
)

// Bucket is a row of buckets: how a bucket of a site was when it last was as the rows
// want it. A site that comes back from an older copy while no replica runs is known by
// that.
type Bucket struct {
	Site, Name  string
	Created     time.Time // of its stream, to the nanosecond
	First, Last uint64    // revisions
	Messages    uint64
}

var (
	selectBucket = register("SELECT b.created_at, b.first_revision, b.last_revision, b.messages FROM buckets b WHERE b.site = $1 AND b.name = $2")
	upsertBucket = register("INSERT INTO buckets (site, name, created_at, first_revision, last_revision, messages) VALUES ($1, $2, $3, $4, $5, $6) " +
		"ON CONFLICT (site, name) DO UPDATE SET created_at = excluded.created_at, first_revision = excluded.first_revision, " +
		"last_revision = excluded.last_revision, messages = excluded.messages")
)

// Bucket returns how a bucket was, or ErrNotFound.
func (s *Store) Bucket(ctx context.Context, site, name string) (*Bucket, error) {
	var b *Bucket
	r, err := s.engine.query(ctx, selectBucket, site, name)
	err = scanAll(r, err, func(r rows) error {
		var created, first, last, messages int64
		if err := r.Scan(&created, &first, &last, &messages); err != nil {
			return err
		}
		b = &Bucket{site, name, time.Unix(0, created).UTC(), uint64(first), uint64(last), uint64(messages)}
		return nil
	})
	if err == nil && b == nil {
		err = ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("bucket %s of site %q: %w", name, site, err)
	}
	return b, nil
}

// SetBucket records how a bucket is.
func (tx *Tx) SetBucket(ctx context.Context, b *Bucket) error {
	if _, err := tx.conn.exec(ctx, upsertBucket, b.Site, b.Name, b.Created.UnixNano(), int64(b.First), int64(b.Last), int64(b.Messages)); err != nil {
		return fmt.Errorf("write how bucket %s of site %q is: %w", b.Name, b.Site, err)
	}
	return nil
}
