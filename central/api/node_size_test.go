package api

import (
	"fmt"
	"strings"
	"testing"
)

// TestLargeNodes holds that a node cannot become larger than what its rack can be told of, by
// whichever of its fields, and that what the rack does not see does not count.
func TestLargeNodes(t *testing.T) {
	b := newBench(t)
	b.addNode()
	const n = "/v1/nodes/" + nodeID
	object := func(size int) string { return `{"x":"` + strings.Repeat("x", size) + `"}` }
	patch := func(field, value string) string {
		return fmt.Sprintf(`[{"op":"add","path":"/%s","value":%s}]`, field, value)
	}
	const much, more = 700 << 10, 1000 << 10
	b.want(200, "PATCH", n, "1.115", patch("extra", object(more)))
	b.want(200, "PATCH", n, "1.115", patch("properties", object(much)))
	before := b.snapshot()
	for _, c := range []struct{ method, path, body string }{
		{"PATCH", n, patch("driver_info", object(much))},
		{"PATCH", n, patch("instance_info", object(much))},
		{"PATCH", n, patch("properties", object(more))},
		{"POST", "/v1/nodes", `{"driver":"fake-hardware","driver_info":` + object(more) + `}`},
		{"POST", "/v1/nodes", `{"driver":"fake-hardware","driver_info":{"password":"` + strings.Repeat("x", more) + `"}}`},
	} {
		a := b.want(400, c.method, c.path, "1.115", c.body)
		if !strings.Contains(a.fault(t), "more than the 983040 that a rack can be sent") {
			t.Errorf("%s %s %.60s: %s", c.method, c.path, c.body, a.fault(t))
		}
	}
	if after := b.snapshot(); after != before {
		t.Errorf("what was refused changed something:\n%.2000s\nwas\n%.2000s", after, before)
	}
	b.want(200, "PATCH", n, "1.115", patch("properties", "{}"))
	b.want(200, "PATCH", n, "1.115", patch("driver_info", object(much)))
}
