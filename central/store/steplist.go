package store

import (
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/work"
)

// ListedStep is a step of a deploy template or a runbook.
type ListedStep struct {
	Interface string `json:"interface"`
	Step      string `json:"step"`
	// Args are the step's arguments; secrets among them are sealed under Label.
	Args map[string]any `json:"args,omitempty"`
	// Rank is the priority of a template's step and the order of a runbook's.
	Rank int `json:"rank"`
}

// Name is the step's name with its interface.
func (s ListedStep) Name() string { return s.Interface + "." + s.Step }

// Label is what the secrets of the step are sealed under, in the template or runbook of that id.
func (s ListedStep) Label(id string) seal.Label {
	return seal.Label{Kind: seal.ListedStep, Of: id, Field: s.Name()}
}

// Work returns the step as work carries it, without its rank.
func (s ListedStep) Work(origin string) work.Step {
	return work.Step{Interface: s.Interface, Step: s.Step, Args: s.Args, Origin: origin}
}
