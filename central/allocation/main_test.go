package allocation_test

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
