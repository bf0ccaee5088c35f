package attack

import (
	"testing"
	"time"
)

// Undisturbed, a machine of each group deploys: what the attacks keep from happening
// happens without them.
func TestUndisturbed(t *testing.T) {
	y, ctx := theYard(t), t.Context()
	t.Parallel()
	for _, group := range []string{groupA, groupB} {
		e := y.enrol(ctx, t, group, nil)
		y.available(ctx, t, e)
		began := time.Now()
		y.deploy(ctx, t, e)
		if err := y.operator.awaits(ctx, e.id, "active", time.Minute); err != nil {
			t.Fatal(err)
		}
		t.Logf("a deploy in group %s takes %s", group, time.Since(began).Round(100*time.Millisecond))
	}
}
