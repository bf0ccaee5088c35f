// Command vet runs Go's own suite of vet, bodyclose and errcheck in one pass and one process. go vet starts a process for each package,
// those of all modules too, and one more for each tool.
package main

import (
	"slices"

	"github.com/kisielk/errcheck/errcheck"
	"github.com/timakin/bodyclose/passes/bodyclose"
	"golang.org/x/tools/go/analysis/multichecker"
	"golang.org/x/tools/go/analysis/suite/vet"
)

func main() {
	multichecker.Main(append(slices.Clip(vet.Suite), bodyclose.Analyzer, errcheck.Analyzer)...)
}
