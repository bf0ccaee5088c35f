package driver_test

import (
	"errors"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/fake"
)

// unable is a management interface that cannot switch secure boot.
type unable struct{ driver.Management }

// A driver that cannot switch secure boot is an error where it is to be on. Where it is to be off there is nothing to take
// back: an older rackd has deployed the instance, and ignored what it asks for.
func TestSecureBootWithoutTheAbility(t *testing.T) {
	kind := fake.New(fake.Options{}).Type()
	full, err := driver.NewRegistry(kind)
	if err != nil {
		t.Fatal(err)
	}
	n := &node.Document{UUID: "u", Driver: kind.Name, InstanceInfo: map[string]any{"capabilities": map[string]any{"secure_boot": "true"}}}
	able, err := full.Resolve(n)
	if err != nil {
		t.Fatal(err)
	}
	kind.Interfaces["management"] = []driver.Named{{Name: "fake", Impl: unable{able.Management()}}}
	lacking, err := driver.NewRegistry(kind)
	if err != nil {
		t.Fatal(err)
	}
	task := drivertest.NewRig().Task(able.Boot())
	if task.Hardware, err = lacking.Resolve(n); err != nil {
		t.Fatal(err)
	}
	task.Node = n
	if err := driver.SetSecureBoot(t.Context(), task, true); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("secure boot is to be on, and nothing can switch it: %v", err)
	}
	if err := driver.SetSecureBoot(t.Context(), task, false); err != nil {
		t.Errorf("secure boot is to be off, and nothing can switch it: %v", err)
	}
}
