package enrol_test

import (
	"os"
	"testing"

	"github.com/ironyard/ironyard/central/store/storetest"
)

var postgres storetest.Cluster

func TestMain(m *testing.M) { os.Exit(postgres.Run(m)) }

// engines give fresh databases: tokens must work once on each.
var engines = map[string]func(testing.TB) string{
	"sqlite":     storetest.SQLite,
	"postgresql": postgres.Database,
}
