package provision

import (
	"strings"
	"testing"
)

// Every abort of the table says what it ended.
func TestAbortedSaysWhat(t *testing.T) {
	what := map[State]string{InspectFail: "Inspection", CleanFail: "clean", DeployFail: "deploy", RescueFail: "rescue", ServiceFail: "service", Active: "service"}
	for _, move := range Table {
		if move.Event != EventAbort {
			continue
		}
		if text := Aborted(move.To, ""); !strings.Contains(text, "aborted") || what[move.To] == "" || !strings.Contains(text, what[move.To]) {
			t.Errorf("%s → %s: %q", move.From, move.To, text)
		}
	}
}

func TestAbortedNamesTheStep(t *testing.T) {
	const want = `By request, the deploy operation was aborted during or after the completion of step "deploy.deploy"`
	if text := Aborted(DeployFail, "deploy.deploy"); text != want {
		t.Errorf("%q, want %q", text, want)
	}
}
