package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"modernc.org/libc"
	"modernc.org/libc/sys/types"
	sqlite3 "modernc.org/sqlite/lib"
)

// sqlitePages is how many pages all connections of the process keep in memory together,
// 9 MB of them. Once they are taken a page gets the place of the one that has been
// unused the longest, whichever connection's that is; only pages that are in use or not
// yet written take memory beyond that, until their transaction ends. With 100,000 nodes
// 4,096 spare hardly any reads.
const sqlitePages = 2048

// sqlitePageSize is what SQLite itself chooses for new files.
const sqlitePageSize = 4096

// placePages gives SQLite one piece of memory for its pages. Left to itself it asks its
// allocator for each page together with what describes it, which is a little more than a
// power of two and takes twice that.
//
// It works once in a process, before its first connection. Where it fails SQLite still
// works, with more memory.
var placePages = sync.OnceValue(func() error {
	tls := libc.NewTLS()
	defer tls.Close()
	const word = 8
	words := libc.Xcalloc(tls, 4, word) // up to three arguments, and an answer
	if words == 0 {
		return errors.New("place SQLite's pages: no memory")
	}
	defer libc.Xfree(tls, words)
	answer := words + 3*word
	if code := sqlite3.Xsqlite3_config(tls, sqlite3.SQLITE_CONFIG_PCACHE_HDRSZ, libc.VaList(words, answer)); code != sqlite3.SQLITE_OK {
		return fmt.Errorf("ask SQLite what it keeps of a page besides its bytes: code %d", code)
	}
	place := sqlitePageSize + int(binary.NativeEndian.Uint32(libc.GoBytes(answer, 4)))
	memory := libc.Xmalloc(tls, types.Size_t(sqlitePages*place)) // for as long as the process lives
	if memory == 0 {
		return fmt.Errorf("place SQLite's pages: no memory for %d of %d bytes", sqlitePages, place)
	}
	if code := sqlite3.Xsqlite3_config(tls, sqlite3.SQLITE_CONFIG_PAGECACHE, libc.VaList(words, memory, int32(place), int32(sqlitePages))); code != sqlite3.SQLITE_OK {
		libc.Xfree(tls, memory)
		return fmt.Errorf("place SQLite's pages: code %d", code)
	}
	return nil
})
