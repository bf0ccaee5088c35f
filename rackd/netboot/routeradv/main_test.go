package routeradv

import (
	"os"
	"testing"

	"github.com/ironyard/ironyard/protocol/sidebyside"
)

// atOnce is how many links are tried side by side. They wait for a kernel to ask, and for a router to fall silent.
const atOnce = 3

func TestMain(m *testing.M) {
	sidebyside.Tests(atOnce)
	os.Exit(m.Run())
}
