package sidebyside

import (
	"flag"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"
)

const (
	atOnce = 37
	asked  = "IRONYARD_TEST_PARALLEL"
)

func TestMain(m *testing.M) {
	Tests(atOnce)
	os.Exit(m.Run())
}

// A -parallel of the command line counts, and without one as many tests run at once as TestMain has said.
func TestParallelOfTheCommandLine(t *testing.T) {
	if want := os.Getenv(asked); want != "" {
		if got := flag.Lookup(parallel).Value.String(); got != want {
			t.Errorf("%s tests run at once, want %s", got, want)
		}
		return
	}
	for want, args := range map[string][]string{"3": {"-test.parallel=3"}, strconv.Itoa(atOnce): nil} {
		c := exec.CommandContext(t.Context(), os.Args[0], slices.Concat([]string{"-test.run=^TestParallelOfTheCommandLine$"}, args)...)
		c.Env = append(os.Environ(), asked+"="+want)
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("with %q: %v: %s", args, err, out)
		}
	}
}
