package storetest

import (
	"os"
	"testing"
)

var postgres Cluster

func TestMain(m *testing.M) { os.Exit(postgres.Run(m)) }

func TestSQLite(t *testing.T) { Suite(t, SQLite, EmptySQLite) }

func TestPostgreSQL(t *testing.T) {
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
