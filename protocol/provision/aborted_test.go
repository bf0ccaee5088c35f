package provision

import (
	"strings"
	"testing"
)

// Every abort of the table says what it ended.
func TestAbortedSaysWhat(t *testing.T) {
	what := map[State]string{InspectFail: "Inspection", CleanFail: "clean", DeployFail: "deployment", RescueFail: "rescue", ServiceFail: "service", Active: "service"}
	for _, move := range Table {
		if move.Event != EventAbort {
			continue
		}
		if text := Aborted(move.To); !strings.Contains(text, "aborted") || what[move.To] == "" || !strings.Contains(text, what[move.To]) {
			t.Errorf("%s → %s: %q", move.From, move.To, text)
		}
	}
}
