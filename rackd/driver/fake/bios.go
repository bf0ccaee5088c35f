package fake

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

type bios struct{ base }

func ptr[T any](v T) *T { return &v }

// factory are the settings of a fake machine as it is delivered.
var factory = []hardware.Setting{
	{Name: "AssetTag", Value: ptr(""), Type: ptr("String"), MinLength: ptr(int64(0)), MaxLength: ptr(int64(63)),
		ReadOnly: ptr(false), ResetRequired: ptr(false), Unique: ptr(true)},
	{Name: "BootRetries", Value: ptr("3"), Type: ptr("Integer"), Lower: ptr(int64(0)), Upper: ptr(int64(10)),
		ReadOnly: ptr(false), ResetRequired: ptr(true), Unique: ptr(false)},
	{Name: "LogicalProc", Value: ptr("Enabled"), Type: ptr("Enumeration"), Allowed: []string{"Enabled", "Disabled"},
		ReadOnly: ptr(false), ResetRequired: ptr(true), Unique: ptr(false)},
	{Name: "ProcessorVirtualization", Value: ptr("Enabled"), Type: ptr("Enumeration"), Allowed: []string{"Enabled", "Disabled"},
		ReadOnly: ptr(false), ResetRequired: ptr(true), Unique: ptr(false)},
	{Name: "SystemModel", Value: ptr("fake machine"), Type: ptr("String"), ReadOnly: ptr(true), ResetRequired: ptr(false), Unique: ptr(false)},
}

func (b bios) Settings(ctx context.Context, n *node.Document) (list []hardware.Setting, err error) {
	err = b.use(ctx, n, "bios_settings", func(m *machine) {
		list = slices.Clone(factory)
		for i := range list {
			if v, set := m.Settings[list[i].Name]; set {
				list[i].Value = &v
			}
		}
		for _, name := range slices.Sorted(maps.Keys(m.Settings)) {
			if known(name) < 0 {
				list = append(list, hardware.Setting{Name: name, Value: ptr(m.Settings[name])})
			}
		}
	})
	return list, err
}

// known is the place of a setting in factory, -1 for none.
func known(name string) int {
	return slices.IndexFunc(factory, func(s hardware.Setting) bool { return s.Name == name })
}

// wanted reads the argument settings of apply_configuration. Settings that the machine
// does not know are new ones: clients' tests make up theirs.
func wanted(n *node.Document, arg any) (map[string]string, error) {
	list, isList := arg.([]any)
	if !isList {
		return nil, fmt.Errorf("node %s: settings is not a list of settings: %w", n.Label(), driver.ErrInvalid)
	}
	out := map[string]string{}
	for i, item := range list {
		m, _ := item.(map[string]any)
		name, _ := m["name"].(string)
		if name == "" || m["value"] == nil {
			return nil, fmt.Errorf("node %s: setting %d has no name or no value: %w", n.Label(), i+1, driver.ErrInvalid)
		}
		value := fmt.Sprint(m["value"])
		if at := known(name); at >= 0 {
			if err := admits(factory[at], value); err != nil {
				return nil, fmt.Errorf("node %s: setting %s cannot be %q: %w: %w", n.Label(), name, value, err, driver.ErrInvalid)
			}
		}
		out[name] = value
	}
	return out, nil
}

func admits(s hardware.Setting, value string) error {
	number, err := strconv.ParseInt(value, 10, 64)
	switch {
	case *s.ReadOnly:
		return fmt.Errorf("it is read-only")
	case s.Allowed != nil && !slices.Contains(s.Allowed, value):
		return fmt.Errorf("it is one of %v", s.Allowed)
	case s.MaxLength != nil && int64(len(value)) > *s.MaxLength:
		return fmt.Errorf("it has at most %d characters", *s.MaxLength)
	case s.Upper != nil && (err != nil || number < *s.Lower || number > *s.Upper):
		return fmt.Errorf("it is a number from %d to %d", *s.Lower, *s.Upper)
	}
	return nil
}

// applyConfiguration and factoryReset are the effects of the steps of those names.
func (b bios) applyConfiguration(ctx context.Context, t *driver.Task) error {
	settings, err := wanted(t.Node, t.Args["settings"])
	if err != nil {
		return err
	}
	return b.configure(ctx, t, func(s *state) {
		for name, value := range settings {
			put(&s.Settings, name, value)
		}
	})
}

func (b bios) factoryReset(ctx context.Context, t *driver.Task) error {
	return b.configure(ctx, t, func(s *state) { s.Settings = nil })
}

func (b bios) configure(ctx context.Context, t *driver.Task, do func(*state)) error {
	if err := b.change(ctx, t.Fence, t.Node, "set_bios_settings", do); err != nil {
		return err
	}
	return b.cacheSettings(ctx, t)
}

// cacheSettings reads the settings for central.
func (b bios) cacheSettings(ctx context.Context, t *driver.Task) error {
	list, err := b.Settings(ctx, t.Node)
	if err != nil {
		return err
	}
	b.observe(t, hardware.Observation{BIOS: list})
	return nil
}
