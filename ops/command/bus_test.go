package command

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/busview"
)

// Who may write on the bus chooses names and texts there. They must neither command the operator's terminal nor look like other lines.
func TestWhatLiesOnTheBusCommandsNoTerminal(t *testing.T) {
	const lie = "x\x1b[2J\u009b1m\u202e\nNODES.y"
	var out bytes.Buffer
	if err := printEntries(&out, []busview.Entry{{Key: lie, About: lie, Written: time.Unix(1, 0)}}); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(out.String(), "\x1b\u009b\u202e") || strings.Count(out.String(), "\n") != 2 {
		t.Errorf("the list: %q", out.String())
	}
	out.Reset()
	if err := printDocument(&out, []byte("{\"error\":\"x\u009b1m\u202e\x7f\x9b\"}")); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(out.String(), "\u009b\u202e\x7f") || strings.Contains(out.String(), "\x9b") || !strings.Contains(out.String(), `\u009b`) {
		t.Errorf("the document: %q", out.String())
	}
}
