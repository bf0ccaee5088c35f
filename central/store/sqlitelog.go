package store

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
)

// sqliteLog makes commits durable. SQLite writes them to its write-ahead log, each with a
// checksum of all before it, and leaves it to us to have the log on the disk before
// anybody hears of them: so the next transaction goes on while the disk is at work, and
// what is written meanwhile shares the next sync (decision 35).
//
// A transaction may see what those before it have written, on the disk or not: without
// them it cannot be there itself. All others wait until what they may have seen is safe.
type sqliteLog struct {
	flush func() error // has the log's file on the disk
	close func() error

	begun atomic.Uint64 // commits that somebody may see
	safe  atomic.Uint64 // commits that are on the disk, or never came to be

	mu      sync.Mutex
	moved   *sync.Cond
	written uint64 // commits that are in the log, or never came to be
	syncing bool
	broken  error // what is on the disk is not known any more
}

// errDisk: once a sync has failed the system may take pages for written that are not.
var errDisk = errors.New("the disk failed to keep the database's log: restart this process, which reads what is on the disk")

// openSQLiteLog opens the log of a database that is open, and has it on the disk: a process that was
// killed may have left commits there of which nobody was told, and which can be read from now on.
func openSQLiteLog(database string) (*sqliteLog, error) {
	f, err := os.OpenFile(database+"-wal", os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("open the log of SQLite database %s: %w", database, err)
	}
	if err := syncLogFile(f); err != nil {
		return nil, errors.Join(fmt.Errorf("have the log of SQLite database %s on the disk: %w", database, err), f.Close())
	}
	return newSQLiteLog(func() error { return syncLogFile(f) }, f.Close), nil
}

// syncLogFile is how the log's file is synced; tests of power cuts look on.
var syncLogFile = syncData

func newSQLiteLog(flush, close func() error) *sqliteLog {
	l := &sqliteLog{flush: flush, close: close}
	l.moved = sync.NewCond(&l.mu)
	return l
}

// commit runs do, which commits the writer's transaction, and returns the number that
// settle is to wait for. It must not be called by two at once.
func (l *sqliteLog) commit(do func() error) (uint64, error) {
	l.mu.Lock()
	err := l.broken
	l.mu.Unlock()
	if err != nil {
		return 0, err
	}
	n := l.begun.Add(1)
	err = do()
	l.mu.Lock()
	l.written = n
	if err != nil && l.safe.Load() == n-1 {
		l.safe.Store(n) // there is nothing to sync
	}
	l.moved.Broadcast()
	l.mu.Unlock()
	return n, err
}

// settleSeen returns when all is safe that a caller who has just read may have seen.
func (l *sqliteLog) settleSeen() error { return l.settle(l.begun.Load()) }

// settle returns when commit n and all before it are safe.
func (l *sqliteLog) settle(n uint64) error {
	if l.safe.Load() >= n {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.safe.Load() < n {
		switch {
		case l.broken != nil:
			return l.broken
		case l.syncing || l.written < n:
			l.moved.Wait()
		default:
			l.syncWritten()
		}
	}
	return nil
}

// syncWritten has all on the disk that is written. The caller holds mu.
func (l *sqliteLog) syncWritten() {
	l.syncing = true
	written := l.written
	l.mu.Unlock()
	err := l.flush()
	l.mu.Lock()
	l.syncing = false
	if err != nil {
		l.broken = fmt.Errorf("%w: %w", errDisk, err)
	} else {
		l.safe.Store(written)
	}
	l.moved.Broadcast()
}
