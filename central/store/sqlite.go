package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/ironyard/ironyard/central/store/vfs"
)

// sqliteEngine keeps one connection for writes, so that writers queue in the
// process instead of failing on the file's lock, and a few for reads, which WAL
// lets run beside it.
type sqliteEngine struct {
	writer *sqliteWriter
	reader *sqliteReader
}

const sqliteReaders = 4

func openSQLite(ctx context.Context, path string, c *counter) (*sqliteEngine, error) {
	open := func(conns int, lock, files string, extra ...string) (*sql.DB, error) {
		v := url.Values{"_txlock": {lock}, "vfs": {files}, "_pragma": append([]string{"busy_timeout(5000)", "journal_mode(WAL)", "synchronous(NORMAL)"}, extra...)}
		if files == "" {
			v.Del("vfs")
		}
		db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?"+v.Encode())
		if err != nil {
			return nil, fmt.Errorf("open SQLite database %s: %w", path, err)
		}
		db.SetMaxOpenConns(conns)
		db.SetMaxIdleConns(conns)
		// Switching a new file to WAL does not wait for another process's lock.
		if err := retry(ctx, sqliteBusy, func() error { return db.PingContext(ctx) }); err != nil {
			return nil, errors.Join(fmt.Errorf("open SQLite database %s: %w", path, err), db.Close())
		}
		return db, nil
	}
	if err := makeSQLiteFile(path); err != nil {
		return nil, err
	}
	_ = placePages() // an error costs memory only
	if err := vfs.Register(); err != nil {
		return nil, err
	}
	// The writer's pages stay in memory from one transaction to the next, and the log is
	// copied into the file after 16 MiB only: the pages at the ends of the indexes, which
	// nearly every transaction writes, are copied once for many. A transaction may change
	// 16 MiB before it writes some of that early. What it needs to undo a statement of many
	// rows stays in memory as well.
	writer, err := open(1, "immediate", vfs.Name, "cache_size(-16384)", "wal_autocheckpoint(4096)", "temp_store(memory)")
	if err != nil {
		return nil, err
	}
	reader, err := open(sqliteReaders, "deferred", "", "query_only(1)")
	if err != nil {
		return nil, errors.Join(err, writer.Close())
	}
	log, err := openSQLiteLog(path)
	if err != nil {
		return nil, errors.Join(err, reader.Close(), writer.Close())
	}
	return &sqliteEngine{newSQLiteWriter(c, writer, log), &sqliteReader{counter: c, db: reader, log: log, known: map[string]*sqliteStmt{}}}, nil
}

// makeSQLiteFile makes the file of a database that is not there yet, for its owner's eyes
// only: SQLite would let everybody on the machine read it, and gives its log the same mode.
// One that is there keeps the mode that it has, and is not opened here: to close it again
// would take away the locks that this process has on it.
func makeSQLiteFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil
	case err != nil:
		return fmt.Errorf("open SQLite database: %w", err)
	}
	return f.Close()
}

func (e *sqliteEngine) exec(ctx context.Context, stmt string, args ...any) (n int64, err error) {
	err = e.transact(ctx, func(c conn) (err error) { n, err = c.exec(ctx, stmt, args...); return err })
	return n, err
}

func (e *sqliteEngine) execLater(ctx context.Context, check func(int64, error) error, stmt string, args ...any) error {
	return check(e.exec(ctx, stmt, args...))
}

func (e *sqliteEngine) addLater(ctx context.Context, to *ledger, check func(int64, error) error, args []any) error {
	return addAtOnce(ctx, e, to, check, args)
}

func (e *sqliteEngine) query(ctx context.Context, stmt string, args ...any) (rows, error) {
	return e.reader.query(ctx, stmt, args...)
}

func (e *sqliteEngine) transact(ctx context.Context, f func(conn) error) error {
	return retry(ctx, sqliteBusy, func() error {
		return once(ctx, e.begin, f)
	})
}

func (e *sqliteEngine) begin(ctx context.Context) (transaction, error) { return e.writer.begin(ctx) }

func (e *sqliteEngine) grouped() bool { return true }

func (e *sqliteEngine) conflict(err error) bool { return sqliteBusy(err) }

// sqliteBusy: another process holds the file.
func sqliteBusy(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && (e.Code()&0xff == sqlite3.SQLITE_BUSY || e.Code()&0xff == sqlite3.SQLITE_LOCKED)
}

// away: the file is held by another process, or its disk is full or fails.
func (e *sqliteEngine) away(err error) bool {
	s, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return errors.Is(err, errDisk)
	}
	switch s.Code() & 0xff {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN:
		return true
	}
	return false
}

func (e *sqliteEngine) refuses(err error) bool {
	s, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return false
	}
	switch s.Code() & 0xff {
	case sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_RANGE:
		return true
	}
	return false
}

func (e *sqliteEngine) duplicate(err error) (string, bool) {
	var s *sqlite.Error
	if !errors.As(err, &s) || (s.Code() != sqlite3.SQLITE_CONSTRAINT_UNIQUE && s.Code() != sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY) {
		return "", false
	}
	_, names, _ := strings.Cut(s.Error(), "UNIQUE constraint failed: ")
	name, _, _ := strings.Cut(names, " ")
	return strings.TrimSuffix(name, ","), true
}

func (e *sqliteEngine) lockRows(string) string { return "" } // the transaction holds the file's write lock

func (e *sqliteEngine) member(column, name string) string {
	return "NULLIF(" + column + ", '') ->> '" + name + "'"
}

func (e *sqliteEngine) name() string { return "sqlite" }

func (e *sqliteEngine) ping(ctx context.Context) error {
	if err := e.writer.log.settleSeen(); err != nil {
		return err
	}
	return e.reader.db.PingContext(ctx)
}

func (e *sqliteEngine) clock(context.Context) (time.Time, error) { return time.Time{}, nil }

func (e *sqliteEngine) close() error { return errors.Join(e.reader.close(), e.writer.close()) }
