package api

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/ask"
)

// A console goes to another rackd while its log is read. That one goes on at the reader's place, in a log of its own. The answer has
// all of the log all the same. A log that changes each time is refused, so that no request reads for ever.
func TestALogThatGoesToAnotherRackd(t *testing.T) {
	b, _, _ := newConsoles(t)
	text := bytes.Repeat([]byte("0123456789abcdef"), ask.ConsolePiece/16)
	text = append(text, "Kernel panic"...)
	for what, c := range map[string]struct {
		logs   []string // of the answers, the last one for ever
		status int
	}{
		"once":        {[]string{"A", "B"}, http.StatusOK},
		"each time":   {[]string{"A", "B", "A", "B", "A", "B", "A", "B"}, http.StatusServiceUnavailable},
		"not at all":  {[]string{"A"}, http.StatusOK},
		"at its end":  {[]string{"A", "A", "B"}, http.StatusOK},
		"at its last": {[]string{"A", "B", "B"}, http.StatusOK},
	} {
		asked := 0
		asker := askerFunc(func(q ask.Request) (json.RawMessage, error) {
			var at ask.ConsoleRead
			if err := json.Unmarshal(q.Args, &at); err != nil {
				return nil, err
			}
			log := c.logs[min(asked, len(c.logs)-1)]
			asked++
			if at.Log == "" {
				at.From = 0
			}
			end := min(at.From+ask.ConsolePiece, int64(len(text)))
			return json.Marshal(ask.ConsoleOutput{Log: log, Next: end, Data: text[at.From:end], State: ask.ConsoleOpen})
		})
		b.server.Ask, b.server.dispatch.Ask = asker, asker
		a := b.as("system "+adminRoles, "GET", "/v1/nodes/"+nodeID+"/states/console/log", "")
		if a.StatusCode != c.status || c.status == http.StatusOK && a.body != string(text) {
			t.Errorf("a log that changes %s: %d with %d bytes, want %d with %d; it ends with the panic: %t", what, a.StatusCode, len(a.body), c.status, len(text), strings.HasSuffix(a.body, "panic"))
		}
	}
}
