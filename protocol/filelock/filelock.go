// Package filelock keeps processes that use the same folder out of each other's way.
//
// It imports nothing of the project.
package filelock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// ErrHeld means that another process, or another part of this one, has the lock.
var ErrHeld = errors.New("it is locked")

// Try takes an exclusive lock on a file, which is made if it is not there, and keeps it until
// the returned function is called; the kernel releases it if the process dies.
func Try(path string) (func(), error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = ErrHeld
		}
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	return func() { f.Close() }, nil
}

// Hold is Try until it succeeds or ctx ends. It asks again and again because a blocking
// flock cannot be cancelled.
func Hold(ctx context.Context, path string) (func(), error) {
	retry := time.NewTicker(100 * time.Millisecond)
	defer retry.Stop()
	for {
		release, err := Try(path)
		if err == nil || !errors.Is(err, ErrHeld) && !errors.Is(err, unix.EINTR) {
			return release, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("locking %s, held by another process: %w", path, ctx.Err())
		case <-retry.C:
		}
	}
}
