package bus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// stepDown has the leader of a stream give way to another server.
func stepDown(ctx context.Context, nc *nats.Conn, stream string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	m, err := nc.RequestWithContext(ctx, "$JS.API.STREAM.LEADER.STEPDOWN."+stream, nil)
	if err != nil {
		return err
	}
	if !bytes.Contains(m.Data, []byte(`"success":true`)) {
		return fmt.Errorf("%s", m.Data)
	}
	return nil
}

// Three servers keep the streams of a site, and their leaders change while writes wait for their answers. A write that is confirmed is
// there. One that is not may be: its writer sends it again, and it is there once. Each key has one writer, so a conflict is with its
// own write.
func TestLeadersChangeWhileWritesWait(t *testing.T) {
	t.Parallel()
	nc := cluster(t)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	s, err := Open(ctx, nc, "", Settings{Replicas: 3})
	if err != nil {
		t.Fatal(err)
	}
	const keys, changes, least = 16, 6, 30
	seen, err := s.Work.WatchAll(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var watched sync.WaitGroup
	last := map[string]uint64{} // the number that the watch has shown last, by key
	watched.Go(func() {
		for e := range seen.Updates() {
			if e == nil {
				continue
			}
			n, err := strconv.ParseUint(string(e.Value()), 10, 64)
			if err != nil || n <= last[e.Key()] {
				t.Errorf("key %s: %q comes after %d", e.Key(), e.Value(), last[e.Key()])
			}
			last[e.Key()] = n
		}
	})
	stream, err := s.JS.Stream(ctx, "KV_"+WorkBucket)
	if err != nil {
		t.Fatal(err)
	}
	var enough atomic.Bool
	var doubts, own atomic.Int64
	var writers sync.WaitGroup
	confirmed := make([]uint64, keys)
	events := make([]uint64, keys)
	write := func(k int, value, revision uint64) (uint64, error) {
		key := NodeKey("g", fmt.Sprint("n", k))
		for {
			within, cancel := context.WithTimeout(ctx, 2*time.Second)
			next, err := s.Update(within, s.Work, key, []byte(fmt.Sprint(value)), revision)
			cancel()
			switch {
			case err == nil:
				return next, nil
			case ctx.Err() != nil:
				return 0, err
			case !Conflict(err):
				doubts.Add(1)
				continue
			}
			m, err := stream.GetLastMsgForSubject(ctx, "$KV."+WorkBucket+"."+key)
			switch {
			case ctx.Err() != nil:
				return 0, err
			case err != nil || m.Sequence < revision:
				continue // no leader, or one that has not caught up
			case string(m.Data) == fmt.Sprint(value):
				own.Add(1)
				return m.Sequence, nil
			case m.Sequence != revision:
				return 0, fmt.Errorf("%q stands at revision %d, and revision %d was confirmed: %w", m.Data, m.Sequence, revision, errLost)
			}
		}
	}
	for k := range keys {
		writers.Go(func() {
			revision := uint64(0)
			for n := uint64(1); !enough.Load() || n <= least; n++ {
				var err error
				if revision, err = write(k, n, revision); err != nil {
					t.Errorf("key %d, number %d: %v", k, n, err)
					return
				}
				confirmed[k] = n
			}
		})
		writers.Go(func() {
			for n := uint64(1); !enough.Load() || n <= least; n++ {
				for {
					within, cancel := context.WithTimeout(ctx, 2*time.Second)
					err := s.Publish(within, EventSubject("g", fmt.Sprint("n", k)), fmt.Sprintf("%d-%d", k, n), []byte("e"))
					cancel()
					if err == nil {
						break
					}
					if doubts.Add(1); ctx.Err() != nil {
						t.Errorf("event %d of %d: %v", n, k, err)
						return
					}
				}
				events[k] = n
			}
		})
	}
	for range changes {
		for _, name := range []string{"KV_" + WorkBucket, EventsStream} {
			for stepDown(ctx, nc, name) != nil && ctx.Err() == nil { // there is no leader yet
			}
		}
	}
	enough.Store(true)
	writers.Wait()
	for k := range keys {
		m, err := stream.GetLastMsgForSubject(ctx, "$KV."+WorkBucket+"."+NodeKey("g", fmt.Sprint("n", k)))
		// Any server of the three answers, and one that leads no more may be behind.
		for end := time.Now().Add(30 * time.Second); err != nil || string(m.Data) != fmt.Sprint(confirmed[k]); {
			if time.Now().After(end) {
				t.Fatalf("key %d: %v, %v; %d was confirmed", k, m, err, confirmed[k])
			}
			time.Sleep(50 * time.Millisecond)
			m, err = stream.GetLastMsgForSubject(ctx, "$KV."+WorkBucket+"."+NodeKey("g", fmt.Sprint("n", k)))
		}
	}
	if err := seen.Stop(); err != nil && !errors.Is(err, nats.ErrBadSubscription) {
		t.Error(err)
	}
	watched.Wait()
	consumer, err := s.JS.CreateOrUpdateConsumer(ctx, EventsStream, jetstream.ConsumerConfig{Durable: "count", AckPolicy: jetstream.AckNonePolicy})
	if err != nil {
		t.Fatal(err)
	}
	times := map[string]int{}
	for {
		batch, err := consumer.Fetch(1000, jetstream.FetchMaxWait(time.Second))
		if err != nil {
			t.Fatal(err)
		}
		got := 0
		for m := range batch.Messages() {
			got++
			times[m.Headers().Get(jetstream.MsgIDHeader)]++
		}
		if got == 0 {
			break
		}
	}
	for k, n := range events {
		for i := range n {
			if id := fmt.Sprintf("%d-%d", k, i+1); times[id] != 1 {
				t.Errorf("event %s is there %d times", id, times[id])
			}
		}
	}
	t.Logf("%d events; %d writes were in doubt, %d conflicts were with the writer's own write", len(times), doubts.Load(), own.Load())
	if len(times) < keys*least {
		t.Errorf("%d events", len(times))
	}
}

// The consumers of a bucket are deleted under a rackd that follows it. What is written afterwards is heard of all the same.
func TestFollowOutlivesItsConsumer(t *testing.T) {
	t.Parallel()
	s := openSite(t)
	k, ended := &memory{values: map[string]string{}}, make(chan error, 1)
	following, stop := context.WithCancel(t.Context())
	go func() { ended <- s.Follow(following, NodesBucket, ">", k) }()
	defer func() { stop(); <-ended }()
	heard := func(value string) {
		t.Helper()
		began, late := time.Now(), time.After(90*time.Second)
		for is := ""; is != value; {
			select {
			case <-late:
				t.Fatalf("%q is not heard of, it is %q", value, is)
			case <-time.After(20 * time.Millisecond):
			}
			k.mu.Lock()
			is = k.values["g.n"]
			k.mu.Unlock()
		}
		t.Logf("%s: %v", value, time.Since(began).Round(time.Millisecond))
	}
	put(t, s.Nodes, "g.n", "at first")
	heard("at first")
	stream, err := s.JS.Stream(t.Context(), "KV_"+NodesBucket)
	if err != nil {
		t.Fatal(err)
	}
	deleted := 0
	list := stream.ConsumerNames(t.Context())
	for name := range list.Name() {
		if err := stream.DeleteConsumer(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		deleted++
	}
	if list.Err() != nil || deleted == 0 {
		t.Fatal(deleted, list.Err())
	}
	put(t, s.Nodes, "g.n", "without its consumer")
	heard("without its consumer")
}
