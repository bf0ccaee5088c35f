package store

import "github.com/ironyard/ironyard/protocol/work"

// ListedStep is a step of a deploy template or a runbook.
type ListedStep struct {
	Interface string         `json:"interface"`
	Step      string         `json:"step"`
	Args      map[string]any `json:"args,omitempty"`
	// Rank is the priority of a template's step and the order of a runbook's.
	Rank int `json:"rank"`
}

// Work returns the step as work carries it, without its rank.
func (s ListedStep) Work(origin string) work.Step {
	return work.Step{Interface: s.Interface, Step: s.Step, Args: s.Args, Origin: origin}
}
