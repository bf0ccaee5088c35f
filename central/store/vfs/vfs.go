// Package vfs is how SQLite's writer reaches its files: as the system's own VFS does, save
// that the pages of a commit go to the write-ahead log together. SQLite itself asks for two
// writes for each page, one for 24 bytes of header, which is most of what a commit costs the
// processor besides the change itself.
//
// It owns the place where the project speaks SQLite's own interface for files
// (https://www.sqlite.org/vfs.html) and imports nothing of the project. What is in the log, and in
// which order it got there, is the same as without it; what is kept back is never part of
// a commit that anybody can see.
package vfs

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"modernc.org/libc"
	"modernc.org/libc/sys/types"
	sqlite3 "modernc.org/sqlite/lib"
)

// Name is what the VFS is called in the name of a database: "file:PATH?vfs=" + Name.
const Name = "ironyard"

// Register makes the VFS known to SQLite, once for the process. It initialises SQLite, which
// cannot be configured afterwards. It is safe for concurrent use.
var Register = sync.OnceValue(func() error {
	tls := libc.NewTLS()
	defer tls.Close()
	base := sqlite3.Xsqlite3_vfs_find(tls, 0)
	if base == 0 {
		return errors.New("SQLite has no VFS of this system")
	}
	name, err := libc.CString(Name)
	if err != nil {
		return fmt.Errorf("register SQLite's VFS %s: %w", Name, err)
	}
	own := libc.Xmalloc(tls, types.Size_t(unsafe.Sizeof(sqlite3.Tsqlite3_vfs{}))) // for as long as the process lives
	if own == 0 {
		return fmt.Errorf("register SQLite's VFS %s: no memory", Name)
	}
	v := at[sqlite3.Tsqlite3_vfs](own)
	*v = *at[sqlite3.Tsqlite3_vfs](base)
	openBase = v.FxOpen
	v.FpNext, v.FzName, v.FxOpen = 0, name, pointer(open)
	if code := sqlite3.Xsqlite3_vfs_register(tls, own, 0); code != sqlite3.SQLITE_OK {
		return fmt.Errorf("register SQLite's VFS %s: code %d", Name, code)
	}
	return nil
})

// at is what lies at an address of SQLite's, which is none of Go's memory.
func at[T any](address uintptr) *T { return *(**T)(unsafe.Pointer(&address)) }

// pointer is a function as SQLite calls it, function the other way round: its pointers to
// functions are what Go's values of functions hold.
func pointer[F any](f F) uintptr { return *(*uintptr)(unsafe.Pointer(&f)) }

func function[F any](address uintptr) F { return *(*F)(unsafe.Pointer(&address)) }

// The functions of a VFS and of a file.
type (
	opener func(tls *libc.TLS, vfs, name, file uintptr, flags int32, outFlags uintptr) int32
	closer func(tls *libc.TLS, file uintptr) int32
	mover  func(tls *libc.TLS, file, buffer uintptr, n int32, offset int64) int32
	cutter func(tls *libc.TLS, file uintptr, size int64) int32
	syncer func(tls *libc.TLS, file uintptr, flags int32) int32
	sizer  func(tls *libc.TLS, file, size uintptr) int32
)

var openBase uintptr // of the system's VFS

// open opens a file as the system's VFS does, and puts itself between SQLite and a log.
func open(tls *libc.TLS, vfs, name, file uintptr, flags int32, outFlags uintptr) int32 {
	code := function[opener](openBase)(tls, vfs, name, file, flags, outFlags)
	if code != sqlite3.SQLITE_OK || flags&sqlite3.SQLITE_OPEN_WAL == 0 {
		return code
	}
	handle := at[sqlite3.Tsqlite3_file](file)
	base := at[sqlite3.Tsqlite3_io_methods](handle.FpMethods)
	own := libc.Xmalloc(tls, types.Size_t(unsafe.Sizeof(*base)))
	if own == 0 {
		function[closer](base.FxClose)(tls, file)
		handle.FpMethods = 0
		return sqlite3.SQLITE_NOMEM
	}
	m := at[sqlite3.Tsqlite3_io_methods](own)
	*m = *base
	m.FxClose, m.FxRead, m.FxWrite, m.FxTruncate, m.FxSync, m.FxFileSize =
		pointer[closer](closeLog), pointer[mover](readLog), pointer[mover](writeLog), pointer[cutter](truncateLog), pointer[syncer](syncLog), pointer[sizer](sizeOfLog)
	logs.Store(file, &openLog{base: base})
	handle.FpMethods = own
	return code
}

// logs are the open logs (*openLog) by the addresses of their files. SQLite uses a file
// from one goroutine at a time.
var logs sync.Map

type openLog struct {
	base *sqlite3.Tsqlite3_io_methods
	log
}

// logOf returns the log of a file whose methods are ours, and what writes to it.
func logOf(tls *libc.TLS, file uintptr) (*openLog, put) {
	known, _ := logs.Load(file)
	l := known.(*openLog)
	return l, func(p []byte, offset int64) int32 {
		return function[mover](l.base.FxWrite)(tls, file, uintptr(unsafe.Pointer(unsafe.SliceData(p))), int32(len(p)), offset)
	}
}

func closeLog(tls *libc.TLS, file uintptr) int32 {
	l, put := logOf(tls, file)
	flushed := l.flush(put)
	logs.Delete(file)
	own := at[sqlite3.Tsqlite3_file](file).FpMethods
	code := function[closer](l.base.FxClose)(tls, file)
	libc.Xfree(tls, own)
	return max(flushed, code)
}

func readLog(tls *libc.TLS, file, buffer uintptr, n int32, offset int64) int32 {
	l, put := logOf(tls, file)
	if code := l.flush(put); code != sqlite3.SQLITE_OK {
		return code
	}
	return function[mover](l.base.FxRead)(tls, file, buffer, n, offset)
}

func writeLog(tls *libc.TLS, file, buffer uintptr, n int32, offset int64) int32 {
	l, put := logOf(tls, file)
	return l.write(put, unsafe.Slice(at[byte](buffer), n), offset)
}

func truncateLog(tls *libc.TLS, file uintptr, size int64) int32 {
	l, put := logOf(tls, file)
	if code := l.flush(put); code != sqlite3.SQLITE_OK {
		return code
	}
	return function[cutter](l.base.FxTruncate)(tls, file, size)
}

func syncLog(tls *libc.TLS, file uintptr, flags int32) int32 {
	l, put := logOf(tls, file)
	if code := l.flush(put); code != sqlite3.SQLITE_OK {
		return code
	}
	return function[syncer](l.base.FxSync)(tls, file, flags)
}

func sizeOfLog(tls *libc.TLS, file, size uintptr) int32 {
	l, put := logOf(tls, file)
	if code := l.flush(put); code != sqlite3.SQLITE_OK {
		return code
	}
	return function[sizer](l.base.FxFileSize)(tls, file, size)
}
