package drivertest

import (
	"context"
	"maps"

	"github.com/ironyard/ironyard/rackd/driver"
)

// rigSecrets are driver.Secrets whose central writes at once. What a task has kept, the next one finds.
type rigSecrets struct{ r *Rig }

var _ driver.Secrets = rigSecrets{}

func (s rigSecrets) Replace(_ context.Context, field, value string, clears ...string) error {
	s.r.mu.Lock()
	s.r.secrets[field], s.r.clears[field] = value, clears
	s.r.mu.Unlock()
	return s.r.fail("save")
}

func (s rigSecrets) Replacing(field string) (value string, sure bool, err error) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	return s.r.secrets[field], s.r.sure[field], nil
}

func (s rigSecrets) Replaced(_ context.Context, field string) error {
	s.r.mu.Lock()
	n := *s.r.Node
	n.DriverInfo = maps.Clone(n.DriverInfo)
	n.DriverInfo[field], s.r.sure[field] = s.r.secrets[field], true
	for _, other := range s.r.clears[field] {
		delete(n.DriverInfo, other)
	}
	s.r.Node = &n
	s.r.mu.Unlock()
	return s.r.fail("save")
}

func (s rigSecrets) Forget(_ context.Context, field string) error {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	delete(s.r.secrets, field)
	delete(s.r.sure, field)
	return nil
}

func (s rigSecrets) Shown(_ context.Context, field string) (bool, error) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	there := s.r.sure[field]
	if there {
		delete(s.r.secrets, field)
		delete(s.r.sure, field)
	}
	return there, nil
}
