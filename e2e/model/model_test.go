//go:build !race

// The work is done by spin and gcc; the race detector has nothing to see here.

package model

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Scenarios of the model, as bits of SCENARIOS.
const (
	everything = 1<<15 - 2
	lossOfAll  = 1 << 14
)

func scenario(n int) int { return 1 << n }

func TestMain(m *testing.M) {
	if os.Getenv("IRONYARD_E2E") == "" {
		fmt.Println("not run: the model of the ownership protocol (set IRONYARD_E2E=1, or run make e2e)")
		return
	}
	os.Exit(m.Run())
}

// The model holds in every run of every scenario, and every line of it is reached in
// one of them: what nothing reaches proves nothing.
func TestProtocolHolds(t *testing.T) {
	unreached := map[string]int{}
	var mu sync.Mutex
	t.Run("scenarios", func(t *testing.T) {
		for name, scenarios := range map[string]int{
			"the bus loses all it has": lossOfAll,
			"the others":               everything &^ lossOfAll,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				v := build(t, "-O2", "-DSAFETY", scenarios)
				out := v.run(t, "-m1000")
				if n := out.number(t, `errors: (\d+)`); n != 0 {
					t.Fatalf("the protocol does not hold:\n%s\n%s", v.story(t), out)
				}
				states, depth := out.number(t, `(\d+) states, stored`), out.number(t, `depth reached (\d+)`)
				t.Logf("%d states, depth %d, %s", states, depth, out.find(t, `elapsed time .*`))
				if states < 1_000_000 || depth < 100 {
					t.Errorf("%d states to depth %d: the model does not move", states, depth)
				}
				mu.Lock()
				defer mu.Unlock()
				for _, line := range regexp.MustCompile(`(?m)^\townership\.pml.*$`).FindAllString(string(out), -1) {
					unreached[line]++
				}
			})
		}
	})
	for line, times := range unreached {
		if times == 2 && !strings.Contains(line, "-end-") {
			t.Errorf("never reached: %s", strings.TrimSpace(line))
		}
	}
}

// Nothing goes round for ever, so that every run ends, and ends where the model asks
// whether the work has.
func TestEveryRunEnds(t *testing.T) {
	t.Parallel()
	v := build(t, "-O2", "-DNP", scenario(2)|scenario(7)|scenario(12)|scenario(13))
	out := v.run(t, "-l", "-m1000")
	if n := out.number(t, `errors: (\d+)`); n != 0 {
		t.Fatalf("something goes round for ever:\n%s\n%s", v.story(t), out)
	}
	t.Logf("%d states, %s", out.number(t, `(\d+) states, stored`), out.find(t, `elapsed time .*`))
}

// Without any one of its rules the protocol does not hold, which shows that the model
// can see what the rule is for.
func TestEveryRuleIsNeeded(t *testing.T) {
	for _, c := range []struct {
		rule     string // the define that drops it
		scenario int
		breaks   string // what must not happen, as the failed assertion has it
	}{
		{"NO_EPOCH_CHECK", 9, "told"},
		{"NO_CAS", 1, "acted"},
		{"NO_LEASE_MARGIN", 1, "told"},
		{"NO_SAME_LEASE", 1, "actedEpoch"},
		{"NO_OWNER", 1, "told"},
		{"NO_SAME_DEATH", 1, "actedEpoch"},
		{"NO_OWNER_KEPT", 3, "actedWork"},
		{"NO_NEITHER", 1, "ran"},
		{"NO_KEY_FIRST", 8, "acted"},
		{"NO_REPORT_AGAIN", 12, "open"},
		{"NO_WAIT", 13, "told"},
		{"NO_EPOCH_JUMP", 9, "told"},
		{"NO_SETTLE", 9, "told"},
		{"NO_DRAIN", 9, "told"},
		{"NO_VOID", 9, "told"},
		{"NO_SURE_MEMORY", 9, "told"},
		{"NO_WRITTEN_END", 10, "told"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			t.Parallel()
			v := build(t, "-O0", "-DSAFETY", scenario(c.scenario), "-D"+c.rule)
			out := v.run(t, "-m300")
			if n := out.number(t, `errors: (\d+)`); n == 0 {
				t.Fatalf("the model holds without this rule, or does not see it broken:\n%s", out)
			}
			if failed := out.find(t, `assertion violated .*`); !strings.Contains(failed, c.breaks) {
				t.Errorf("%s; want one about %q", failed, c.breaks)
			}
			t.Logf("without it:\n%s", v.story(t))
		})
	}
}

// verifier is the program that spin makes of the model.
type verifier struct {
	dir     string
	defines []string
}

// build makes the verifier of some scenarios.
func build(t *testing.T, optimise, mode string, scenarios int, defines ...string) verifier {
	t.Helper()
	for _, tool := range []string{"spin", "gcc"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("%v: run ops/setup/packages.sh test", err)
		}
	}
	v := verifier{t.TempDir(), append([]string{fmt.Sprintf("-DSCENARIOS=%d", scenarios)}, defines...)}
	model, err := filepath.Abs("ownership.pml")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(model, filepath.Join(v.dir, "ownership.pml")); err != nil {
		t.Fatal(err)
	}
	v.command(t, "spin", append(append([]string{"-a"}, v.defines...), "ownership.pml")...)
	// Compressed states, at most 1.2 GB of them; its generated code warns by the page.
	v.command(t, "gcc", "-w", optimise, mode, "-DCOLLAPSE", "-DVECTORSZ=2048", "-DMEMLIM=1200", "-o", "pan", "pan.c")
	return v
}

// output is what spin's programs print.
type output string

func (v verifier) run(t *testing.T, args ...string) output {
	t.Helper()
	out := v.command(t, "./pan", args...)
	for _, broken := range []string{"max search depth too small", "memory limit", "aborted"} {
		if strings.Contains(string(out), broken) && !strings.Contains(string(out), "errors: 1") {
			t.Fatalf("not everything was looked at: %s\n%s", broken, out)
		}
	}
	return out
}

// story tells the run that pan has found, in the model's own words.
func (v verifier) story(t *testing.T) string {
	t.Helper()
	out := v.command(t, "spin", append(append([]string{"-t", "-T"}, v.defines...), "ownership.pml")...)
	told, _, _ := strings.Cut(string(out), "spin: ")
	return strings.TrimSpace(told)
}

// command runs one of spin's programs, which leave more behind in their output than
// in their exit code.
func (v verifier) command(t *testing.T, name string, args ...string) output {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = v.dir
	out, err := cmd.CombinedOutput()
	if err != nil && (name == "gcc" || ctx.Err() != nil || len(out) == 0) {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	if name == "spin" && args[0] == "-a" && (err != nil || strings.Contains(string(out), "Error")) {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return output(out)
}

func (o output) find(t *testing.T, pattern string) string {
	t.Helper()
	m := regexp.MustCompile(pattern).FindStringSubmatch(string(o))
	if m == nil {
		t.Fatalf("no %q in\n%s", pattern, o)
	}
	return m[len(m)-1]
}

func (o output) number(t *testing.T, pattern string) int {
	t.Helper()
	n, err := strconv.Atoi(o.find(t, pattern))
	if err != nil {
		t.Fatal(err)
	}
	return n
}
