package dispatch

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/work"
)

// withTemplates returns the steps of a request followed by those of the deploy
// templates that are named like a trait of the instance. What the request names itself
// wins over a template, also to switch a step off with priority 0; which steps of the
// driver all these replace is the rack's to find out.
func (d *Dispatcher) withTemplates(ctx context.Context, tx *store.Tx, n *store.Node, steps []work.Step) ([]work.Step, error) {
	traits, err := instanceTraits(n)
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "Failed to validate deploy or power info for node %s: %s", n.UUID, err)
	}
	templates, err := tx.DeployTemplatesByNames(ctx, traits)
	if err != nil {
		return nil, err
	}
	all := slices.Clone(steps)
	for _, t := range templates {
		for _, listed := range t.Steps {
			if listed.Args, err = d.Key.OpenArgs(listed.Label(t.UUID), listed.Args); err != nil {
				return nil, fmt.Errorf("step %s of deploy template %s: %w", listed.Name(), t.Name, err)
			}
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

// instanceTraits are the traits that whoever made the instance asked for, in order. A node
// without one of them cannot become that instance: status 400.
func instanceTraits(n *store.Node) ([]string, error) {
	asked := n.InstanceInfo["traits"]
	if asked == nil || asked == "" {
		return nil, nil
	}
	list, ok := asked.([]any)
	var names, missing []string
	for _, v := range list {
		name, isText := v.(string)
		ok = ok && isText
		names = append(names, name)
		if !slices.Contains(n.Traits, name) && !slices.Contains(missing, name) {
			missing = append(missing, name)
		}
	}
	switch {
	case !ok:
		return nil, refuse(http.StatusBadRequest, "Error parsing traits from Node %s instance_info field. A list of strings is expected.", n.UUID)
	case missing != nil:
		return nil, refuse(http.StatusBadRequest, "Cannot specify instance traits that are not also set on the node. Node %s is missing traits %s",
			n.UUID, strings.Join(missing, ", "))
	}
	return names, nil
}

// checkTraits adds to what a rack has found of n what speaks against deploying it that only
// central knows.
func checkTraits(n *store.Node, found map[string]ask.Validation) {
	deploy, heard := found["deploy"]
	_, err := instanceTraits(n)
	if err == nil || !heard || deploy.Result == nil || !*deploy.Result {
		return
	}
	found["deploy"] = ask.Validation{Result: new(bool), Reason: err.Error()}
}
