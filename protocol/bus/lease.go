package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// ErrLeaseLost means that the ALIVE key is not as its holder last wrote it: it has
// expired, or somebody else wrote it.
var ErrLeaseLost = errors.New("lease lost")

// Announce writes m under its ALIVE key with LeaseTTL and returns the revision
// for the next renewal. The key must still be at rev, which is what Announced has
// read (0: there never was a key) or what the last renewal returned; otherwise it
// fails with ErrLeaseLost: nobody takes the name of a rackd that lives.
//
// Some renewals are followed by a beat. It publishes to the bucket's subject, because
// KeyValue.Update drops the TTL.
func (s *Site) Announce(ctx context.Context, m Member, rev uint64) (uint64, error) {
	key := MemberKey(m.Group, m.Name)
	body, err := json.Marshal(m)
	if err != nil {
		return 0, err
	}
	ack, err := s.JS.Publish(ctx, "$KV."+AliveBucket+"."+key, body, jetstream.WithMsgTTL(LeaseTTL), jetstream.WithRetryAttempts(0),
		jetstream.WithExpectLastSequencePerSubject(rev))
	if err != nil {
		if Conflict(err) {
			return 0, fmt.Errorf("renew %s: %w", key, ErrLeaseLost)
		}
		return 0, fmt.Errorf("renew %s: %w", key, err)
	}
	s.beat(m)
	return ack.Sequence, nil
}

// Announced reads a rackd's ALIVE key: who holds it, nil for nobody, and the revision
// with which it can be written. The answer may be a moment old; then the write fails.
func (s *Site) Announced(ctx context.Context, group, name string) (holder *Member, rev uint64, err error) {
	key := MemberKey(group, name)
	stream, err := s.JS.Stream(ctx, "KV_"+AliveBucket)
	if err != nil {
		return nil, 0, fmt.Errorf("read who holds %s: %w", key, err)
	}
	m, err := stream.GetLastMsgForSubject(ctx, "$KV."+AliveBucket+"."+key)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return nil, 0, nil
	case err != nil:
		return nil, 0, fmt.Errorf("read who holds %s: %w", key, err)
	case IsMarker(m):
		return nil, m.Sequence, nil
	}
	member, err := ReadMember(key, m.Data)
	if err != nil && !errors.Is(err, errURL) {
		return nil, m.Sequence, nil // nothing can hold what no reader takes
	}
	return &member, m.Sequence, nil
}

// IsMarker reports whether the last message of a key says that the key is gone: it was
// deleted, purged, or it has expired.
func IsMarker(m *jetstream.RawStreamMsg) bool {
	return m.Header.Get("KV-Operation") != "" || m.Header.Get(jetstream.MarkerReasonHeader) != ""
}

// Withdraw removes the ALIVE key at once, for a graceful stop. Followers see a
// KeyValueDelete, which an expired key never is: its holder has done with its nodes.
func (s *Site) Withdraw(ctx context.Context, m Member, rev uint64) error {
	if err := s.Alive.Delete(ctx, MemberKey(m.Group, m.Name), jetstream.LastRevision(rev)); err != nil {
		return err
	}
	m.Instance = ""
	s.beat(m)
	return nil
}
