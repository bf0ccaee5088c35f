package storetest

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"
)

var (
	postgres    *Postgres
	postgresErr error
)

func TestMain(m *testing.M) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	postgres, postgresErr = StartPostgres(ctx)
	cancel()
	code := m.Run()
	if postgres != nil {
		if err := postgres.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func TestSQLite(t *testing.T) { Suite(t, SQLite, EmptySQLite) }

func TestPostgreSQL(t *testing.T) {
	if postgresErr != nil {
		t.Fatal(postgresErr)
	}
	Suite(t, postgres.Database, postgres.Empty)
}

func TestCockroachDB(t *testing.T) {
	database := Cockroach(t)
	if database == nil {
		t.Log("neither COCKROACH_URL nor COCKROACH_BINARY is set: CockroachDB was not tested")
		return
	}
	Suite(t, database, database)
}
