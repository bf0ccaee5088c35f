package plan

import (
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// listed reads steps: "name", "agent's name!" or "asked name?".
func listed(names string) (steps []driver.Step) {
	for _, n := range strings.Fields(names) {
		s := driver.Step{Interface: "deploy", Name: strings.TrimRight(n, "!?"), InBand: strings.HasSuffix(n, "!")}
		if strings.HasSuffix(n, "?") {
			s.Asked = 1
		}
		steps = append(steps, s)
	}
	return steps
}

func TestGrow(t *testing.T) {
	for _, c := range []struct {
		old  string
		at   int
		all  string
		open bool
		want string // empty: an error
	}{
		{"up", 0, "up a b", true, "up a b"},
		{"up a down", 0, "up mine! new a asked? down", false, "up mine a asked down"},
		{"up a down", 0, "up mine! down", false, ""},
		{"fetch up write boot", 1, "fetch up write mine! boot", false, "fetch up write mine boot"},
		{"fetch up write boot", 1, "fetch up asked? write boot", false, "fetch up asked write boot"},
		{"fetch up write boot", 1, "new fetch up newer write boot", false, "fetch up write boot"},
		{"fetch up write boot", 1, "fetch up boot", false, ""},
		{"fetch up write boot", 1, "fetch up boot write", false, ""},
		{"fetch up write", 1, "up write", false, "fetch up write"},
	} {
		var old []work.Planned
		for _, s := range listed(c.old) {
			old = append(old, Of(s))
		}
		grown, err := Grow(old, c.at, listed(c.all), c.open)
		var names []string
		for _, p := range grown {
			names = append(names, p.Step)
		}
		if got := strings.Join(names, " "); got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%q grown by %q is %q, %v; want %q", c.old, c.all, got, err, c.want)
		}
	}
}
