package verdict

import (
	"slices"
	"time"

	"github.com/ironyard/ironyard/e2e/faults/operators"
	"github.com/ironyard/ironyard/ops/virtual/fleet/control"
	"github.com/ironyard/ironyard/ops/virtual/fleet/disk"
	"github.com/ironyard/ironyard/ops/virtual/fleet/machine"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// machines holds the nodes to what the machines themselves show and have recorded.
func (j *judge) machines() {
	byName := map[string]control.Machine{}
	for _, s := range j.Sites {
		for _, m := range s.Machines {
			byName[m.Name] = m
		}
		for _, f := range s.Audit {
			j.blame("site %s: %s", s.Name, f)
		}
	}
	for _, n := range j.Nodes {
		m, there := byName[n.Name]
		if !there {
			continue
		}
		if on := n.Power == "power on"; n.Power != "" && on != m.On {
			j.blame("node %s (%s): its power is shown as %q, the machine is %s", n.UUID, n.Name, n.Power, m.State)
		}
		if n.State != provision.Active {
			continue
		}
		if m.Disk != disk.Image || m.Image != n.Image && !j.imageChanged(n.UUID) {
			j.blame("node %s (%s) is active; its disk holds %s %s instead of image %s", n.UUID, n.Name, m.Disk, m.Image, n.Image)
		}
		last := j.newest(n.UUID)
		if last != nil && (last.Verb == work.Deploy || last.Verb == work.Rebuild) && m.State != machine.Instance && (m.State != machine.Off || !j.askedOff(last)) {
			j.blame("node %s (%s) was deployed last; its machine is in state %q and does not run the instance", n.UUID, n.Name, m.State)
		}
	}
}

// askedOff reports whether w went on with a flow for somebody who wanted the machine off. Where the rack had
// been cut off and the flow was over by then, the machine is off and its node active, as was asked.
func (j *judge) askedOff(w *Work) bool {
	return j.continues(w) && slices.ContainsFunc(j.Requests, func(r *operators.Request) bool {
		return r.Node == w.Node && r.What == "power off" && (r.Unknown() || r.ID == w.RequestID)
	})
}

// imageChanged reports whether somebody told the node of another image after its last
// deploy or rebuild was accepted: then the row does not say what its disk holds.
func (j *judge) imageChanged(node string) bool {
	var deployed, told time.Time
	for i := range j.Works {
		w := &j.Works[i]
		if w.Node == node && (w.Verb == work.Deploy || w.Verb == work.Rebuild) && w.Requested.After(deployed) && !j.continues(w) {
			deployed = w.Requested
		}
	}
	for _, r := range j.Requests {
		if r.Node == node && r.What == "image" && r.Status < 400 && r.Sent.After(told) {
			told = r.Sent
		}
	}
	return told.After(deployed)
}
