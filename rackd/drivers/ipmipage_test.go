package drivers

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The table of docs/ipmi.md names the interfaces that the hardware type ipmi has, and no other.
func TestThePageOfIPMINamesItsInterfaces(t *testing.T) {
	s, err := Open(all)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close(t.Context()) }()
	page, err := os.ReadFile("../../docs/ipmi.md")
	if err != nil {
		t.Fatal(err)
	}
	told := map[string][]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| ([a-z, ]+) \\| (`.*`).* \\|$").FindAllStringSubmatch(string(page), -1) {
		own, _, _ := strings.Cut(row[2], ";")
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(own, -1) {
			for kind := range strings.SplitSeq(row[1], ", ") {
				told[kind] = append(told[kind], name[1])
			}
		}
	}
	for kind, have := range s.Describe()["ipmi"] {
		want := slices.DeleteFunc(slices.Clone(have), func(name string) bool { return kind == "vendor" && name == "no-vendor" })
		if len(want) == 1 && want[0] == "no-"+kind {
			continue // of no use to tell
		}
		if !slices.Equal(told[kind], want) {
			t.Errorf("docs/ipmi.md names the %s interfaces %v, and there are %v", kind, told[kind], want)
		}
	}
}
