package vfs

import (
	"encoding/binary"
	"slices"

	sqlite3 "modernc.org/sqlite/lib"
)

// log keeps back what SQLite writes to a write-ahead log until it has the last frame of a
// commit: that one's header says so
// (https://www.sqlite.org/fileformat2.html#the_write_ahead_log). Whoever reads the log is told
// of a commit only after that write. What it does not take for a new frame in its place
// goes to the file at once, behind what was kept back.
type log struct {
	kept  []byte
	start int64 // where the first byte kept belongs
	end   int64 // how far the log has been written since it last began
	inner bool  // the next write is a page that other frames of its commit follow
}

const (
	frameHeader = 24
	maxKept     = 256 << 10
	maxPut      = 64 << 10 // SQLite takes no more than 128 KiB less one byte for a write
)

// put writes p at an offset and returns SQLite's code.
type put func(p []byte, offset int64) int32

func (l *log) write(to put, p []byte, offset int64) int32 {
	if offset != l.start+int64(len(l.kept)) {
		if code := l.flush(to); code != sqlite3.SQLITE_OK {
			return code
		}
		l.start = offset
	}
	if offset == 0 {
		l.end = 0
	}
	keep := l.inner
	l.inner = false
	if len(p) == frameHeader && offset >= l.end {
		keep, l.inner = true, binary.BigEndian.Uint32(p[4:]) == 0
	}
	l.kept = append(l.kept, p...)
	l.end = max(l.end, offset+int64(len(p)))
	if keep && len(l.kept) < maxKept {
		return sqlite3.SQLITE_OK
	}
	return l.flush(to)
}

func (l *log) flush(to put) int32 {
	if len(l.kept) == 0 {
		return sqlite3.SQLITE_OK
	}
	defer func() { l.kept = l.kept[:0] }()
	for part := range slices.Chunk(l.kept, maxPut) {
		if code := to(part, l.start); code != sqlite3.SQLITE_OK {
			return code // whoever commits is told, and it is undone
		}
		l.start += int64(len(part))
	}
	return sqlite3.SQLITE_OK
}
