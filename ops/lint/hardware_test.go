package lint

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// asksHardware is how a test asks whether it shall run whole by make hardware; this file does not.
var asksHardware = []byte("Getenv(" + `"IRONYARD_HARDWARE")`)

// A test that looks for IRONYARD_HARDWARE, itself or by a function of its package, is run by make hardware. One that no line of the
// Makefile names would be skipped for ever.
func TestMakefileRunsWhatWaitsForHardware(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	lines := hardwareLines(t, makefile)
	waiting := 0
	for _, p := range packages(t) {
		folder, err := filepath.Rel(root, p.Dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range testsForHardware(t, p.Dir) {
			if waiting++; !slices.ContainsFunc(lines, func(l hardwareLine) bool { return slices.Contains(l.folders, folder) && l.runs.MatchString(name) }) {
				t.Errorf("%s of %s waits for IRONYARD_HARDWARE, and make hardware does not run it", name, folder)
			}
		}
	}
	if waiting == 0 || len(lines) == 0 {
		t.Errorf("%d tests wait for IRONYARD_HARDWARE, and %d lines of the Makefile run such tests", waiting, len(lines))
	}
}

// hardwareLine is a line of the Makefile that sets IRONYARD_HARDWARE: it runs tests of those folders.
type hardwareLine struct {
	folders []string
	runs    *regexp.Regexp
}

var runFlag = regexp.MustCompile(` -run "?([^" ]+)"?`)

func hardwareLines(t *testing.T, makefile []byte) (lines []hardwareLine) {
	t.Helper()
	for line := range strings.Lines(string(makefile)) {
		if !strings.HasPrefix(line, "\t") || !strings.Contains(line, "IRONYARD_HARDWARE=1") {
			continue
		}
		l := hardwareLine{runs: regexp.MustCompile("")}
		if m := runFlag.FindStringSubmatch(line); m != nil {
			runs, err := regexp.Compile(m[1])
			if err != nil {
				t.Fatalf("-run of the Makefile's line %s: %v", line, err)
			}
			l.runs = runs
		}
		for _, word := range strings.Fields(line) {
			if folder, is := strings.CutPrefix(word, "./"); is {
				l.folders = append(l.folders, folder)
			}
		}
		lines = append(lines, l)
	}
	return lines
}

// function is a function's name, with a point before that of a method.
var function = regexp.MustCompile(`(?m)^func (\([^)]*\) )?(\w+)`)

// testsForHardware are the tests of a folder that look for IRONYARD_HARDWARE, themselves or by a function that they call.
func testsForHardware(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	bodies := map[string][]byte{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		at := function.FindAllSubmatchIndex(text, -1)
		for i, f := range at {
			end := len(text)
			if i+1 < len(at) {
				end = at[i+1][0]
			}
			name := string(text[f[4]:f[5]])
			if f[2] >= 0 {
				name = "." + name
			}
			bodies[name] = append(bodies[name], text[f[1]:end]...)
		}
	}
	waits := map[string]bool{}
	for name, body := range bodies {
		waits[name] = bytes.Contains(body, asksHardware)
	}
	for more := true; more; {
		more = false
		for name, body := range bodies {
			if !waits[name] && callsOne(body, name, waits) {
				waits[name], more = true, true
			}
		}
	}
	for name, does := range waits {
		if does && name != "TestMain" && strings.HasPrefix(name, "Test") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

var call = regexp.MustCompile(`(\.?\b\w+)\(`)

// callsOne reports whether a function's body calls another of those, by a name that the body does not give to a function of its own. A
// TestMain prepares all tests, and prepares more for some.
func callsOne(body []byte, name string, those map[string]bool) bool {
	return slices.ContainsFunc(call.FindAllSubmatch(body, -1), func(m [][]byte) bool {
		called := string(m[1])
		return called != name && called != "TestMain" && those[called] && !bytes.Contains(body, []byte("\t"+called+" := "))
	})
}
