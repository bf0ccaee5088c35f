package direct

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// Limits on what an agent may ask for.
const (
	maxCleanSteps = 256
	maxStepsBytes = 256 << 10
)

// cleanOrder breaks ties of priority between kinds of interface, as Ironic does.
var cleanOrder = []string{"vendor", "power", "management", "firmware", "deploy", "bios", "raid"}

// CleanSteps boot the ramdisk, run whatever steps its agent offers with a
// priority above 0, and switch the machine off. The conductor keeps their order.
func (i Interface) CleanSteps(*node.Document) []driver.Step {
	return i.around(step("agent_clean", 50, driver.Reattachable, i.agentClean))
}

// ManualCleanSteps run the asked steps in the asked order, all by the agent.
func (i Interface) ManualCleanSteps(n *node.Document, asked []driver.AskedStep) ([]driver.Step, error) {
	if len(asked) == 0 || len(asked) > maxCleanSteps {
		return nil, fmt.Errorf("node %s: %d clean steps: give 1 to %d: %w", n.Label(), len(asked), maxCleanSteps, driver.ErrInvalid)
	}
	var steps []driver.Step
	for at, a := range asked {
		if !slices.Contains(cleanOrder, a.Interface) || a.Step == "" {
			return nil, fmt.Errorf("node %s: clean step %d is %q of interface %q: give a step of one of %s: %w",
				n.Label(), at+1, a.Step, a.Interface, strings.Join(cleanOrder, ", "), driver.ErrInvalid)
		}
		run := func(ctx context.Context, t *driver.Task) (driver.Outcome, error) { return i.askedClean(ctx, t, at, a) }
		s := step(a.Step, 0, driver.Reattachable, run)
		s.Interface = a.Interface
		if slices.ContainsFunc(steps, func(o driver.Step) bool { return o.Interface == s.Interface && o.Name == s.Name }) {
			s.Name = fmt.Sprintf("%s (%d)", a.Step, at+1) // checkpoints tell steps apart by name
		}
		steps = append(steps, s)
	}
	return i.around(steps...), nil
}

func (i Interface) around(steps ...driver.Step) []driver.Step {
	all := append([]driver.Step{step("prepare_cleaning", 100, driver.Reattachable, i.set.Bringup.Ramdisk)}, steps...)
	return append(all, step("tear_down_cleaning", 1, driver.Repeatable, func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
		if err := i.set.Bringup.Off(ctx, t); err != nil {
			return driver.Outcome{}, err
		}
		return driver.Done(), t.Hardware.Boot().CleanUpRamdisk(ctx, t)
	}))
}

// cleaning is the handle of agent_clean.
type cleaning struct {
	Listed bool             `json:"listed"`
	Steps  []map[string]any `json:"steps"`
	Index  int              `json:"index"`
	Now    running          `json:"now"`
}

// agentClean asks the agent for its steps and runs one after the other.
func (i Interface) agentClean(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
	var h cleaning
	if err := reload(t, &h); err != nil {
		return driver.Outcome{}, err
	}
	save := func() error { return t.Record.SaveHandle(ctx, h) }
	if !h.Listed {
		steps, err := i.listSteps(ctx, t)
		if err != nil {
			return driver.Outcome{}, err
		}
		h = cleaning{Listed: true, Steps: steps}
		if err := save(); err != nil {
			return driver.Outcome{}, err
		}
	}
	for h.Index < len(h.Steps) {
		s := h.Steps[h.Index]
		if h.Now.ID == "" {
			h.Now = running{ID: fmt.Sprintf("%s/clean/%d", t.WorkID, h.Index)}
			t.Record.Phase("clean", stepName(s))
		}
		ended, err := i.execute(ctx, t, &h.Now, save, s)
		if err != nil {
			return driver.Outcome{}, err
		}
		if !ended {
			return driver.Wait(i.set.Poll), nil
		}
		h.Index++
		h.Now = running{}
		if err := save(); err != nil {
			return driver.Outcome{}, err
		}
	}
	return driver.Done(), nil
}

// askedClean runs one step that an operator asked for.
func (i Interface) askedClean(ctx context.Context, t *driver.Task, at int, a driver.AskedStep) (driver.Outcome, error) {
	h := running{ID: fmt.Sprintf("%s/clean/%d", t.WorkID, at)}
	if err := reload(t, &h); err != nil {
		return driver.Outcome{}, err
	}
	s := map[string]any{"interface": a.Interface, "step": a.Step}
	if len(a.Args) > 0 {
		s["args"] = a.Args
	}
	ended, err := i.execute(ctx, t, &h, func() error { return t.Record.SaveHandle(ctx, h) }, s)
	if err != nil {
		return driver.Outcome{}, err
	}
	if !ended {
		return driver.Wait(i.set.Poll), nil
	}
	t.Record.Phase("clean", stepName(s))
	return driver.Done(), nil
}

func (i Interface) execute(ctx context.Context, t *driver.Task, h *running, save func() error, s map[string]any) (bool, error) {
	_, ended, err := follow(ctx, t, h, order{name: agentapi.CmdExecCleanStep, save: save, params: func() (any, error) {
		p := params(t.Node)
		p.Step = s
		return p, nil
	}})
	if err != nil {
		return false, fmt.Errorf("clean step %s: %w", stepName(s), err)
	}
	return ended, nil
}

// listSteps asks the agent what it can clean and sorts that.
func (i Interface) listSteps(ctx context.Context, t *driver.Task) ([]map[string]any, error) {
	cmd, err := t.Agent.Call(ctx, t.Fence, t.WorkID+"/get_clean_steps", agentapi.CmdGetCleanSteps, params(t.Node))
	if err != nil {
		return nil, fmt.Errorf("node %s: ask the agent for its clean steps: %w", t.Node.Label(), err)
	}
	steps, err := parseSteps(cmd.Result)
	if err != nil {
		return nil, fmt.Errorf("node %s: the agent's clean steps: %w", t.Node.Label(), err)
	}
	return steps, nil
}

// parseSteps reads the agent's steps, a list or a list for each of its hardware
// managers, and returns those to run, highest priority first.
func parseSteps(raw json.RawMessage) ([]map[string]any, error) {
	if len(raw) > maxStepsBytes {
		return nil, fmt.Errorf("they take %d bytes, more than the %d that a checkpoint holds", len(raw), maxStepsBytes)
	}
	var answer struct {
		Steps json.RawMessage `json:"clean_steps"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return nil, fmt.Errorf("they cannot be read: %w", err)
	}
	var steps []map[string]any
	if json.Unmarshal(answer.Steps, &steps) != nil {
		var managers map[string][]map[string]any
		if err := json.Unmarshal(answer.Steps, &managers); err != nil {
			return nil, fmt.Errorf("they are neither a list nor lists by hardware manager: %w", err)
		}
		steps = nil
		for _, of := range managers {
			steps = append(steps, of...)
		}
	}
	steps = slices.DeleteFunc(steps, func(s map[string]any) bool { return priority(s) <= 0 })
	if len(steps) > maxCleanSteps {
		return nil, fmt.Errorf("there are %d of them, more than %d", len(steps), maxCleanSteps)
	}
	slices.SortFunc(steps, func(a, b map[string]any) int {
		return cmp.Or(cmp.Compare(priority(b), priority(a)), cmp.Compare(rank(a), rank(b)), cmp.Compare(stepName(a), stepName(b)))
	})
	return steps, nil
}

func priority(s map[string]any) float64 { p, _ := s["priority"].(float64); return p }

func rank(s map[string]any) int {
	kind, _ := s["interface"].(string)
	if at := slices.Index(cleanOrder, kind); at >= 0 {
		return at
	}
	return len(cleanOrder)
}

func stepName(s map[string]any) string {
	return fmt.Sprintf("%.100v.%.100v", s["interface"], s["step"])
}

// params describe the node to a step: no driver_info, which holds the BMC's
// password.
func params(n *node.Document) agentapi.StepParams {
	p := agentapi.StepParams{Ports: []any{}, Node: map[string]any{
		"uuid": n.UUID, "name": n.Name, "properties": n.Properties, "instance_info": n.InstanceInfo,
		"driver_internal_info": map[string]any{}, "provision_state": string(n.State),
	}}
	for _, port := range n.Ports {
		p.Ports = append(p.Ports, port)
	}
	return p
}
