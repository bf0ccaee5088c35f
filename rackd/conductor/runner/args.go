package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/conductor/flow"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/view"
)

// openArgs returns the arguments of a step as they were given. It waits for the document that takes the place of this
// work's, if there is one: central writes the node's before, and the way to the site may break in between. The wait is the
// step's, so that its deadline ends it.
func (r *Runner) openArgs(ctx context.Context, s flow.Step) (map[string]any, error) {
	if !seal.SealedArgs(s.Args) {
		return s.Args, nil
	}
	for {
		key, err := r.deps.Secrets.KeyFor(&r.doc)
		if err == nil {
			return key.OpenArgs(work.StepLabel(r.node.UUID, r.root, s.Interface, s.Name), s.Args)
		}
		if !errors.Is(err, driver.ErrAwaited) {
			return nil, err
		}
		if late := r.sleep(ctx, s, time.Second); late != nil {
			return nil, fmt.Errorf("%w; it waits: %w", late, err)
		}
		if err := r.Check(); err != nil {
			return nil, err
		}
	}
}

func (r *Runner) configDrive(ctx context.Context) (string, error) {
	if r.doc.Args.ConfigDrive == "" {
		return "", nil
	}
	sealed, err := r.deps.Documents.ConfigDrive(ctx, r.doc.Args.ConfigDrive)
	if errors.Is(err, view.ErrDriveLost) {
		return "", fmt.Errorf("%w: %w", driver.ErrAwaited, err)
	}
	if err != nil {
		return "", fmt.Errorf("%w: %w", driver.ErrUnreachable, err) // the step tries again: the bus may be away
	}
	input, err := r.deps.Secrets.Unseal(&r.doc, seal.Label{Kind: seal.SentDrive, Of: r.node.UUID, Work: r.root}, sealed)
	if err != nil {
		return "", fmt.Errorf("config drive: %w", err)
	}
	return r.deps.BuildDrive(ctx, input, r.node.Instance(), r.node.Name)
}
