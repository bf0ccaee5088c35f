package store_test

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/central/store/powercut"
)

// logSyncs are what syncs logs of SQLite (func() error) instead of the disk, by their names.
var logSyncs sync.Map

// TestMain lets the test run itself as a process that is to be killed, and records the databases of
// tests that ask for it.
func TestMain(m *testing.M) {
	if path := os.Getenv(envWriter); path != "" {
		if err := writeUntilKilled(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if err := store.PlacePages(); err != nil { // SQLite takes it before it is initialised only
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if err := powercut.Register(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	store.SyncLogsBy(func(name string, real func() error) error {
		if sync, other := logSyncs.Load(name); other {
			return sync.(func() error)()
		}
		return real()
	})
	os.Exit(m.Run())
}
