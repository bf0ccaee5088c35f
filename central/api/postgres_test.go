package api

import (
	"testing"

	"github.com/ironyard/ironyard/central/store/storetest"
)

// ownPostgres starts a PostgreSQL for one test.
func ownPostgres(t *testing.T) *storetest.Postgres {
	t.Helper()
	p, err := storetest.StartPostgres(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
	return p
}
