package partition

import (
	"os"
	"testing"

	"github.com/ironyard/ironyard/protocol/sidebyside"
)

// atOnce is how many tests run side by side. Most of them wait for a disk to keep what was written.
const atOnce = 4

func TestMain(m *testing.M) {
	sidebyside.Tests(atOnce)
	os.Exit(m.Run())
}
