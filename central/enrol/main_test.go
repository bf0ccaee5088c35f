package enrol_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/store/storetest"
)

var (
	postgres    *storetest.Postgres
	postgresErr error
)

func TestMain(m *testing.M) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	postgres, postgresErr = storetest.StartPostgres(ctx)
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

// engines give fresh databases: tokens must work once on each.
var engines = map[string]func(testing.TB) string{
	"sqlite": storetest.SQLite,
	"postgresql": func(t testing.TB) string {
		if postgresErr != nil {
			t.Fatal(postgresErr)
		}
		return postgres.Database(t)
	},
}
