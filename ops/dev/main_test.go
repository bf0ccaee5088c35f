package dev_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/ironyard/ironyard/protocol/sidebyside"
)

// atOnce is how many fleets run side by side. Each test mostly waits for steps that take their time.
const atOnce = 6

func TestMain(m *testing.M) {
	sidebyside.Tests(atOnce)
	goleak.VerifyTestMain(m)
}
