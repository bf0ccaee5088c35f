package relay_test

import (
	"os"
	"testing"

	"github.com/ironyard/ironyard/protocol/sidebyside"
)

// atOnce is how many tests run side by side. Most of them wait for the looks of a relay at its site. Those that have something happen at a
// place in the code (failpoint) run alone: it would happen to the others too.
const atOnce = 8

func TestMain(m *testing.M) {
	sidebyside.Tests(atOnce)
	os.Exit(m.Run())
}
