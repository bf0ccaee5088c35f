package site

import (
	"os"
	"testing"

	"github.com/ironyard/ironyard/protocol/sidebyside"
)

// atOnce is how many tests run side by side. Most of them wait for servers that find each other and for keys that are replaced.
const atOnce = 4

func TestMain(m *testing.M) {
	sidebyside.Tests(atOnce)
	os.Exit(m.Run())
}
