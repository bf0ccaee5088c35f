package storetest

import (
	"fmt"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/cockroachdb/cockroach-go/v2/testserver"
)

// Cockroach returns a function that creates a fresh CockroachDB database for a
// test and returns its URL: on the cluster that COCKROACH_URL names, or on one
// started, until t ends, from the program that COCKROACH_BINARY names. It returns
// nil when neither is set.
func Cockroach(t testing.TB) func(testing.TB) string {
	t.Helper()
	base := os.Getenv("COCKROACH_URL")
	if base == "" {
		binary := os.Getenv("COCKROACH_BINARY")
		if binary == "" {
			return nil
		}
		server, err := testserver.NewTestServer(testserver.CockroachBinaryPathOpt(binary))
		if err != nil {
			t.Fatalf("start CockroachDB from %s: %v", binary, err)
		}
		t.Cleanup(server.Stop)
		base = server.PGURL().String()
	}
	return func(t testing.TB) string {
		t.Helper()
		u, err := url.Parse(base)
		if err != nil {
			t.Fatalf("COCKROACH_URL: %v", err)
		}
		name := fmt.Sprintf("ironyard_test_%d", time.Now().UnixNano())
		if err := createDatabase(t.Context(), base, name, ""); err != nil {
			t.Fatal(err)
		}
		u.Path = "/" + name
		return u.String()
	}
}
