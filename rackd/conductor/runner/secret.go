package runner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// A step that gives a BMC's account another password must not end with no program knowing it. Both values lie in the checkpoint,
// sealed, before the BMC is told. What the BMC takes is marked there, and told to central, which writes it into driver_info. It stays
// in the checkpoint until the node's document shows it: this flow, its next owner and what takes its place all log in with it.

// replacing implements driver.Secrets for the step that runs.
type replacing struct{ r *Runner }

// secretAt is the place of a field's secret in the checkpoint, -1 for none.
func (r *Runner) secretAt(field string) int {
	return slices.IndexFunc(r.doc.Checkpoint.Secrets, func(s work.Secret) bool { return s.Field == field })
}

// openSecret opens what the checkpoint has of a secret.
func (r *Runner) openSecret(s *work.Secret) (work.Replacement, error) {
	key := r.deps.Keys.Of(r.node.Group)
	if key == nil {
		return work.Replacement{}, fmt.Errorf("this rackd has no key of conductor group %q", r.node.Group)
	}
	v, err := s.Open(key, r.node.UUID)
	if err != nil {
		return v, fmt.Errorf("the new %s in the work's checkpoint: %w", s.Field, err)
	}
	return v, nil
}

// Replace implements driver.Secrets.
func (x replacing) Replace(ctx context.Context, field, value string, clears ...string) error {
	r := x.r
	was := r.task.Node.DriverString(field)
	key := r.deps.Keys.Of(r.node.Group)
	switch {
	case !seal.IsSecret(field) || was == "":
		return fmt.Errorf("node %s: driver_info has no secret %s that could be replaced: %w", r.node.Label(), field, driver.ErrInvalid)
	case key == nil:
		return fmt.Errorf("this rackd has no key of conductor group %q", r.node.Group)
	}
	s, err := work.SealSecret(key, r.node.UUID, field, r.root, work.Replacement{Was: was, New: value, Clears: clears})
	if err != nil {
		return err
	}
	r.doc.Checkpoint.Secrets = append(slices.DeleteFunc(r.doc.Checkpoint.Secrets, func(s work.Secret) bool { return s.Field == field }), s)
	at := string(r.doc.Verb) + "/" + r.doc.Checkpoint.Step
	pointSecret.Hit(at)
	if err := r.saveStep(ctx); err != nil {
		return err
	}
	pointSecretKept.Hit(at)
	return nil
}

// Replacing implements driver.Secrets.
func (x replacing) Replacing(field string) (value string, sure bool, err error) {
	i := x.r.secretAt(field)
	if i < 0 {
		return "", false, nil
	}
	s := &x.r.doc.Checkpoint.Secrets[i]
	v, err := x.r.openSecret(s)
	return v.New, s.Sure, err
}

// Replaced implements driver.Secrets.
func (x replacing) Replaced(ctx context.Context, field string) error {
	r := x.r
	i := r.secretAt(field)
	if i < 0 {
		return fmt.Errorf("node %s: no new %s is in the work's checkpoint", r.node.Label(), field)
	}
	at := string(r.doc.Verb) + "/" + r.doc.Checkpoint.Step
	pointSecretSure.Hit(at)
	r.doc.Checkpoint.Secrets[i].Sure = true
	if err := r.saveStep(ctx); err != nil {
		return err
	}
	pointSecretTold.Hit(at)
	n := *r.task.Node
	n.DriverInfo = maps.Clone(n.DriverInfo)
	r.showSecrets(&n)
	r.task.Node = &n
	return r.tellSecret(ctx, r.doc.Checkpoint.Secrets[i])
}

// Forget implements driver.Secrets.
func (x replacing) Forget(ctx context.Context, field string) error {
	if x.r.secretAt(field) < 0 {
		return nil
	}
	x.r.dropSecret(field)
	return x.r.saveStep(ctx)
}

func (r *Runner) dropSecret(field string) {
	r.doc.Checkpoint.Secrets = slices.DeleteFunc(r.doc.Checkpoint.Secrets, func(s work.Secret) bool { return s.Field == field })
}

// Shown implements driver.Secrets.
func (x replacing) Shown(ctx context.Context, field string) (bool, error) {
	r := x.r
	i := r.secretAt(field)
	if i < 0 {
		return true, nil
	}
	s := r.doc.Checkpoint.Secrets[i]
	v, err := r.openSecret(&s)
	if err != nil {
		return false, err
	}
	now, err := r.nodeShows(field)
	switch {
	case err != nil:
		return false, err
	case now == v.New:
		r.dropSecret(field)
		return true, nil
	case now != v.Was:
		r.dropSecret(field)
		return false, fmt.Errorf("node %s: a request has changed driver_info %s while the BMC was given a new one. The BMC takes the new one: put that into driver_info: %w", r.node.Label(), field, driver.ErrInvalid)
	case time.Since(r.lastSecret) > tellEvery: // the event may have been lost with the bus
		return false, r.tellSecret(ctx, s)
	}
	return false, nil
}

// nodeShows returns a field of driver_info as the node's newest document has it.
func (r *Runner) nodeShows(field string) (string, error) {
	n := r.deps.Documents.Node(r.node.UUID)
	if n == nil {
		return "", fmt.Errorf("this rackd no longer knows node %s", r.node.UUID)
	}
	open, err := r.deps.Secrets.Open(n)
	if err != nil {
		return "", err
	}
	return open.DriverString(field), nil
}

// showSecrets puts into n the secrets that the BMC is known to take, where n still has those of before. A field with another value was
// changed by a request, which counts.
func (r *Runner) showSecrets(n *node.Document) {
	for i := range r.doc.Checkpoint.Secrets {
		s := &r.doc.Checkpoint.Secrets[i]
		if !s.Sure {
			continue
		}
		v, err := r.openSecret(s)
		if err != nil {
			r.log.Error("a new secret in the work's checkpoint is not used", "field", s.Field, "error", err)
			continue
		}
		if n.DriverString(s.Field) != v.Was {
			continue
		}
		n.DriverInfo[s.Field] = v.New
		for _, field := range v.Clears {
			delete(n.DriverInfo, field)
		}
	}
}

// tellSecrets tells central what the BMC takes and the node's document does not show: the owner of before may have died before
// it could.
func (r *Runner) tellSecrets(ctx context.Context) error {
	for _, s := range slices.Clone(r.doc.Checkpoint.Secrets) {
		if !s.Sure {
			continue
		}
		v, err := r.openSecret(&s)
		now, unread := r.nodeShows(s.Field)
		if err = errors.Join(err, unread); err != nil {
			r.log.Error("rackd cannot tell whether central knows a secret that was replaced", "field", s.Field, "error", err)
			continue
		}
		if now != v.Was {
			continue
		}
		if err := r.tellSecret(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// tellSecret tells central what the BMC takes.
func (r *Runner) tellSecret(ctx context.Context, s work.Secret) error {
	e := r.event(work.SecretsReplaced)
	e.Secrets = []work.Secret{s}
	if err := r.publish(ctx, e); err != nil {
		return fmt.Errorf("report the new %s: %w", s.Field, err)
	}
	r.lastSecret = time.Now()
	return nil
}
