package runner

import (
	"encoding/json"
	"strconv"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/conductor/flow"
	"github.com/ironyard/ironyard/rackd/driver"
)

// shown is what the node's fields tell of the running flow.
type shown struct {
	steps []flow.Step     // of the flow
	at    int             // the index of the step that runs
	none  bool            // the step has not begun, or has ended: the flow stands between two
	bare  bool            // the request forbids the ramdisk, so no step needs it
	info  json.RawMessage // the step as the API shows it, once it has been asked for
}

// stepInfo is the step that runs as the API shows it, none for one of the conductor's own.
func (s *shown) stepInfo() json.RawMessage {
	if s.none {
		return nil
	}
	if s.info == nil && s.at < len(s.steps) && !s.steps[s.at].Own {
		s.info, _ = json.Marshal(s.infoOf(s.steps[s.at].Step)) // its arguments came as JSON
	}
	return s.info
}

// stepInfo is a step as the API shows it.
type stepInfo struct {
	Interface       string              `json:"interface"`
	Step            string              `json:"step"`
	Priority        int                 `json:"priority"`
	Args            map[string]any      `json:"args,omitempty"`
	Takes           map[string]argument `json:"argsinfo"`
	Abortable       bool                `json:"abortable"`
	RequiresRamdisk bool                `json:"requires_ramdisk"`
}

type argument struct {
	Description string `json:"description"`
	Required    bool   `json:"required"`
}

func (s *shown) infoOf(step driver.Step) stepInfo {
	i := stepInfo{Interface: step.Interface, Step: step.Name, Priority: step.Priority, Args: seal.MaskFields(step.Args, agentapi.Masked), Abortable: step.Abortable, RequiresRamdisk: !step.NoRamdisk && !s.bare}
	for name, a := range step.Takes {
		if i.Takes == nil {
			i.Takes = map[string]argument{}
		}
		i.Takes[name] = argument{a.Description, a.Required}
	}
	return i
}

// show notes which step begins.
func (r *Runner) show(steps []flow.Step, at int) {
	r.display = shown{steps: steps, at: at, bare: r.doc.Args.DisableRamdisk}
}

// factListed says that driver_internal_info shows the steps of the flow.
const factListed = "steps_listed"

// lists are the keys of driver_internal_info that show a flow's steps.
var lists = map[work.Verb]string{work.Clean: "clean_step", work.Provide: "clean_step", work.Delete: "clean_step",
	work.Deploy: "deploy_step", work.Rebuild: "deploy_step", work.Service: "service_step"}

// listed are the flow's steps, and which of them runs, for driver_internal_info. Only
// flows that wait are told of: the others are over before anybody looks.
func (r *Runner) listed() map[string]json.RawMessage {
	key := lists[r.doc.Verb]
	if !r.tells() {
		return nil
	}
	steps, at := []stepInfo{}, -1
	for i, s := range r.display.steps {
		if i == r.display.at {
			at = len(steps)
		}
		if !s.Own {
			steps = append(steps, r.display.infoOf(s.Step))
		}
	}
	raw, err := json.Marshal(steps)
	if err != nil {
		return nil
	}
	return map[string]json.RawMessage{key + "s": raw, key + "_index": json.RawMessage(strconv.Itoa(at))}
}

// tells reports whether the flow's steps are to be shown, and notes it for who ends the
// work: the checkpoint that says so is written before anybody is told.
func (r *Runner) tells() bool {
	info, _ := provision.Describe(r.doc.State)
	if lists[r.doc.Verb] == "" || info.Kind != provision.Waiting && info.Kind != provision.Held || len(r.display.steps) == 0 {
		return false
	}
	r.doc.Checkpoint.Facts[factListed] = "yes"
	return true
}

// internal is what the end of d's work changes in driver_internal_info.
func internal(d work.Document) map[string]json.RawMessage {
	info := unlisted(d)
	if steps := d.Checkpoint.Facts[driver.FactAgentSteps]; steps != "" {
		if info == nil {
			info = map[string]json.RawMessage{}
		}
		info[node.AgentStepsKey] = json.RawMessage(steps)
	}
	if d.Verb != work.Service && (d.Verb != work.Abort || d.Entry != provision.ServiceFail) {
		return info
	}
	if info == nil {
		info = map[string]json.RawMessage{}
	}
	info[work.ServiceRamdisk] = json.RawMessage("null")
	left := d.Checkpoint.Facts[driver.FactBooted] != "" || d.Verb == work.Abort && d.Args.AbortedBoot == driver.BootRamdisk ||
		d.Flow() == work.Service && d.Args.InRamdisk && d.Checkpoint.Plan == nil // it never began
	if d.State == provision.ServiceFail && left {
		info[work.ServiceRamdisk] = json.RawMessage("true")
	}
	return info
}

// unlisted takes the flow's steps out of driver_internal_info.
func unlisted(d work.Document) map[string]json.RawMessage {
	if d.Verb == work.Abort { // whatever it has cut short
		gone := map[string]json.RawMessage{}
		for _, key := range lists {
			gone[key+"s"], gone[key+"_index"] = json.RawMessage("null"), json.RawMessage("null")
		}
		return gone
	}
	key := lists[d.Verb]
	if key == "" || d.Checkpoint.Facts[factListed] == "" {
		return nil
	}
	return map[string]json.RawMessage{key + "s": json.RawMessage("null"), key + "_index": json.RawMessage("null")}
}
