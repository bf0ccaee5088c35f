package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// ErrLeaseLost means that the ALIVE key is gone or somebody else wrote it.
var ErrLeaseLost = errors.New("lease lost")

// Announce writes m under its ALIVE key with LeaseTTL and returns the revision
// for the next renewal. rev 0 takes the key over, whatever it holds: the rackd's
// name is its identity and an older process of that name has lost. A renewal
// whose rev is no longer the newest fails with ErrLeaseLost.
//
// Some renewals are followed by a beat. It publishes to the bucket's subject, because
// KeyValue.Update drops the TTL.
func (s *Site) Announce(ctx context.Context, m Member, rev uint64) (uint64, error) {
	key := MemberKey(m.Group, m.Name)
	body, err := json.Marshal(m)
	if err != nil {
		return 0, err
	}
	opts := []jetstream.PublishOpt{jetstream.WithMsgTTL(LeaseTTL), jetstream.WithRetryAttempts(0)}
	if rev != 0 {
		opts = append(opts, jetstream.WithExpectLastSequencePerSubject(rev))
	}
	ack, err := s.JS.Publish(ctx, "$KV."+AliveBucket+"."+key, body, opts...)
	if err != nil {
		var api *jetstream.APIError
		if errors.As(err, &api) && api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence {
			return 0, fmt.Errorf("renew %s: %w", key, ErrLeaseLost)
		}
		return 0, fmt.Errorf("renew %s: %w", key, err)
	}
	s.beat(m, rev == 0)
	return ack.Sequence, nil
}

// Withdraw removes the ALIVE key at once, for a graceful stop. Followers see a
// KeyValueDelete, which an expired key never is: its holder has done with its nodes.
func (s *Site) Withdraw(ctx context.Context, m Member, rev uint64) error {
	if err := s.Alive.Delete(ctx, MemberKey(m.Group, m.Name), jetstream.LastRevision(rev)); err != nil {
		return err
	}
	m.Instance = ""
	s.beat(m, true)
	return nil
}
