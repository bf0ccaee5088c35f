package lint

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// asks is how a test asks whether it shall run whole; this file does not.
var asks = []byte("Getenv(" + `"IRONYARD_E2E")`)

// make e2e names the packages it runs: one that it left out would be skipped for ever,
// one that does not look for IRONYARD_E2E would do again what unit has done.
func TestMakefileKnowsWhatWaitsForE2E(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	_, line, ok := strings.Cut(string(makefile), "\nE2E := ")
	if !ok {
		t.Fatal("the Makefile has no list E2E")
	}
	line, _, _ = strings.Cut(line, "\n")
	listed := strings.Fields(line)
	slices.Sort(listed)
	waiting := packagesThatWait(t)
	if !slices.Equal(listed, waiting) {
		t.Errorf("E2E of the Makefile is\n%s\nwhat looks for IRONYARD_E2E is\n%s", strings.Join(listed, "\n"), strings.Join(waiting, "\n"))
	}
}

// packagesThatWait are the folders whose tests look for IRONYARD_E2E, sorted.
func packagesThatWait(t *testing.T) (list []string) {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range packages(t) {
		files, err := filepath.Glob(filepath.Join(p.Dir, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		waits := slices.ContainsFunc(files, func(name string) bool {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			return bytes.Contains(text, asks)
		})
		if !waits {
			continue
		}
		folder, err := filepath.Rel(root, p.Dir)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, folder)
	}
	slices.Sort(list)
	return list
}

// What the race detector leaves out, by its build constraint, is run by make test without it.
func TestMakefileRunsWhatIsUnraced(t *testing.T) {
	list := exec.CommandContext(t.Context(), "ops/tools/unraced.sh")
	list.Dir = "../.."
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	name, folders, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	runs, err := regexp.Compile(strings.TrimPrefix(name, "-run="))
	if err != nil {
		t.Fatal(err)
	}
	unraced, test := 0, regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example)\w*)\(`)
	for _, p := range packages(t) {
		files, err := filepath.Glob(filepath.Join(p.Dir, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range files {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			constraint, _, _ := bytes.Cut(text, []byte("\n"))
			if !bytes.HasPrefix(constraint, []byte("//go:build")) || !bytes.Contains(constraint, []byte("!"+"race")) {
				continue
			}
			for _, f := range test.FindAllSubmatch(text, -1) {
				if string(f[1]) == "TestMain" {
					continue
				}
				folder := "." + strings.TrimPrefix(p.ImportPath, strings.TrimSuffix(module, "/"))
				if unraced++; !runs.Match(f[1]) || !slices.Contains(strings.Fields(folders), folder) {
					t.Errorf("%s of %s is left out under the race detector, and make unraced does not run it", f[1], path)
				}
			}
		}
	}
	if unraced == 0 {
		t.Error("no test is left out under the race detector: remove ops/tools/unraced.sh")
	}
}
