package work

import (
	"encoding/binary"

	"github.com/ironyard/ironyard/protocol/seal"
)

// codeOfWork is the purpose of the codes of works.
const codeOfWork = "work"

// Sign puts into d the code that shows a rack that central made this work, and with which flow it goes
// on. Secrets of a work are sealed for its id or its flow's: without the code a server of the bus could
// have a rack open those of an earlier work, by naming that one. key is that of the node's group.
func (d *Document) Sign(key *seal.Key) { d.Code = key.Code(codeOfWork, d.signed()...) }

// Signed reports whether the holder of the group's key made d.
func (d *Document) Signed(key *seal.Key) bool { return key.CodeFits(d.Code, codeOfWork, d.signed()...) }

// signed is what the code covers.
func (d *Document) signed() [][]byte {
	return [][]byte{[]byte(d.Node), []byte(d.ID), []byte(d.Root()), binary.BigEndian.AppendUint64(nil, uint64(d.Generation))}
}

// codeOfAgent is the purpose of the codes of agents.
const codeOfAgent = "agent"

// SignAgent puts into the checkpoint's agent, if there is one, the code that shows the work's next owner that a rackd of
// the group pinned it, for this boot of this flow. That owner sends the agent config drives and secrets. Without the
// code a server of the bus could name an agent of its own. key is that of the node's group.
func (d *Document) SignAgent(key *seal.Key) {
	if a := d.Checkpoint.Agent; a != nil {
		a.Code = key.Code(codeOfAgent, d.pinned(a)...)
	}
}

// AgentSigned reports whether a holder of the group's key pinned the checkpoint's agent; true where there is no agent.
func (d *Document) AgentSigned(key *seal.Key) bool {
	a := d.Checkpoint.Agent
	return a == nil || key.CodeFits(a.Code, codeOfAgent, d.pinned(a)...)
}

// pinned is what the code of an agent covers.
func (d *Document) pinned(a *Agent) [][]byte {
	return [][]byte{[]byte(d.Node), []byte(d.Root()), binary.BigEndian.AppendUint64(nil, d.Checkpoint.Boot.Number), []byte(a.URL), []byte(a.VerifyCA)}
}

// StepLabel is what the secrets among the arguments of a step are sealed under. id is that of the work
// whose flow it is (Document.Root).
func StepLabel(node, id, kind, step string) seal.Label {
	return seal.Label{Kind: seal.StepArgument, Of: node, Field: kind + "." + step, Work: id}
}
