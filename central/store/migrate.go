package store

import (
	"context"
	"embed"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migration is one DDL statement.
type migration struct {
	version int64
	name    string
	engine  string // the only one that it is for; empty: all
	sql     string
}

// migrations are applied in order, gaps are allowed; one that was released is never
// changed, only followed by another. NUMBER_NAME.ENGINE.sql is for one engine: it is about
// how rows lie there, never about what they mean.
var migrations = func() []migration {
	entries, err := migrationFiles.ReadDir("migrations")
	if err != nil {
		panic(err)
	}
	var list []migration
	for _, e := range entries {
		text, err := migrationFiles.ReadFile(path.Join("migrations", e.Name()))
		if err != nil {
			panic(err)
		}
		number, name, _ := strings.Cut(strings.TrimSuffix(e.Name(), ".sql"), "_")
		name, engine, _ := strings.Cut(name, ".")
		version, err := strconv.ParseInt(number, 10, 64)
		if err != nil || len(list) > 0 && version <= list[len(list)-1].version {
			panic("store: migration " + e.Name() + " is out of sequence")
		}
		list = append(list, migration{version, name, engine, strings.TrimSpace(string(text))})
	}
	return list
}()

var (
	createMigrations = register("CREATE TABLE IF NOT EXISTS schema_migrations (version BIGINT NOT NULL, name TEXT NOT NULL, " +
		"applied_at BIGINT NOT NULL, CONSTRAINT schema_migrations_pkey PRIMARY KEY (version))")
	selectMigrations = register("SELECT version, name FROM schema_migrations ORDER BY version")
	insertMigration  = register("INSERT INTO schema_migrations (version, name, applied_at) VALUES ($1, $2, $3)")
)

// Migrate brings the schema up to date and returns how many migrations it applied.
// Several replicas may call it at once. A schema newer than this program is an error.
//
// Each migration is one transaction that first inserts its version: the primary
// key makes a second replica wait and then skip, on every engine, without advisory
// locks (CockroachDB has none that work) or a lock table to clean up.
func (s *Store) Migrate(ctx context.Context) (int, error) {
	if e, remote := s.engine.(interface{ bear(time.Duration) func() }); remote {
		defer e.bear(silentForMigration)()
	}
	if err := s.createMigrations(ctx); err != nil {
		return 0, err
	}
	done, err := s.appliedMigrations(ctx)
	if err != nil {
		return 0, fmt.Errorf("read applied migrations: %w", err)
	}
	for v, name := range done {
		if v > migrations[len(migrations)-1].version {
			return 0, fmt.Errorf("the database has migration %d (%s), which this version of central does not know: run the newer version", v, name)
		}
	}
	applied := 0
	for _, m := range migrations {
		if _, ok := done[m.version]; ok {
			continue
		}
		err := s.engine.transact(ctx, func(c conn) error {
			if _, err := c.exec(ctx, insertMigration, m.version, m.name, s.now().UnixMicro()); err != nil {
				return err
			}
			if m.engine != "" && m.engine != s.engine.name() {
				return nil
			}
			_, err := c.exec(ctx, m.sql)
			return err
		})
		if _, taken := s.engine.duplicate(err); taken {
			continue // another replica was first
		}
		if err != nil {
			return applied, fmt.Errorf("migration %d (%s): %w", m.version, m.name, err)
		}
		applied++
	}
	return applied, nil
}

// createMigrations creates the table of migrations. On PostgreSQL two CREATE TABLE
// IF NOT EXISTS at once can fail on the catalogue; then the table is there.
func (s *Store) createMigrations(ctx context.Context) error {
	err := s.engine.transact(ctx, func(c conn) error {
		_, err := c.exec(ctx, createMigrations)
		return err
	})
	if err != nil {
		if _, readable := s.appliedMigrations(ctx); readable == nil {
			return nil
		}
		return fmt.Errorf("create table schema_migrations: %w", err)
	}
	return nil
}

func (s *Store) appliedMigrations(ctx context.Context) (map[int64]string, error) {
	done := map[int64]string{}
	r, err := s.engine.query(ctx, selectMigrations)
	err = scanAll(r, err, func(r rows) error {
		var v int64
		var name string
		if err := r.Scan(&v, &name); err != nil {
			return err
		}
		done[v] = name
		return nil
	})
	return done, err
}

// Pending returns how many migrations wait to be applied.
func (s *Store) Pending(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	done, err := s.appliedMigrations(ctx)
	if err != nil {
		return 0, err
	}
	return len(migrations) - len(done), nil
}
