package powercut

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"modernc.org/libc"
	"modernc.org/libc/sys/types"
	sqlite3 "modernc.org/sqlite/lib"
)

// Register puts the recorder between SQLite's own VFS and all connections of the process that are
// opened later, also those of VFSs that build upon the default one. Databases that nobody records
// go by it. It initialises SQLite, which cannot be configured afterwards.
var Register = sync.OnceValue(func() error {
	tls := libc.NewTLS()
	defer tls.Close()
	base := sqlite3.Xsqlite3_vfs_find(tls, 0)
	if base == 0 {
		return errors.New("SQLite has no VFS of this system")
	}
	name, err := libc.CString("powercut")
	if err != nil {
		return fmt.Errorf("register the recording VFS: %w", err)
	}
	own := libc.Xmalloc(tls, types.Size_t(unsafe.Sizeof(sqlite3.Tsqlite3_vfs{}))) // for as long as the process lives
	if own == 0 {
		return errors.New("register the recording VFS: no memory")
	}
	v := at[sqlite3.Tsqlite3_vfs](own)
	*v = *at[sqlite3.Tsqlite3_vfs](base)
	openBase, deleteBase = function[opener](v.FxOpen), function[deleter](v.FxDelete)
	v.FpNext, v.FzName, v.FxOpen, v.FxDelete = 0, name, pointer(openFile), pointer(deleteFile)
	if code := sqlite3.Xsqlite3_vfs_register(tls, own, 1); code != sqlite3.SQLITE_OK {
		return fmt.Errorf("register the recording VFS: code %d", code)
	}
	return nil
})

// at is what lies at an address of SQLite's, which is none of Go's memory.
func at[T any](address uintptr) *T { return *(**T)(unsafe.Pointer(&address)) }

// pointer is a function as SQLite calls it, function the other way round.
func pointer[F any](f F) uintptr { return *(*uintptr)(unsafe.Pointer(&f)) }

func function[F any](address uintptr) F { return *(*F)(unsafe.Pointer(&address)) }

type (
	opener  func(tls *libc.TLS, vfs, name, file uintptr, flags int32, outFlags uintptr) int32
	deleter func(tls *libc.TLS, vfs, name uintptr, syncFolder int32) int32
	closer  func(tls *libc.TLS, file uintptr) int32
	writer  func(tls *libc.TLS, file, buffer uintptr, n int32, offset int64) int32
	cutter  func(tls *libc.TLS, file uintptr, size int64) int32
	syncer  func(tls *libc.TLS, file uintptr, flags int32) int32
)

var (
	openBase   opener
	deleteBase deleter
)

// openFiles are the files of recorded databases that are open (*openedFile), by their
// addresses.
var openFiles sync.Map

type openedFile struct {
	base   *sqlite3.Tsqlite3_io_methods
	own    uintptr // its methods as SQLite, or a VFS before us, knows them
	record *Record
	suffix string
}

func openFile(tls *libc.TLS, vfs, name, file uintptr, flags int32, outFlags uintptr) int32 {
	code := openBase(tls, vfs, name, file, flags, outFlags)
	if code != sqlite3.SQLITE_OK || name == 0 {
		return code
	}
	r, suffix := recordOf(libc.GoString(name))
	if r == nil {
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
	m.FxClose, m.FxWrite, m.FxTruncate, m.FxSync =
		pointer[closer](closeFile), pointer[writer](writeFile), pointer[cutter](truncateFile), pointer[syncer](syncFile)
	openFiles.Store(file, &openedFile{base, own, r, suffix})
	handle.FpMethods = own
	r.opened(suffix)
	return code
}

func opened(file uintptr) *openedFile {
	known, _ := openFiles.Load(file)
	return known.(*openedFile)
}

func closeFile(tls *libc.TLS, file uintptr) int32 {
	o := opened(file)
	openFiles.Delete(file)
	code := function[closer](o.base.FxClose)(tls, file)
	libc.Xfree(tls, o.own)
	return code
}

func writeFile(tls *libc.TLS, file, buffer uintptr, n int32, offset int64) int32 {
	o := opened(file)
	full := o.record.isFull(o.suffix)
	if full {
		n /= 2
	}
	code := o.record.do(event{kind: wrote, file: o.suffix, offset: offset, data: clone(unsafe.Slice(at[byte](buffer), n))}, func() int32 {
		return function[writer](o.base.FxWrite)(tls, file, buffer, n, offset)
	})
	if full && code == sqlite3.SQLITE_OK {
		return sqlite3.SQLITE_FULL
	}
	return code
}

func truncateFile(tls *libc.TLS, file uintptr, size int64) int32 {
	o := opened(file)
	return o.record.do(event{kind: truncated, file: o.suffix, offset: size}, func() int32 {
		return function[cutter](o.base.FxTruncate)(tls, file, size)
	})
}

func syncFile(tls *libc.TLS, file uintptr, flags int32) int32 {
	o := opened(file)
	end := o.record.syncBegins(o.suffix)
	code := function[syncer](o.base.FxSync)(tls, file, flags)
	if code == sqlite3.SQLITE_OK {
		end()
	}
	return code
}

func deleteFile(tls *libc.TLS, vfs, name uintptr, syncFolder int32) int32 {
	r, suffix := recordOf(libc.GoString(name))
	if r == nil {
		return deleteBase(tls, vfs, name, syncFolder)
	}
	code := r.do(event{kind: deleted, file: suffix}, func() int32 { return deleteBase(tls, vfs, name, syncFolder) })
	if code == sqlite3.SQLITE_OK && syncFolder != 0 {
		r.folderSynced()
	}
	return code
}
