package ingest_test

import (
	"os"
	"testing"

	"github.com/ironyard/ironyard/central/store/storetest"
)

var postgres storetest.Cluster

func TestMain(m *testing.M) { os.Exit(postgres.Run(m)) }
