package inspection

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Calls that find no room are told of, in a line a minute with their number.
func TestDroppedCallsAreToldOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		c := &Caller{queue: make(chan Call), log: slog.New(slog.NewTextHandler(&text, nil))} // of whose callers each is busy
		for range 100 {
			c.Make([]Call{{}, {}})
			time.Sleep(time.Second)
		}
		lines := strings.Count(text.String(), "\n")
		if lines != 2 || !strings.Contains(text.String(), "dropped=2 ") || !strings.Contains(text.String(), "dropped=120 ") {
			t.Errorf("%d lines:\n%s", lines, text.String())
		}
	})
}
