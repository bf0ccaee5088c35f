package ingest_test

import (
	"os"
	"testing"

	"github.com/ironyard/ironyard/central/store/storetest"
	"github.com/ironyard/ironyard/protocol/sidebyside"
)

// atOnce is how many tests run side by side. Most of them wait for consumers and servers that are gone.
const atOnce = 8

var postgres storetest.Cluster

func TestMain(m *testing.M) {
	sidebyside.Tests(atOnce)
	os.Exit(postgres.Run(m))
}
