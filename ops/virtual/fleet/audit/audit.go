// Package audit reads a fleet's journal and tells what never may have happened: a
// write by somebody who had lost the machine, a disk written twice for one piece of
// work, a write that its own work tore.
//
// It may import ops/virtual/fleet/journal. It is a function of the records alone, which
// must begin with the journal's first and have no gaps.
package audit

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/ironyard/ironyard/ops/virtual/fleet/journal"
)

// Rule names what was broken.
type Rule string

// The rules.
const (
	// Machine: the machine itself noted a violation.
	Machine Rule = "machine"
	// Epoch: a work's BMC write or command carries a lower epoch than one before.
	Epoch Rule = "epoch"
	// Zombie: a work writes or commands after the machine was another's.
	Zombie Rule = "zombie"
	// Twice: a work's image is written again, though the power was not cut meanwhile.
	Twice Rule = "twice"
	// Own: a work cut the power while its own image was being written.
	Own Rule = "own"
	// Anonymous: a command to an agent that names no work.
	Anonymous Rule = "anonymous"
)

// Finding is one breach of a rule.
type Finding struct {
	Machine string `json:"machine"`
	Rule    Rule   `json:"rule"`
	Seq     uint64 `json:"seq"` // of the record
	Text    string `json:"text"`
}

func (f Finding) String() string {
	return fmt.Sprintf("machine %s, record %d, rule %s: %s", f.Machine, f.Seq, f.Rule, f.Text)
}

// history is what is known of one machine.
type history struct {
	work  string
	epoch uint64
	past  map[string]bool         // works that others have followed
	wrote map[string]journal.Kind // how each work's last image write stands
	cutBy string                  // the work whose BMC write came last
}

// Check returns the breaches of records, in their order.
func Check(records []journal.Record) []Finding {
	var found []Finding
	machines := map[string]*history{}
	for _, r := range records {
		h := machines[r.Machine]
		if h == nil {
			h = &history{past: map[string]bool{}, wrote: map[string]journal.Kind{}}
			machines[r.Machine] = h
		}
		h.read(r, func(rule Rule, format string, args ...any) {
			found = append(found, Finding{Machine: r.Machine, Rule: rule, Seq: r.Seq, Text: fmt.Sprintf(format, args...)})
		})
	}
	return found
}

func (h *history) read(r journal.Record, tell func(Rule, string, ...any)) {
	switch r.Kind {
	case journal.Violation:
		tell(Machine, "%s", r.Detail)
	case journal.BMCWrite:
		if r.Status == http.StatusPreconditionFailed {
			return // its If-Match was of before: it was sent late, and has changed nothing
		}
		h.fence(r, tell)
		if strings.Contains(r.Detail, "ComputerSystem.Reset") {
			h.cutBy = r.Work
		}
	case journal.CommandAsked:
		if r.Work == "" {
			tell(Anonymous, "command %s (%s)", r.Detail, r.Command)
		}
		h.fence(r, tell)
	case journal.PowerOff, journal.Reset:
		if r.Detail != journal.ByBMC {
			h.cutBy = ""
		}
	case journal.WriteBegun:
		if before := h.wrote[r.Work]; before != "" && before != journal.WriteTorn {
			tell(Twice, "work %s begins to write image %s again; its write before: %s", r.Work, r.Image, before)
		}
		h.wrote[r.Work] = r.Kind
	case journal.WriteEnded, journal.WriteFailed:
		h.wrote[r.Work] = r.Kind
	case journal.WriteTorn:
		h.wrote[r.Work] = r.Kind
		if h.cutBy != "" && h.cutBy == r.Work {
			tell(Own, "work %s cut the power while its own image was being written", r.Work)
		}
	}
}

// fence checks who writes. Writes that belong to no work, such as an operator's
// choice of a boot device, have no epoch and are not judged.
func (h *history) fence(r journal.Record, tell func(Rule, string, ...any)) {
	if r.Work == "" {
		return
	}
	epoch, err := strconv.ParseUint(r.Epoch, 10, 64)
	switch {
	case err != nil:
		tell(Epoch, "work %s names the epoch %q", r.Work, r.Epoch)
	case h.past[r.Work]:
		tell(Zombie, "work %s, epoch %d, does %q, but the machine is work %s's, epoch %d", r.Work, epoch, r.Detail, h.work, h.epoch)
		return
	case r.Work == h.work && epoch < h.epoch:
		tell(Epoch, "work %s does %q under epoch %d after epoch %d", r.Work, r.Detail, epoch, h.epoch)
		return
	}
	if h.work != "" && h.work != r.Work {
		h.past[h.work] = true
	}
	h.work, h.epoch = r.Work, epoch
}
