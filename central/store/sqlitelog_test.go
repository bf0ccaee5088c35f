package store

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/provision"
)

// disk is a disk that writes when it is told to.
type disk struct {
	syncs int
	goOn  chan error // how each sync ends
}

func newDisk() *disk { return &disk{goOn: make(chan error)} }

func (d *disk) flush() error {
	d.syncs++
	return <-d.goOn
}

func done() error { return nil }

func TestALogIsSyncedOnceForAllThatIsWrittenMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk()
		l := newSQLiteLog(d.flush, done)
		var safe [4]atomic.Bool
		count := func() (n int) {
			for i := range safe {
				if safe[i].Load() {
					n++
				}
			}
			return n
		}
		commit := func(i int) {
			n, err := l.commit(done)
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				if err := l.settle(n); err != nil {
					t.Errorf("commit %d: %v", i, err)
				}
				safe[i].Store(true)
			}()
			synctest.Wait()
		}
		commit(1)
		commit(2)
		commit(3)
		if count() > 0 || d.syncs != 1 {
			t.Fatalf("%d are safe while the disk is at its sync number %d", count(), d.syncs)
		}
		d.goOn <- nil
		synctest.Wait()
		if !safe[1].Load() || count() != 1 || d.syncs != 2 {
			t.Fatalf("after the first sync %d are safe, and the disk was asked %d times", count(), d.syncs)
		}
		d.goOn <- nil
		synctest.Wait()
		if count() != 3 || d.syncs != 2 {
			t.Fatalf("after the second sync %d are safe, and the disk was asked %d times", count(), d.syncs)
		}
	})
}

func TestWhatSomebodyMayHaveSeenIsWaitedForWhileItIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk()
		l := newSQLiteLog(d.flush, done)
		written, read := make(chan struct{}), false
		go l.commit(func() error { <-written; return nil })
		synctest.Wait()
		go func() { read = l.settleSeen() == nil }()
		synctest.Wait()
		if d.syncs > 0 {
			t.Fatal("the log was synced for what is not in it yet")
		}
		close(written)
		synctest.Wait()
		if read {
			t.Fatal("what is not on the disk was read")
		}
		d.goOn <- nil
		synctest.Wait()
		if !read {
			t.Fatal("what is on the disk cannot be read")
		}
	})
}

func TestACommitThatFailsIsWaitedForByNobody(t *testing.T) {
	l := newSQLiteLog(newDisk().flush, done)
	full := errors.New("no room")
	if _, err := l.commit(func() error { return full }); err != full {
		t.Fatal(err)
	}
	if err := l.settleSeen(); err != nil {
		t.Fatal(err)
	}
}

// slowDisk is a database whose log is on a disk that writes when it is told to.
func slowDisk(t *testing.T) (*Store, *disk) {
	t.Helper()
	s, err := Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "slow.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	log := s.engine.(*sqliteEngine).writer.log
	d, real := newDisk(), log.flush
	log.flush = d.flush
	t.Cleanup(func() {
		log.flush = real
		if err := s.Close(); err != nil && !errors.Is(err, errDisk) {
			t.Error(err)
		}
	})
	return s, d
}

func until(t *testing.T, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("ten seconds went by")
		}
	}
}

func insertNamed(s *Store, name string, reads ...string) error {
	return s.Update(context.Background(), func(ctx context.Context, tx *Tx) error {
		for _, other := range reads {
			if _, err := tx.Node(ctx, other); err != nil {
				return err
			}
		}
		return tx.InsertNode(ctx, &Node{UUID: nodeID(name), Name: name, AcceptedState: provision.Enroll})
	})
}

func nodeID(name string) string { return "00000000-0000-4000-8000-00000000000" + name[len(name)-1:] }

func TestTheNextGroupGoesOnWhileTheDiskIsAtWork(t *testing.T) {
	s, d := slowDisk(t)
	first, second, read := make(chan error, 1), make(chan error, 1), make(chan error, 1)
	go func() { first <- insertNamed(s, "node-1") }()
	log := s.engine.(*sqliteEngine).writer.log
	until(t, func() bool { return log.begun.Load() > log.safe.Load() })
	began := log.begun.Load()
	go func() { second <- insertNamed(s, "node-2", "node-1") }()
	until(t, func() bool { return log.begun.Load() > began })
	go func() {
		_, err := s.Node(context.Background(), "node-1")
		read <- err
	}()
	select {
	case <-first:
		t.Error("the first was told before its rows were on the disk")
	case <-second:
		t.Error("the second was told before its rows were on the disk")
	case err := <-read:
		t.Errorf("rows were read that were not on the disk: %v", err)
	default:
	}
	d.goOn <- nil
	if err := <-first; err != nil {
		t.Error(err)
	}
	d.goOn <- nil
	for _, c := range []chan error{second, read} {
		if err := <-c; err != nil {
			t.Error(err)
		}
	}
}

func TestADiskThatFailsEndsAllWrites(t *testing.T) {
	s, d := slowDisk(t)
	first := make(chan error, 1)
	go func() { first <- insertNamed(s, "node-1") }()
	d.goOn <- errors.New("input/output error")
	if err := <-first; !errors.Is(err, ErrUnknown) || !errors.Is(err, errDisk) {
		t.Errorf("a write that may be lost: %v", err)
	}
	if err := insertNamed(s, "node-2"); !errors.Is(err, errDisk) {
		t.Errorf("a write after the disk has failed: %v", err)
	}
	if _, err := s.Node(t.Context(), "node-1"); !errors.Is(err, errDisk) {
		t.Errorf("a row that may be lost was read: %v", err)
	}
	if err := s.Ping(t.Context()); !errors.Is(err, errDisk) || !s.Unavailable(err) {
		t.Errorf("the health of the database: %v", err)
	}
}
