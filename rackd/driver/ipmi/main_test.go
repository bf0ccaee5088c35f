package ipmi

import (
	"flag"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"
)

// atOnce is how many tests run side by side where the command line does not say it. Most of them wait for answers that do not come, and
// take no processor.
const atOnce = 16

const parallelFlag = "test.parallel"

func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == parallelFlag })
	if !given {
		if err := flag.Set(parallelFlag, strconv.Itoa(atOnce)); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

const parallelEnv = "IRONYARD_TEST_PARALLEL"

// A -parallel of the command line counts, and without one the tests run sixteen at once.
func TestParallelOfTheCommandLine(t *testing.T) {
	if want := os.Getenv(parallelEnv); want != "" {
		if got := flag.Lookup(parallelFlag).Value.String(); got != want {
			t.Errorf("%s tests run at once, want %s", got, want)
		}
		return
	}
	for want, args := range map[string][]string{"3": {"-test.parallel=3"}, strconv.Itoa(atOnce): nil} {
		c := exec.CommandContext(t.Context(), os.Args[0], slices.Concat([]string{"-test.run=^TestParallelOfTheCommandLine$"}, args)...)
		c.Env = append(os.Environ(), parallelEnv+"="+want)
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("with %q: %v: %s", args, err, out)
		}
	}
}
