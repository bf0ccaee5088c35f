package provision

import (
	"fmt"
	"io"
	"strings"
)

// WriteDiagram writes the state machine as a Mermaid state diagram followed by a
// table of the transient states with their deadlines and ways out.
func WriteDiagram(w io.Writer) error {
	var b strings.Builder
	b.WriteString("```mermaid\nstateDiagram-v2\n    direction LR\n")
	for _, i := range States {
		fmt.Fprintf(&b, "    state %q as %s\n", i.State, diagramID(i.State))
	}
	fmt.Fprintf(&b, "    [*] --> %s\n", diagramID(Enroll))
	for _, t := range Table {
		who := ""
		if t.Cause == ByUser {
			who = " (operator)"
		}
		fmt.Fprintf(&b, "    %s --> %s: %s%s\n", diagramID(t.From), diagramID(t.To), t.Event, who)
	}
	b.WriteString("```\n\n| state | kind | bound for | deadline | at the deadline | enforced by | operator's ways out |\n|---|---|---|---|---|---|---|\n")
	for _, i := range States {
		if i.Kind == Stable {
			continue
		}
		var outs []string
		for _, t := range Table {
			if t.From == i.State && t.Cause == ByUser {
				outs = append(outs, fmt.Sprintf("%s → %s", t.Event, t.To))
			}
		}
		deadline, end, enforcer := "none", "–", "–"
		if i.Deadline > 0 {
			t, _ := Next(i.State, EventFail)
			deadline, end, enforcer = i.Deadline.String(), string(t.To), i.Enforcer
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n", i.State, i.Kind, i.Target, deadline, end, enforcer, strings.Join(outs, ", "))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func diagramID(s State) string {
	return strings.NewReplacer(" ", "_", "-", "_").Replace(string(s))
}
