package ingest

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/work"
)

// What a stolen rackd says in a node's history is shown as an honest one's words are: it commands no terminal.
func TestTextsOfEventsAreMadeFit(t *testing.T) {
	const said = "one \x1b[2J\u202e two"
	body, err := json.Marshal(work.Event{ID: "1", Kind: work.PhaseEntered, Node: "b3d1", Group: "rack-a", Rackd: "r1", Time: time.Now(), Phase: said, Detail: said, Error: said,
		Before: []work.Line{{Phase: said, Detail: said}}})
	if err != nil {
		t.Fatal(err)
	}
	e, err := parse(bus.EventSubject("rack-a", "b3d1"), body)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{e.Phase, e.Detail, e.Error, e.Before[0].Phase, e.Before[0].Detail} {
		if strings.ContainsAny(text, "\x1b\u202e") || !strings.HasPrefix(text, "one ") || !strings.HasSuffix(text, " two") {
			t.Errorf("%q", text)
		}
	}
}
