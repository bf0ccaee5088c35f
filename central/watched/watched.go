// Package watched keeps what files say: they are read at start, and again when they change.
//
// A change that cannot be read or parsed is reported once and leaves what was there before
// in force. Files are looked at from time to time, not by notifications, which network file
// systems and Kubernetes' secrets do not give reliably. It imports nothing of the project.
package watched

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Files are one or more files that are parsed together into a T. They are safe for
// concurrent use.
type Files[T any] struct {
	paths []string
	parse func(texts [][]byte) (T, error)
	value atomic.Pointer[T]

	mu     sync.Mutex
	last   [][]byte // what was parsed last, well or not
	unread string   // why they could not be read the last time
}

// Open reads and parses files for the first time.
func Open[T any](parse func(texts [][]byte) (T, error), paths ...string) (*Files[T], error) {
	f := &Files[T]{paths: paths, parse: parse}
	if _, err := f.Refresh(); err != nil {
		return nil, err
	}
	return f, nil
}

// Get returns what the files said when they were last good.
func (f *Files[T]) Get() T { return *f.value.Load() }

// Name is for logs: the files' paths.
func (f *Files[T]) Name() string { return strings.Join(f.paths, ", ") }

// Refresh reads the files again. It reports whether what they say has changed. What is wrong
// with them it says once.
func (f *Files[T]) Refresh() (changed bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	texts := make([][]byte, len(f.paths))
	for i, path := range f.paths {
		if texts[i], err = os.ReadFile(path); err != nil {
			if err.Error() == f.unread {
				return false, nil
			}
			f.unread = err.Error()
			return false, err
		}
	}
	f.unread = ""
	if f.last != nil && equal(f.last, texts) {
		return false, nil
	}
	f.last = texts
	value, err := f.parse(texts)
	if err != nil {
		return false, fmt.Errorf("%s: %w", f.Name(), err)
	}
	f.value.Store(&value)
	return true, nil
}

func equal(a, b [][]byte) bool {
	for i := range a {
		if !bytes.Equal(a[i], b[i]) {
			return false
		}
	}
	return true
}

// Refresher is what Follow looks after.
type Refresher interface {
	Name() string
	Refresh() (changed bool, err error)
}

// Follow refreshes files every so often, and when now says so (nil: never), until ctx ends.
func Follow(ctx context.Context, every time.Duration, now <-chan os.Signal, log *slog.Logger, files ...Refresher) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-now:
			log.Info("files are read again, as asked by signal", "files", len(files))
		}
		for _, f := range files {
			switch changed, err := f.Refresh(); {
			case err != nil:
				log.Error("a file cannot be read again; its earlier content stays in force", "file", f.Name(), "error", err)
			case changed:
				log.Info("file has changed and is in force", "file", f.Name())
			}
		}
	}
}
