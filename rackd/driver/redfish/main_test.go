package redfish

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/ironyard/ironyard/protocol/sidebyside"
)

// atOnce is how many tests run side by side. Most of them wait for answers that do not come, and for tasks of BMCs.
const atOnce = 8

func TestMain(m *testing.M) {
	sidebyside.Tests(atOnce)
	goleak.VerifyTestMain(m)
}
