package agentclient

import (
	"net/http"
	"runtime"
	"strings"
	"testing"
)

// An agent that lies lists as many commands as fit into an answer. That costs rackd little more than the answer: one
// that is ended for its memory leaves its machines to the next rackd, which asks the same agent.
func TestManyCommandsCostLittle(t *testing.T) {
	for name, each := range map[string]string{"objects": "{},", "nothing": "null,"} {
		a, c := newAgent(t)
		body := `{"commands":[` + strings.Repeat(each, (maxAnswer-100)/len(each)) + "{}]}"
		a.hook = func(w http.ResponseWriter, _ *http.Request) bool {
			_, err := w.Write([]byte(body))
			return err == nil
		}
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		list, err := c.Commands(t.Context())
		runtime.ReadMemStats(&after)
		if cost := (after.TotalAlloc - before.TotalAlloc) >> 20; err == nil || cost > 400 {
			t.Errorf("%s: rackd has taken %d MiB for %d commands: %v", name, cost, len(list), err)
		}
	}
}
