package bench

import (
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"
)

// atWork lets clients read and change nodes of a process, one kind of request after the
// other and all of them at once at last, and reports its memory at most while they did.
func atWork(b *testing.B, w *whole, size int) {
	b.Helper()
	const page = 1000
	node := func(c, i int) string { return nodeUUID((c*7919 + i*104729) % size) }
	kinds := []struct {
		name string
		next func(c, i int) call
	}{
		// Each client walks from page to page, and begins elsewhere.
		{"pages", func(c, i int) call {
			at := (c*7 + i) * page % size
			return call{method: http.MethodGet, path: fmt.Sprintf("/v1/nodes/detail?limit=%d&marker=%s", page, nodeUUID(at)), want: http.StatusOK}
		}},
		{"shows", func(c, i int) call {
			return call{method: http.MethodGet, path: "/v1/nodes/" + node(c, i), want: http.StatusOK}
		}},
		{"patches", func(c, i int) call { return patch(node(c, i), "extra", c, i) }},
		{"rack-patches", func(c, i int) call { return patch(node(c, i), "properties", c, i) }},
	}
	kinds = append(kinds, struct {
		name string
		next func(c, i int) call
	}{"mixture", func(c, i int) call { return kinds[[...]int{1, 2, 1, 0, 1, 3, 1, 1}[i%8]].next(c, i) }})
	for _, k := range kinds {
		// From here on the kernel's VmHWM is of this part: proc(5), clear_refs.
		if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", w.cmd.Process.Pid), []byte("5"), 0); err != nil {
			b.Fatal(err)
		}
		o := crowd(b, w.at, 3*window(b), k.next)
		b.ReportMetric(w.megabytes(b, "VmHWM"), "at-"+k.name+"-MB")
		b.Logf("%s: %.0f/s, p99 %s", k.name, o.perSecond(), o.p99.Round(time.Microsecond))
	}
}
