package dispatch

import (
	"context"
	"slices"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/work"
)

// withTemplates returns the steps of a request followed by those of the deploy
// templates that are named like a trait of the instance. What the request names itself
// wins over a template, also to switch a step off with priority 0; which steps of the
// driver all these replace is the rack's to find out.
func withTemplates(ctx context.Context, tx *store.Tx, n *store.Node, steps []work.Step) ([]work.Step, error) {
	templates, err := tx.DeployTemplatesByNames(ctx, instanceTraits(n))
	if err != nil {
		return nil, err
	}
	all := slices.Clone(steps)
	for _, t := range templates {
		for _, listed := range t.Steps {
			step := listed.Work("template " + t.Name)
			step.Priority = listed.Rank
			same := func(s work.Step) bool { return s.Interface == step.Interface && s.Step == step.Step }
			if !slices.ContainsFunc(steps, same) {
				all = append(all, step)
			}
		}
	}
	return all, nil
}

// instanceTraits are the traits that whoever made the instance asked for.
func instanceTraits(n *store.Node) []string {
	list, _ := n.InstanceInfo["traits"].([]any)
	var names []string
	for _, v := range list {
		if name, ok := v.(string); ok && name != "" {
			names = append(names, name)
		}
	}
	return names
}
