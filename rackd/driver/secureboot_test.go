package driver_test

import (
	"context"
	"errors"
	"maps"
	"strings"
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

// A deploy that asks for secure boot is refused by validate where it cannot be had: a machine without UEFI, or without a driver that can
// switch it. No machine is touched for it.
func TestSecureBootIsRefusedByValidate(t *testing.T) {
	kind := fake.New(fake.Options{}).Type()
	full, err := driver.NewRegistry(kind)
	if err != nil {
		t.Fatal(err)
	}
	asks := func(capabilities map[string]any) *node.Document {
		return &node.Document{UUID: "u", Driver: kind.Name, InstanceInfo: map[string]any{"capabilities": capabilities}}
	}
	able, err := full.Resolve(asks(nil))
	if err != nil {
		t.Fatal(err)
	}
	without := kind
	without.Interfaces = maps.Clone(kind.Interfaces)
	without.Interfaces["management"] = []driver.Named{{Name: "plain", Impl: unable{able.Management()}}}
	with := kind
	with.Interfaces = maps.Clone(kind.Interfaces)
	with.Interfaces["management"] = []driver.Named{{Name: "fake", Impl: secured{able.Management(), new(bool)}}}
	for name, c := range map[string]struct {
		kind         driver.Type
		capabilities map[string]any
		says         string // empty: it is taken
	}{
		"a driver that can":              {with, map[string]any{"secure_boot": "true", "boot_mode": "uefi"}, ""},
		"a driver that cannot":           {without, map[string]any{"secure_boot": "true", "boot_mode": "uefi"}, "the capability secure_boot is set, but the management interface plain cannot switch it"},
		"a driver that cannot, by a yes": {without, map[string]any{"secure_boot": "True", "boot_mode": "UEFI"}, "the management interface plain cannot switch it"},
		"a driver that need not":         {without, map[string]any{"secure_boot": "false", "boot_mode": "uefi"}, ""},
		"a machine that boots by BIOS":   {with, map[string]any{"secure_boot": "true", "boot_mode": "bios"}, "secure boot needs UEFI"},
		"a word that is none":            {with, map[string]any{"secure_boot": "perhaps", "boot_mode": "uefi"}, `the capability secure_boot is "perhaps": give true or false`},
	} {
		reg, err := driver.NewRegistry(c.kind)
		if err != nil {
			t.Fatal(err)
		}
		n := asks(c.capabilities)
		hw, err := reg.Resolve(n)
		if err != nil {
			t.Fatal(err)
		}
		err = driver.ValidateInstance(hw, n)
		if c.says == "" && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if c.says != "" && (!errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v, want a refusal that says %q", name, err, c.says)
		}
	}
}

// secured is a management interface whose machine has secure boot, or not.
type secured struct {
	driver.Management
	on *bool
}

func (s secured) SecureBoot(context.Context, *node.Document) (bool, error) { return *s.on, nil }
func (s secured) SetSecureBoot(_ context.Context, _ driver.Fence, _ *node.Document, on bool) error {
	*s.on = on
	return nil
}

// An instance that asks for secure boot, as its user may, does not switch off what the operator has on: not for its deploy, nor for a
// rescue, nor with its end. The ramdisk would come from a stranger on the wire.
func TestSecureBootStaysAsItWas(t *testing.T) {
	for _, was := range []bool{true, false} {
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
		on := was
		kind.Interfaces["management"] = []driver.Named{{Name: "fake", Impl: secured{able.Management(), &on}}}
		reg, err := driver.NewRegistry(kind)
		if err != nil {
			t.Fatal(err)
		}
		rig := drivertest.NewRig()
		flow := func(deploys bool) *driver.Task {
			k := rig.Task(able.Boot())
			if k.Hardware, err = reg.Resolve(n); err != nil {
				t.Fatal(err)
			}
			k.Node, k.Deploys, k.Facts = n, deploys, map[string]string{}
			return k
		}
		step := func(k *driver.Task, what string, ask, want bool) {
			t.Helper()
			if err := driver.SetSecureBoot(t.Context(), k, ask); err != nil || on != want {
				t.Errorf("secure boot was %t before; %s: it is %t, want %t, %v", was, what, on, want, err)
			}
		}
		deploy := flow(true)
		step(deploy, "the deploy's ramdisk", false, was)
		step(deploy, "its instance", true, true)
		n.SecureBootBefore = deploy.Facts["secure_boot_before"] // as the document shows it later
		step(flow(true), "a second try to deploy", false, was)
		step(flow(false), "a rebuild", true, true)
		step(flow(false), "the tear-down", false, was)
		asked := n.InstanceInfo
		n.InstanceInfo, on = nil, true
		step(flow(false), "the ramdisk of a rebuild that asks for it no more", false, was)
		step(flow(false), "the instance of that rebuild", true, was)
		on = true
		step(flow(false), "the tear-down after the fields were changed", false, was)
		n.SecureBootBefore, on = "", true
		step(flow(false), "the tear-down of an instance that has never asked", false, true)
		n.InstanceInfo = asked
		step(flow(false), "the tear-down of an instance that an older rackd has deployed", false, false)
	}
}
