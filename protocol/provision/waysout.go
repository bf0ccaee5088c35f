package provision

import (
	"fmt"
	"io"
	"strings"
)

// WriteWaysOut writes, for every state in which a node has open work, how it leaves
// that state when nothing goes as it should: who keeps the deadline, who does when
// that one is dead, where it leads, and what an operator may ask for meanwhile.
func WriteWaysOut(w io.Writer) error {
	var b strings.Builder
	b.WriteString("| state | kind | deadline | while a rackd of the group lives | its rackds are all dead | those of its failover groups too | leads to | an operator may meanwhile |\n" +
		"|---|---|---|---|---|---|---|---|\n")
	for _, i := range States {
		if i.Kind != Busy && i.Kind != Waiting && i.Kind != Held {
			continue
		}
		var verbs []string
		for _, v := range Verbs {
			if t, err := Request(i.State, v); err == nil && i.Kind != Busy {
				verbs = append(verbs, fmt.Sprintf("%s → %s", v.Name, t.To))
			}
		}
		asked := strings.Join(verbs, ", ")
		if asked == "" {
			asked = "wait for the deadline; set maintenance"
		}
		if i.Kind == Held {
			fmt.Fprintf(&b, "| %s | %s | none: it waits for an operator | the owner holds the work; the next of the ring, if it dies | a rackd of the first failover group that has one holds it | not needed: the verb waits in central | – | %s |\n",
				i.State, i.Kind, asked)
			continue
		}
		t, _ := Next(i.State, EventFail)
		fmt.Fprintf(&b, "| %s | %s | %s | the owner; if it dies, the next of the ring goes on with the work within 5 s | the first failover group with a live rackd goes on with it | central's watchdog, at the deadline and the orphan grace | %s | %s |\n",
			i.State, i.Kind, i.Deadline, t.To, asked)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WaysOutIntro says how the table is to be read.
const WaysOutIntro = `# Ways out

Generated from ` + "`protocol/provision`" + ` by ` + "`make docs`" + `; do not edit.

No node waits for ever. In each of these states it has open work, and this is how it leaves the state when somebody
is dead. A deadline belongs to the work and goes on with it from rackd to rackd; operators may set others
(` + "`rackd --deadline`" + `).

- **The owner lives**: it fails the work at the deadline.
- **The owner is dead**: its lease ends after 3 s, the next rackd of the ring takes the work at its checkpoint, and keeps the same deadline.
- **All rackds of the group are dead**: so do those of its failover groups, in their order (` + "`central serve --failover`" + `).
- **Those too**: central's watchdog ends the work when the deadline and the orphan grace (` + "`central serve --orphan-grace`" + `, 15 min)
  have passed and nobody who could serve the node has lived for as long as the grace. The error says which group is without a rackd, who had the work last and in which step.
  Power requests and aborts, which move no state, are ended after the grace.
- **An agent lives, and its command takes long**: each answer that rackd gets from the agent lets the deadline begin again. Where a command tells how
  far it is, only an answer that shows progress does. So to erase a large disk may take days.
- **An agent calls, and does not answer or get on**: its heartbeats move no deadline. The owner fails the work when the state's deadline has passed since
  the agent's last answer, or since the command last got on. The error names the agent's address and that time ([agent-trust.md](agent-trust.md)).
- **The node is in maintenance**: its flow begins no step, and no deadline ends it, neither the owner's nor the watchdog's. It goes on when an operator ends the
  maintenance, and an abort ends it where the state allows one ([flows.md](flows.md#maintenance-in-the-middle-of-a-flow)).
- **The site cannot be reached**: its rackds keep the deadlines, with the link cut or not; central ends nothing until the link is back.

A verb that is accepted takes the place of the work, also while nobody lives to hear of it: it waits, under the next generation.

`
