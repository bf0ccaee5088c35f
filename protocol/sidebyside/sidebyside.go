// Package sidebyside runs tests that wait beside each other.
//
// go test runs as many tests of a package at once as there are processors. Tests that wait take no processor: they wait for answers that
// do not come, for leases to run out, and for servers to start. TestMain of such a package says here how many run at once.
//
// It imports nothing of the project.
package sidebyside

import (
	"flag"
	"strconv"
)

const parallel = "test.parallel"

// Tests has n tests run at once of those that call t.Parallel. A -parallel of the command line counts more. TestMain calls it before it
// runs the tests.
func Tests(n int) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == parallel })
	if given {
		return
	}
	if err := flag.Set(parallel, strconv.Itoa(n)); err != nil {
		panic(err)
	}
}
