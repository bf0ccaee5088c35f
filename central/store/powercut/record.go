package powercut

import (
	"bytes"
	"path/filepath"
	"sync"

	sqlite3 "modernc.org/sqlite/lib"
)

// The files of a database, by what their names add to that of the database.
const (
	Database = ""
	Log      = "-wal"
	Journal  = "-journal"
)

type kind int

const (
	created kind = iota
	wrote
	truncated
	deleted
	syncBegan
	syncEnded // of the sync that began at event began
	named     // the folder was synced
)

// event is what was done to a file.
type event struct {
	kind   kind
	file   string
	offset int64 // of a write; the size that was cut to
	data   []byte
	began  int
}

// Record is what has been done to the files of a database, in order.
type Record struct {
	mu     sync.Mutex
	events []event
	exists map[string]bool
	full   func(file string) bool
}

var (
	recording sync.Mutex
	records   = map[string]*Record{} // by the path of the file
)

// Start records a database that is not there yet, in a folder that is, until stop. Register
// must have been called.
func Start(database string) (r *Record, stop func(), err error) {
	folder, err := filepath.EvalSymlinks(filepath.Dir(database)) // as SQLite opens it
	if err != nil {
		return nil, nil, err
	}
	path := filepath.Join(folder, filepath.Base(database))
	r = &Record{exists: map[string]bool{}}
	recording.Lock()
	defer recording.Unlock()
	for _, suffix := range []string{Database, Log, Journal} {
		records[path+suffix] = r
	}
	return r, func() {
		recording.Lock()
		defer recording.Unlock()
		for _, suffix := range []string{Database, Log, Journal} {
			delete(records, path+suffix)
		}
	}, nil
}

func recordOf(path string) (*Record, string) {
	recording.Lock()
	defer recording.Unlock()
	r := records[path]
	if r == nil {
		return nil, ""
	}
	for _, suffix := range []string{Log, Journal} {
		if bytes.HasSuffix([]byte(path), []byte(suffix)) {
			return r, suffix
		}
	}
	return r, Database
}

// Fill makes the disk full for those writes for which full says so: half of each is written, and it fails. nil:
// it has room.
func (r *Record) Fill(full func(file string) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.full = full
}

func (r *Record) isFull(file string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.full != nil && r.full(file)
}

// Len is how much has been recorded: what is done from now on comes behind that.
func (r *Record) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.events)
}

// Sync records a sync of a file that SQLite is not asked for, which do carries out.
func (r *Record) Sync(file string, do func() error) error {
	end := r.syncBegins(file)
	err := do()
	if err == nil {
		end()
	}
	return err
}

// SyncEnds are the lengths of the record right after the end of each sync.
func (r *Record) SyncEnds() (list []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, e := range r.events {
		if e.kind == syncEnded {
			list = append(list, i+1)
		}
	}
	return list
}

// do records what act does, unless it fails.
func (r *Record) do(e event, act func() int32) int32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	code := act()
	if code == sqlite3.SQLITE_OK {
		r.events = append(r.events, e)
		if e.kind == deleted {
			delete(r.exists, e.file)
		}
	}
	return code
}

func (r *Record) opened(file string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.exists[file] {
		r.exists[file] = true
		r.events = append(r.events, event{kind: created, file: file})
	}
}

func (r *Record) syncBegins(file string) (end func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	began := len(r.events)
	r.events = append(r.events, event{kind: syncBegan, file: file})
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.events = append(r.events, event{kind: syncEnded, file: file, began: began})
	}
}

func (r *Record) folderSynced() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, event{kind: named, began: len(r.events)})
}

func clone(p []byte) []byte { return bytes.Clone(p) }
