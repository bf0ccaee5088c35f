package storetest

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"
)

// Cluster is the PostgreSQL of the tests of a package, whose TestMain exits with Run's result.
// Its methods are for what runs within Run.
type Cluster struct {
	*Postgres
	err error // why there is none
}

// Run starts the cluster, runs the tests and stops it. It returns their exit code. Without a
// cluster those tests fail that ask for a database of it.
func (c *Cluster) Run(m *testing.M) int {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	c.Postgres, c.err = StartPostgres(ctx)
	cancel()
	code := m.Run()
	if c.err != nil {
		return code
	}
	if err := c.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// Database is Postgres.Database.
func (c *Cluster) Database(t testing.TB) string {
	t.Helper()
	c.need(t)
	return c.Postgres.Database(t)
}

// Empty is Postgres.Empty.
func (c *Cluster) Empty(t testing.TB) string {
	t.Helper()
	c.need(t)
	return c.Postgres.Empty(t)
}

func (c *Cluster) need(t testing.TB) {
	t.Helper()
	if c.err != nil {
		t.Fatal(c.err)
	}
}
