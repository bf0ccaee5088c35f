package powercut

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

func done0() int32 { return 0 }

// life is a record that a test writes itself.
type life struct{ *Record }

func newLife() life { return life{&Record{exists: map[string]bool{}}} }

func (l life) write(file string, offset int64, b byte, n int) {
	l.opened(file)
	l.do(event{kind: wrote, file: file, offset: offset, data: bytes.Repeat([]byte{b}, n)}, done0)
}

// cuts are many disks that a power cut may leave after all that was recorded.
func (l life) cuts() (list []map[string][]byte) {
	d, rng := NewDisk(l.Record), rand.New(rand.NewPCG(1, 2))
	d.Advance(l.Len())
	for range 500 {
		list = append(list, d.Cut(rng))
	}
	return list
}

// TestWhatWasSyncedIsThere and what was not may be there, or not, or some of its sectors.
func TestWhatWasSyncedIsThere(t *testing.T) {
	l := newLife()
	l.write(Log, 0, 'a', 1000)
	l.syncBegins(Log)()
	early := l.syncBegins(Log)
	l.write(Log, 900, 'b', 1200) // while a sync runs
	early()
	seen := map[string]bool{}
	for _, files := range l.cuts() {
		data, there := files[Log]
		if !there || len(data) < 1000 || !bytes.Equal(data[:900], bytes.Repeat([]byte{'a'}, 900)) {
			t.Fatalf("of 1000 bytes that were synced %d are there", len(data))
		}
		for at := int64(900); at < int64(len(data)); at++ {
			if b := data[at]; b != 'b' && !(b == 'a' && at < 1000) && !(b == 0 && at >= 1000) {
				t.Fatalf("byte %d is %q", at, b)
			}
			if at%sector != 0 && at != 900 && at != 1000 && data[at] != data[at-1] {
				t.Fatalf("a sector is torn at %d", at)
			}
		}
		switch n := bytes.Count(data, []byte{'b'}); {
		case len(data) == 1000 && n == 0:
			seen["lost"] = true
		case n == 1200:
			seen["there"] = true
		case n > 0:
			seen["torn"] = true
		case len(data) == 2100:
			seen["size alone"] = true
		}
	}
	if len(seen) != 4 {
		t.Errorf("of four ways in which a write may end only %v were seen", seen)
	}
}

// TestNames: a new database may be gone until its log was synced, a deleted journal may be back until the
// folder was.
func TestNames(t *testing.T) {
	l := newLife()
	l.write(Database, 0, 'a', sector)
	l.syncBegins(Database)()
	if there := count(l.cuts(), Database); there == 0 || there == 500 {
		t.Errorf("a new file is there %d times of 500", there)
	}
	l.write(Journal, 0, 'j', sector)
	l.syncBegins(Journal)()
	for _, file := range []string{Database, Journal} {
		if there := count(l.cuts(), file); there != 500 {
			t.Errorf("file %q is there %d times of 500, once the journal was synced", file, there)
		}
	}
	l.do(event{kind: deleted, file: Journal}, done0)
	if there := count(l.cuts(), Journal); there == 0 || there == 500 {
		t.Errorf("a deleted journal is there %d times of 500", there)
	}
	l.folderSynced()
	if there := count(l.cuts(), Journal); there != 0 {
		t.Errorf("a deleted journal is there %d times, once the folder was synced", there)
	}
	for _, files := range l.cuts() {
		if !bytes.Equal(files[Database], bytes.Repeat([]byte{'a'}, sector)) {
			t.Fatalf("the database is %q", files[Database])
		}
	}
}

func count(cuts []map[string][]byte, file string) (n int) {
	for _, files := range cuts {
		if _, there := files[file]; there {
			n++
		}
	}
	return n
}

// TestTruncated: a file that was cut to a size may have its old one.
func TestTruncated(t *testing.T) {
	l := newLife()
	l.write(Log, 0, 'a', 3*sector)
	l.syncBegins(Log)()
	l.do(event{kind: truncated, file: Log, offset: sector}, done0)
	sizes := map[int]int{}
	for _, files := range l.cuts() {
		sizes[len(files[Log])]++
	}
	if sizes[sector] == 0 || sizes[3*sector] == 0 || len(sizes) != 2 {
		t.Errorf("sizes of a file that was cut: %v", sizes)
	}
	l.syncBegins(Log)()
	for _, files := range l.cuts() {
		if len(files[Log]) != sector {
			t.Fatalf("size %d after the sync", len(files[Log]))
		}
	}
}
