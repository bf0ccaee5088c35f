package bus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

// crowd calls f for each of n at once, after work has been held up until all wait.
func crowd(t *testing.T, a *appender, n int, f func(i int) error) []error {
	t.Helper()
	return crowdOf(t, a, n, n, f)
}

// crowdOf is crowd where only so many come to wait.
func crowdOf(t *testing.T, a *appender, n, wait int, f func(i int) error) []error {
	t.Helper()
	a.mu.Lock()
	a.busy += batchesAtOnce // nobody leads
	a.mu.Unlock()
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = f(i) })
	}
	for waiting := 0; waiting < wait; {
		a.mu.Lock()
		waiting = len(a.waiting)
		a.mu.Unlock()
	}
	a.mu.Lock()
	a.busy -= batchesAtOnce - 1
	a.mu.Unlock()
	go a.lead()
	all.Wait()
	return errs
}

// Writes that come together are one batch, and each is told its own revision, which it
// can go on from; a purge among them takes its key away.
func TestTogether(t *testing.T) {
	s := openSite(t)
	const n = 40
	key := func(i int) string { return NodeKey("g", fmt.Sprint("n", i)) }
	at := make([]uint64, n)
	for round := range 3 {
		before := lastOf(t, s)
		errs := crowd(t, &s.work, n, func(i int) (err error) {
			if round == 2 && i%2 == 0 {
				return s.Purge(t.Context(), s.Work, key(i), at[i])
			}
			at[i], err = s.Update(t.Context(), s.Work, key(i), fmt.Appendf(nil, "%d", round), at[i])
			return err
		})
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		if last := lastOf(t, s); last != before+n {
			t.Errorf("round %d: the last revision is %d, want %d: one for each write", round, last, before+n)
		}
	}
	for i := range n {
		e, err := s.Work.Get(t.Context(), key(i))
		switch {
		case i%2 == 0:
			if !errors.Is(err, jetstream.ErrKeyNotFound) {
				t.Errorf("%s was purged and is there: %v", key(i), err)
			}
		case err != nil || e.Revision() != at[i] || string(e.Value()) != "2":
			t.Errorf("%s: %+v, error %v, want revision %d", key(i), e, err, at[i])
		}
	}
	m, err := s.stream(t).GetMsg(t.Context(), at[1])
	if err != nil || m.Header.Get("Nats-Batch-Id") == "" {
		t.Errorf("a message of the last batch has header %v, error %v: it was not sent in one", m.Header, err)
	}
}

// Of writes that come together, one that is not to be says so, and the others are done.
func TestTogetherButOne(t *testing.T) {
	s := openSite(t)
	const n, wrong = 9, 4
	errs := crowd(t, &s.work, n, func(i int) error {
		revision := uint64(0)
		if i == wrong {
			revision = 7
		}
		_, err := s.Update(t.Context(), s.Work, NodeKey("g", fmt.Sprint("n", i)), []byte("x"), revision)
		return err
	})
	for i, err := range errs {
		if i == wrong && !Conflict(err) {
			t.Errorf("the wrong revision: %v", err)
		} else if i != wrong && err != nil {
			t.Errorf("write %d: %v", i, err)
		}
	}
}

// One message that the server refuses does not cost the others of a large batch a sync
// each: most of them are sent together all the same.
func TestTogetherInHalves(t *testing.T) {
	t.Parallel()
	s := openSite(t)
	const n, wrong = 64, 21
	errs := crowd(t, &s.work, n, func(i int) error {
		revision := uint64(0)
		if i == wrong {
			revision = 7
		}
		_, err := s.Update(t.Context(), s.Work, NodeKey("g", fmt.Sprint("n", i)), []byte("x"), revision)
		return err
	})
	refused := 0
	for _, err := range errs {
		if err != nil {
			refused++
		}
	}
	if refused != 1 {
		t.Errorf("%d writes failed, want one: %v", refused, errors.Join(errs...))
	}
	alone, stream := 0, s.stream(t)
	info := stream.CachedInfo().State
	for seq := info.FirstSeq; seq <= info.LastSeq; seq++ {
		m, err := stream.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		if m.Header.Get("Nats-Batch-Id") == "" {
			alone++
		}
	}
	if info.Msgs != n-1 || alone >= batchWorth {
		t.Errorf("%d messages, of them %d alone, want %d and fewer than %d", info.Msgs, alone, n-1, batchWorth)
	}
}

// Many writes of one caller are as few batches as they fit in, and each has its own result.
func TestUpdateAll(t *testing.T) {
	s := openSite(t)
	const n, wrong = batchMessages + batchWorth, 5
	writes := make([]Write, n)
	for i := range writes {
		writes[i] = Write{Key: NodeKey("g", fmt.Sprint("n", i)), Value: fmt.Append(nil, i)}
	}
	batches := func() map[string]int {
		ids, stream := map[string]int{}, s.stream(t)
		info := stream.CachedInfo().State
		for seq := info.FirstSeq; seq <= info.LastSeq; seq++ {
			if m, err := stream.GetMsg(t.Context(), seq); err == nil { // else another has taken its place
				ids[m.Header.Get(batchIDHeader)]++
			}
		}
		return ids
	}
	first := s.UpdateAll(t.Context(), s.Work, writes)
	if ids := batches(); len(ids) != 2 || ids[""] != 0 {
		t.Errorf("%d messages came in these batches: %v, want two", n, ids)
	}
	for i, w := range first {
		if writes[i].Revision = w.Revision; w.Err != nil || w.Revision != first[0].Revision+uint64(i) {
			t.Fatalf("write %d: %+v after %+v", i, w, first[0])
		}
	}
	writes[wrong].Revision--
	for i, w := range s.UpdateAll(t.Context(), s.Work, writes) {
		if refused := Conflict(w.Err); refused != (i == wrong) || !refused && w.Err != nil {
			t.Errorf("write %d again: %+v", i, w)
		}
	}
	if got := s.UpdateAll(t.Context(), s.Work, nil); len(got) != 0 {
		t.Errorf("nothing was written as %v", got)
	}
}

// A stream that takes no batches gets the writes one by one.
func TestUpdateAllOfAPlainStream(t *testing.T) {
	s := openSite(t)
	s.work.plain.Store(true)
	got := s.UpdateAll(t.Context(), s.Work, []Write{{Key: NodeKey("g", "a"), Value: []byte("x")}, {Key: NodeKey("g", "b"), Revision: 7}})
	if got[0].Err != nil || got[0].Revision == 0 || !Conflict(got[1].Err) {
		t.Errorf("written as %+v", got)
	}
}

// Who leaves while a part of what he writes is on its way is told of the rest that he left.
func TestLeftWhileWriting(t *testing.T) {
	c := newCall(3)
	c.told(1, Written{Revision: 7})
	left := c.leave(context.Canceled)
	c.told(0, Written{Revision: 8})
	if left[1] != (Written{Revision: 7}) || left[0].Err != context.Canceled || left[2].Err != context.Canceled {
		t.Errorf("told %+v", left)
	}
	select {
	case <-c.all:
		t.Error("it counts as told of all")
	default:
	}
	if c.told(2, Written{Revision: 9}); c.results[0].Revision != 8 {
		t.Errorf("results %+v", c.results)
	}
	<-c.all
}

// A purge of a key that never held anything leaves a marker, for which a write of a new key is too late.
func TestPurgeOfNothing(t *testing.T) {
	s := openSite(t)
	key := NodeKey("g", "n")
	if err := s.Purge(t.Context(), s.Nodes, key, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Update(t.Context(), s.Nodes, key, []byte("x"), 0); !Conflict(err) {
		t.Errorf("the key was written as new: error %v", err)
	}
	if err := s.Purge(t.Context(), s.Nodes, key, 0); !Conflict(err) {
		t.Errorf("the marker was replaced as nothing: error %v", err)
	}
}

// An event that is there already is no error and is not there twice.
func TestEventsTogether(t *testing.T) {
	s := openSite(t)
	const n = 10
	for range 2 {
		errs := crowd(t, &s.event, n, func(i int) error {
			return s.Publish(t.Context(), EventSubject("g", "n"), fmt.Sprint("e", i), []byte("x"))
		})
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	info, err := s.Events.Info(t.Context())
	if err != nil || info.State.Msgs != n {
		t.Errorf("%d events, error %v, want %d", info.State.Msgs, err, n)
	}
}

// Who does not wait any more is not sent, and holds nobody up.
func TestGoneWhileWaiting(t *testing.T) {
	s := openSite(t)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	errs := crowd(t, &s.work, 3, func(i int) error {
		ctx := t.Context()
		if i == 1 {
			ctx = gone
		}
		_, err := s.Update(ctx, s.Work, NodeKey("g", fmt.Sprint("n", i)), []byte("x"), 0)
		return err
	})
	if errs[0] != nil || errs[2] != nil || !errors.Is(errs[1], context.Canceled) {
		t.Errorf("errors %v", errs)
	}
	if _, err := s.Work.Get(t.Context(), NodeKey("g", "n1")); !errors.Is(err, jetstream.ErrKeyNotFound) {
		t.Errorf("who had gone was sent: %v", err)
	}
}

func (s *Site) stream(t *testing.T) jetstream.Stream {
	t.Helper()
	stream, err := s.JS.Stream(t.Context(), "KV_"+WorkBucket)
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

func lastOf(t *testing.T, s *Site) uint64 {
	t.Helper()
	return s.stream(t).CachedInfo().State.LastSeq
}

// A message that is too large fails alone, for good, and none of those beside it.
func TestTooLargeAlone(t *testing.T) {
	s := openSite(t)
	const n, large = 40, 7
	errs := crowdOf(t, &s.work, n, n-1, func(i int) error {
		value := []byte("small")
		if i == large {
			value = make([]byte, MaxMessage+1)
		}
		_, err := s.Update(t.Context(), s.Work, NodeKey("g", fmt.Sprint("n", i)), value, 0)
		return err
	})
	for i, err := range errs {
		if (i == large) != errors.Is(err, ErrTooLarge) || i != large && err != nil {
			t.Errorf("message %d: %v", i, err)
		}
	}
	if _, err := s.Update(t.Context(), s.Work, NodeKey("g", "most"), make([]byte, MaxMessage), 0); err != nil {
		t.Errorf("the most that fits: %v", err)
	}
	if err := s.Publish(t.Context(), EventSubject("g", "n"), "", make([]byte, MaxMessage+1)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("event: %v", err)
	}
}
