package ipmi

import (
	"testing"
	"time"

	"github.com/bougou/go-ipmi/pkg/types"
)

// The wire counts the logins of IPMI 1.5 that a BMC refuses, and none that it is only too full for or has forgotten. Two are refusals of
// go-ipmi's BMC itself; the codes of the others are said in its place.
func TestRefusalsOf15AreCounted(t *testing.T) {
	const activate = 0x3A
	for name, c := range map[string]struct {
		fields map[string]any
		code   types.CompletionCode // of Activate Session; 0: the BMC answers
		want   int
	}{
		"right":           {nil, 0, 0},
		"unknown user":    {map[string]any{fieldUser: "ann"}, 0, 1},
		"privilege":       {map[string]any{fieldUser: "reader"}, 0, 1},
		"refused":         {nil, 0xFF, 1},
		"no slot":         {nil, 0x81, 0},
		"no slot of user": {nil, 0x82, 0},
		"no such session": {nil, 0x85, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, "s3cret-pass")
			r.set(func() {
				r.answer = func(q request) ([]byte, types.CompletionCode, bool) {
					return nil, c.code, c.code != 0 && q.NetFn == netFnApp && q.Command == activate
				}
			})
			fields := map[string]any{fieldVersion: "1.5"}
			for field, value := range c.fields {
				fields[field] = value
			}
			_, err := newDriver(t, Options{Timeout: 2 * time.Second}).PowerState(t.Context(), r.node("s3cret-pass", fields))
			if failed := err != nil; failed != (c.want > 0 || c.code != 0) {
				t.Errorf("PowerState: %v", err)
			}
			got := 0
			r.set(func() { got = r.refused })
			if got != c.want {
				t.Errorf("%d logins are counted as refused, want %d (%v)", got, c.want, err)
			}
		})
	}
}
