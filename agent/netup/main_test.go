package netup

import (
	"os"
	"testing"

	"github.com/ironyard/ironyard/protocol/sidebyside"
)

// atOnce is how many tests run side by side, each in a network of its own. They wait for leases to end.
const atOnce = 16

func TestMain(m *testing.M) {
	sidebyside.Tests(atOnce)
	os.Exit(m.Run())
}
