package filelock

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
)

func TestLockWaits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := Hold(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Hold(ctx, path); !errors.Is(err, context.Canceled) {
		t.Errorf("second lock: %v", err)
	}
	unlock()
	unlock, err = Hold(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}
