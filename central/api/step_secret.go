package api

import (
	"errors"
	"fmt"

	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/seal"
)

// sealListed returns the steps of the template or runbook of that id with the secrets among their
// arguments sealed. before are its steps as they are stored. Where a client sends back the mask that it
// was shown, the stored secret stays, in the same argument of the same step only: in another step it
// could be used for something that shows it.
func (s *Server) sealListed(id string, before, steps []store.ListedStep) ([]store.ListedStep, error) {
	stored, given := map[string]string{}, map[string]map[string]any{}
	for _, step := range before {
		given[step.Name()] = step.Args
		_, _ = seal.MapArgs(step.Args, func(path string, v any) (any, error) {
			if text, isText := v.(string); isText && seal.Sealed(text) {
				stored[step.Name()+"/"+path] = text
			}
			return v, nil
		})
	}
	out := make([]store.ListedStep, len(steps))
	for i, step := range steps {
		label := step.Label(id)
		kept, err := cleanAddresses("its argument", "", step.Args, given[step.Name()])
		if err != nil {
			return nil, wire.Invalid("Step %s: %v", step.Name(), err)
		}
		args, _ := kept.(map[string]any)
		if args, err = seal.MapArgs(args, func(path string, v any) (any, error) {
			old, known := stored[step.Name()+"/"+path]
			text, isText := v.(string)
			switch {
			case isText && known && (text == hidden || text == old):
				return old, nil
			case isText && text == hidden:
				return nil, errors.New("it is the mask that answers show for a secret, but this step has no secret there: send the secret")
			case isText && seal.Sealed(text):
				return nil, fmt.Errorf("it is a secret of another step, or begins with %q: send the secret", seal.Prefix)
			}
			return s.Key.SealArg(label, path, v)
		}); err != nil {
			return nil, wire.Invalid("Step %s: %v", step.Name(), err)
		}
		step.Args = args
		out[i] = step
	}
	return out, nil
}

// openListed returns the arguments of a step of a template or runbook as they were given.
func openListed(key *seal.Key, id string, step store.ListedStep) (map[string]any, error) {
	args, err := key.OpenArgs(step.Label(id), step.Args)
	if err != nil {
		return nil, fmt.Errorf("step %s of %s: %w", step.Name(), id, err)
	}
	return args, nil
}
