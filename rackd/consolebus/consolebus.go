// Package consolebus keeps copies of consoles' logs on the site's bus, for rackd/console.
//
// It may import protocol and rackd/console. Invariants:
//   - What lies on the bus is sealed for its node with the key of its conductor group.
//   - A copy that does not open, or is too large, is counted, told of and not used.
//   - A site without the bucket, or where this rackd may not use it, is no error: copies are not kept then, and the log says so.
package consolebus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/consolecopy"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/rackd/console"
)

// How long the bucket may take to be opened, and after how long it is tried again.
const (
	openWithin    = 2 * time.Second
	openAgain     = 15 * time.Second
	openAgainMost = 10 * time.Minute
)

// Store implements console.Copies. It is safe for concurrent use.
type Store struct {
	site *bus.Site
	keys *seal.Keyring
	log  *slog.Logger

	mu    sync.Mutex
	kv    jetstream.KeyValue // nil: it is not open
	next  time.Time          // before that it is not tried again
	pause time.Duration
}

// New returns the store of a site. keys are those of the groups that the rackd may serve.
func New(site *bus.Site, keys *seal.Keyring, log *slog.Logger) *Store {
	return &Store{site: site, keys: keys, log: log}
}

// bucket opens the bucket once. Without one it returns console.ErrNoCopies.
func (s *Store) bucket(ctx context.Context) (jetstream.KeyValue, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kv != nil {
		return s.kv, nil
	}
	if time.Now().Before(s.next) {
		return nil, console.ErrNoCopies
	}
	ctx, cancel := context.WithTimeout(ctx, openWithin)
	defer cancel()
	kv, err := s.site.OpenConsoles(ctx)
	if err == nil {
		if s.pause > 0 {
			s.log.Info("copies of consoles' logs are kept on the site's bus from now on", "bucket", bus.ConsolesBucket)
		}
		s.kv, s.pause = kv, 0
		return kv, nil
	}
	if s.pause == 0 {
		s.log.Warn("consoles' logs are in the memory of this rackd alone, and end with it. The site's bus has no bucket for copies, or this rackd may not use it: "+
			"upgrade central, and let the rackd renew (`ironyard site renew`) and start again", "bucket", bus.ConsolesBucket, "error", err)
	}
	s.pause = min(max(2*s.pause, openAgain), openAgainMost)
	s.next = time.Now().Add(s.pause)
	return nil, console.ErrNoCopies
}

// Load implements console.Copies.
func (s *Store) Load(ctx context.Context, at console.Place) (*consolecopy.Copy, uint64, error) {
	key := s.keys.Of(at.Group)
	if key == nil {
		return nil, 0, console.ErrNoCopies
	}
	kv, err := s.bucket(ctx)
	if err != nil {
		return nil, 0, err
	}
	e, err := kv.Get(ctx, at.Key())
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound): // or there is the marker of one that was removed
		return nil, 0, nil
	case err != nil:
		return nil, 0, fmt.Errorf("read the copy of node %s's console from the bus: %w", at.Node, s.judge(err))
	}
	c, err := bus.ReadConsole(e.Key(), e.Value(), key)
	if err != nil {
		s.site.Refuse(s.log, bus.ConsolesBucket, e.Key(), err)
		return nil, e.Revision(), nil
	}
	return &c, e.Revision(), nil
}

// Save implements console.Copies.
func (s *Store) Save(ctx context.Context, at console.Place, c consolecopy.Copy, revision uint64) (now uint64, bytes int, err error) {
	key := s.keys.Of(at.Group)
	if key == nil {
		return 0, 0, console.ErrNoCopies
	}
	kv, err := s.bucket(ctx)
	if err != nil {
		return 0, 0, err
	}
	var body []byte
	for _, most := range sizes {
		if body, err = c.Seal(key, at.Node, most); err != nil {
			return 0, 0, err
		}
		if revision == 0 {
			now, err = kv.Create(ctx, at.Key(), body)
		} else {
			now, err = kv.Update(ctx, at.Key(), body, revision)
		}
		if !bus.Full(err) {
			break
		}
	}
	if err != nil {
		return 0, 0, fmt.Errorf("write the copy of node %s's console to the bus: %w", at.Node, s.judge(err))
	}
	return now, len(body), nil
}

// sizes are those that a copy may have. In a full bucket a smaller one takes the place of the one that is there, with the newest text.
var sizes = []int{consolecopy.MaxBytes, consolecopy.MaxBytes / 4, consolecopy.MaxBytes / 16}

// markerLife is how long the marker of a removed copy stays.
const markerLife = time.Hour

// Remove implements console.Copies.
func (s *Store) Remove(ctx context.Context, key string, revision uint64) error {
	kv, err := s.bucket(ctx)
	if err != nil {
		return err
	}
	if err := kv.Purge(ctx, key, jetstream.LastRevision(revision), jetstream.PurgeTTL(markerLife)); err != nil {
		return fmt.Errorf("remove the copy of node %s's console from the bus: %w", bus.NodeOfKey(key), s.judge(err))
	}
	return nil
}

// List implements console.Copies.
func (s *Store) List(ctx context.Context) (list []console.There, err error) {
	kv, err := s.bucket(ctx)
	if err != nil {
		return nil, err
	}
	for _, group := range s.keys.Groups() {
		err := s.site.Read(ctx, kv, []string{bus.GroupToken(group) + ".>"}, func(e jetstream.KeyValueEntry) {
			list = append(list, console.There{Key: e.Key(), Revision: e.Revision(), Written: e.Created()})
		}, jetstream.MetaOnly())
		if err != nil {
			return nil, s.judge(err)
		}
	}
	return list, nil
}

// Key implements console.Copies.
func (s *Store) Key(group string) string {
	if key := s.keys.Of(group); key != nil {
		return key.ID()
	}
	return ""
}

// judge adds console.ErrCopyChanged to an error that says so. Where the bucket is gone it is looked for again.
func (s *Store) judge(err error) error {
	switch {
	case bus.Conflict(err) || errors.Is(err, jetstream.ErrKeyExists):
		return fmt.Errorf("%w: %w", console.ErrCopyChanged, err)
	case errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, nats.ErrNoResponders), errors.Is(err, jetstream.ErrStreamNotFound), errors.Is(err, jetstream.ErrBucketNotFound):
		s.mu.Lock()
		s.kv = nil
		s.mu.Unlock()
	}
	return err
}
