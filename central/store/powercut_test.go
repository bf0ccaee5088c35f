//go:build !race

// Most of the work is SQLite's, looking at many databases; writers and readers run together in
// other tests, too.

package store_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/central/store/powercut"
	"github.com/ironyard/ironyard/central/store/storetest"
)

// heard is what somebody was told of an account, and when, by the length of the record.
type heard struct {
	account *account
	n, at   int
}

// recorded is a database whose life was recorded, and what was heard of it.
type recorded struct {
	*powercut.Record
	accounts []*account
	heard    []heard
	migrated int // how long the record was when the tables were there
	refused  int // transactions that failed since the disk was full
}

// promised returns what had been heard when the record had a length.
func (r *recorded) promised(at int) func(*account) int {
	most := map[*account]int{}
	for _, h := range r.heard {
		if h.at <= at {
			most[h.account] = max(most[h.account], h.n)
		}
	}
	return func(a *account) int { return most[a] }
}

// live writes and reads a new database from many goroutines. Its log is small, so that it is copied
// into the file and starts again all the time. syncLog syncs the log. Writes for which full returns true find
// no room on the disk (nil: all find room).
func live(t *testing.T, seed uint64, transactions int, syncLog func(*powercut.Record) error, full func(string) bool) *recorded {
	t.Helper()
	path := filepath.Join(t.TempDir(), "central.db")
	r, stop, err := powercut.Start(path)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	// What is there after a power cut the record says, so the disk itself may take its time.
	logSyncs.Store(path+powercut.Log, func() error { return syncLog(r) })
	defer logSyncs.Delete(path + powercut.Log)
	s, err := store.Open(t.Context(), "sqlite:"+path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	life := &recorded{Record: r}
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	life.migrated = r.Len()
	rng := rand.New(rand.NewPCG(seed, 0))
	pragmas := []string{"wal_autocheckpoint(" + strconv.Itoa(20+rng.IntN(200)) + ")"}
	if rng.IntN(2) == 0 { // transactions write some of their pages early
		pragmas = append(pragmas, "cache_size(12)")
	}
	for _, text := range pragmas {
		if err := s.Pragma(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	r.Fill(full)
	var mu sync.Mutex
	told := func(a *account, n int) {
		at := r.Len()
		mu.Lock()
		defer mu.Unlock()
		life.heard = append(life.heard, heard{a, n, at})
	}
	var writing, reading sync.WaitGroup
	quit := make(chan struct{})
	for i, name := range []string{"a", "b", "c", "d"} {
		a := newAccount(name, seed)
		life.accounts = append(life.accounts, a)
		large := rng.IntN(transactions)
		writing.Go(func() {
			for k := range transactions {
				for a.n == k {
					if err := a.next(t.Context(), s, k == large && i < 2); err == nil {
						told(a, a.n)
					} else if full == nil || !s.Unavailable(err) {
						t.Error(err)
						return
					} else {
						mu.Lock()
						life.refused++
						mu.Unlock()
					}
				}
			}
		})
		reading.Go(func() {
			for {
				select {
				case <-quit:
					return
				case <-time.After(time.Millisecond):
				}
				if n, err := a.read(t.Context(), s, a.right); err == nil {
					told(a, n)
				} else if !errors.Is(err, store.ErrNotFound) {
					t.Error(err)
					return
				}
			}
		})
	}
	writing.Wait()
	close(quit)
	reading.Wait()
	r.Fill(nil)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return life
}

// slowly syncs the log of a disk that takes its time.
func slowly(r *powercut.Record) error {
	return r.Sync(powercut.Log, func() error { time.Sleep(2 * time.Millisecond); return nil })
}

// moments returns n moments at which the power may be cut: most of them where somebody was just told
// something or a sync has just ended, some anywhere.
func (r *recorded) moments(n int, rng *rand.Rand) (list []int) {
	ends := r.SyncEnds()
	for range n {
		switch rng.IntN(5) {
		case 0:
			list = append(list, 1+rng.IntN(r.Len()))
		case 1:
			list = append(list, ends[rng.IntN(len(ends))])
		default:
			list = append(list, r.heard[rng.IntN(len(r.heard))].at)
		}
	}
	slices.Sort(list)
	return list
}

// cut cuts the power at some moments and looks at what the disk may hold then; wrong is told of what is not
// as was promised.
func (r *recorded) cut(t *testing.T, moments int, rng *rand.Rand, wrong func(at int, list []string)) {
	t.Helper()
	disk := powercut.NewDisk(r.Record)
	for i, at := range r.moments(moments, rng) {
		disk.Advance(at)
		broken := false
		path := r.lookAt(t, disk.Cut(rng), at, func(list []string) { broken = true; wrong(at, list) })
		if !broken && (i%10 == 0 || at < r.migrated) {
			goOn(t, path)
		}
		os.RemoveAll(filepath.Dir(path)) // the test's end would find hundreds of megabytes
	}
}

// lookAt writes the files that are left after a power cut into a folder and looks at them, once there are
// tables. It returns the path of the database.
func (r *recorded) lookAt(t *testing.T, left map[string][]byte, at int, wrong func([]string)) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "central.db")
	for suffix, data := range left {
		if err := os.WriteFile(path+suffix, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if at >= r.migrated {
		if list := look(t, path, r.accounts, r.promised(at)); len(list) > 0 {
			wrong(list)
		}
	}
	return path
}

// goOn lets central work with what a power cut has left.
func goOn(t *testing.T, path string) {
	t.Helper()
	s, err := store.Open(t.Context(), "sqlite:"+path, store.Options{})
	if err != nil {
		t.Fatalf("after a power cut: %v", err)
	}
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Errorf("after a power cut: %v", err)
	}
	a := newAccount("later", 1)
	for range 3 {
		if err := a.next(context.WithoutCancel(t.Context()), s, false); err != nil {
			t.Errorf("after a power cut: %v", err)
		}
	}
	if err := s.Close(); err != nil {
		t.Errorf("after a power cut: %v", err)
	}
	for _, text := range look(t, path, []*account{a}, func(a *account) int { return a.n }) {
		t.Errorf("what was written after a power cut: %s", text)
	}
}

// TestPowerCut cuts the power at any moment: what anybody has heard of is on the disk, whole.
func TestPowerCut(t *testing.T) {
	t.Parallel()
	first := seed(t)
	for i := range effort(t) {
		now := first + uint64(i)
		life := live(t, now, 25, slowly, nil)
		bad := 0
		life.cut(t, 60, rand.New(rand.NewPCG(now, 1)), func(at int, list []string) {
			if bad++; bad <= 3 {
				t.Errorf("seed %d, power cut after %d of %d events: %q", now, at, life.Len(), list)
			}
		})
		if bad > 0 {
			t.Fatalf("seed %d: %d disks were not as was promised", now, bad)
		}
	}
}

// TestDiskFull: while some writes to the log and the file find no room, what is refused is not there, not
// even half, also after a power cut; what was accepted is, and so it goes on.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	first := seed(t)
	refused := 0
	// A checkpoint may meet all that find no room: then no transaction is refused, and another disk is tried.
	for i := 0; i < effort(t) || refused == 0 && i < effort(t)+5; i++ {
		now := first + uint64(i)
		rng := rand.New(rand.NewPCG(now, 3))
		// Large transactions take some 300 writes, and are to come through between two times.
		room, none := 10, 1+rng.IntN(4) // writes until the disk is full, and of the log, for how many
		life := live(t, now, 20, slowly, func(file string) bool {
			if room--; room > 0 {
				return false
			}
			if file == powercut.Log {
				none--
			}
			if none == 0 {
				room, none = 20+rng.IntN(500), 1+rng.IntN(4)
			}
			return true
		})
		bad := 0
		life.cut(t, 40, rand.New(rand.NewPCG(now, 1)), func(at int, list []string) {
			if bad++; bad <= 3 {
				t.Errorf("seed %d, power cut after %d of %d events: %q", now, at, life.Len(), list)
			}
		})
		t.Logf("%d transactions were refused", life.refused)
		refused += life.refused
	}
	if refused == 0 {
		t.Error("the disk was never full: the test shows nothing")
	}
}

// TestPowerCutAfterADeath: what a process has committed that died before it was on the disk is there once
// the next has shown it to somebody.
func TestPowerCutAfterADeath(t *testing.T) {
	path := filepath.Join(t.TempDir(), "central.db")
	r, stop, err := powercut.Start(path)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	dead, dying := make(chan struct{}), make(chan struct{})
	var late atomic.Bool
	logSyncs.Store(path+powercut.Log, func() error {
		if late.CompareAndSwap(true, false) {
			close(dying)
			<-dead
		}
		return slowly(r)
	})
	defer logSyncs.Delete(path + powercut.Log)
	first := storetest.Open(t, "sqlite:"+path)
	a := newAccount("a", 1)
	if err := a.next(t.Context(), first, false); err != nil {
		t.Fatal(err)
	}
	late.Store(true)
	ended := make(chan error, 1)
	go func() { ended <- a.next(context.WithoutCancel(t.Context()), first, false) }()
	<-dying
	second, err := store.Open(t.Context(), "sqlite:"+path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	n, err := a.read(t.Context(), second, a.left)
	if err != nil || n != 2 {
		t.Fatalf("the next process reads %d, error %v, want what the first has committed", n, err)
	}
	life := &recorded{Record: r, accounts: []*account{a}, heard: []heard{{a, n, r.Len()}}}
	close(dead)
	if err := errors.Join(<-ended, second.Close()); err != nil {
		t.Error(err)
	}
	disk, rng := powercut.NewDisk(r), rand.New(rand.NewPCG(1, 1))
	disk.Advance(life.heard[0].at)
	for range 10 {
		life.lookAt(t, disk.Cut(rng), life.heard[0].at, func(list []string) { t.Errorf("what was shown is lost: %q", list) })
	}
}

// TestPowerCutShows: on a disk whose syncs do nothing, promises are broken, and that is seen.
func TestPowerCutShows(t *testing.T) {
	t.Parallel()
	now := seed(t)
	life := live(t, now, 20, func(*powercut.Record) error { return nil }, nil)
	bad := 0
	life.cut(t, 30, rand.New(rand.NewPCG(now, 1)), func(int, []string) { bad++ })
	if bad == 0 {
		t.Error("no power cut lost anything on a disk that is never synced")
	}
}
