package feed

import (
	"context"
	"fmt"
	"sort"

	"github.com/ironyard/ironyard/central/store"
)

// Follower reads changes in order, one goroutine at a time.
type Follower struct {
	feed *Feed
	seq  int64
}

// Follow begins to read after number after, or, when it is negative, after the newest.
// Close must follow. Errors: ErrFull, ErrStopped, ErrGone, those of the database.
func (f *Feed) Follow(ctx context.Context, after int64) (*Follower, error) {
	f.mu.Lock()
	switch {
	case f.stopped:
		f.mu.Unlock()
		return nil, ErrStopped
	case f.followers >= f.cfg.Followers:
		f.mu.Unlock()
		return nil, ErrFull
	}
	f.followers++
	f.mu.Unlock()
	f.Nudge()
	w := &Follower{f, after}
	if after < 0 {
		// What has happened already is numbered first, as far as others are not at it, so
		// that it does not come as news.
		for range 5 {
			if err := f.number(ctx); err == nil || !busy(err) {
				break
			}
		}
	}
	now, err := f.cfg.Store.ChangeRange(ctx)
	switch {
	case err != nil:
	case after < 0:
		w.seq = now.Newest
	case after < now.Pruned || after > now.Newest:
		err = fmt.Errorf("number %d, of %d to %d: %w", after, now.Pruned, now.Newest, ErrGone)
	}
	if err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

// Close ends it.
func (w *Follower) Close() {
	w.feed.mu.Lock()
	defer w.feed.mu.Unlock()
	w.feed.followers--
}

// Seq is the number up to which everything has been read.
func (w *Follower) Seq() int64 { return w.seq }

// Next returns the changes that follow, and waits for them until ctx ends. A change
// whose first phases were read before is returned whole. Errors: ErrStopped, ErrGone,
// those of ctx and of the database.
func (w *Follower) Next(ctx context.Context) ([]*store.Change, error) {
	for {
		w.feed.mu.Lock()
		stopped, news := w.feed.stopped, w.feed.news
		list, inMemory := w.feed.inMemory(w.seq)
		w.feed.mu.Unlock()
		if stopped {
			return nil, ErrStopped
		}
		if !inMemory {
			var err error
			if list, err = w.stored(ctx); err != nil {
				return nil, err
			}
		}
		if len(list) > 0 {
			w.seq = list[len(list)-1].Seq
			return list, nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// inMemory returns the changes after seq, at most a batch, and whether memory reaches
// back so far; mu is held.
func (f *Feed) inMemory(seq int64) (list []*store.Change, reaches bool) {
	if !f.reading || seq < f.base {
		return nil, false
	}
	i := sort.Search(len(f.recent), func(i int) bool { return f.recent[i].Seq > seq })
	return f.recent[i:min(len(f.recent), i+batch)], true
}

// stored reads on from the database.
func (w *Follower) stored(ctx context.Context) ([]*store.Change, error) {
	list, err := w.feed.cfg.Store.Changes(ctx, w.seq, batch)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	if first := list[0]; first.Seq-first.Numbers() > w.seq {
		return nil, fmt.Errorf("number %d: %w", w.seq, ErrGone) // removed while it was read too slowly
	}
	return list, nil
}
