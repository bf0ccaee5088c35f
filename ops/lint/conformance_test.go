package lint

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// machineRow is a line of the document that says what a driver's conformance test has.
var machineRow = regexp.MustCompile("(?m)^(?:\\| |- )`([a-z0-9/]+)` (Test\\w+)")

// Each package that holds a driver to the contract has its lines in the document, and each line has its test. What the lines say
// is compared by the tests themselves.
func TestConformanceLines(t *testing.T) {
	const root = "../.."
	text, err := os.ReadFile(filepath.Join(root, "docs/development/conformance.md"))
	if err != nil {
		t.Fatal(err)
	}
	sources := map[string][]byte{} // the tests of packages that call it
	for _, top := range []string{"rackd", "ops", "e2e", "central", "agent"} {
		err = filepath.WalkDir(filepath.Join(root, top), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			raw, err := os.ReadFile(path)
			if bytes.Contains(raw, []byte("drivertest.Conformance"+"(")) {
				folder, _ := filepath.Rel(root, filepath.Dir(path))
				sources[filepath.ToSlash(folder)] = append(sources[filepath.ToSlash(folder)], raw...)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(sources) == 0 {
		t.Fatal("no package holds a driver to the contract")
	}
	told := map[string]bool{}
	for _, m := range machineRow.FindAllStringSubmatch(string(text), -1) {
		told[m[1]] = true
		if !bytes.Contains(sources[m[1]], []byte("func "+m[2]+"(")) {
			t.Errorf("conformance.md has lines of %s %s, which is no such test: take them out", m[1], m[2])
		}
	}
	for folder := range sources {
		if !told[folder] {
			t.Errorf("conformance.md has no line of %s: write it with UPDATE_CONFORMANCE=1", folder)
		}
	}
}
