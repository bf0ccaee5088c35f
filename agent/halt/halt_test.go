package halt

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A disk that hangs in the kernel delays the machine's end, and no more.
func TestSyncOfADiskThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logs bytes.Buffer
		log := slog.New(slog.NewTextHandler(&logs, nil))
		hangs, began := make(chan struct{}), time.Now()
		if syncWithin(log, syncFor, func() { <-hangs }) || time.Since(began) != syncFor || !strings.Contains(logs.String(), "a disk hangs") {
			t.Errorf("after %s: %s", time.Since(began), &logs)
		}
		close(hangs)
		logs.Reset()
		if !syncWithin(log, syncFor, func() { time.Sleep(time.Second) }) || logs.Len() > 0 {
			t.Errorf("a disk that takes its time: %s", &logs)
		}
	})
}
