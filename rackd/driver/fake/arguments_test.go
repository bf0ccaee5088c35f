package fake

import (
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// The arguments that a step would refuse are refused before it runs.
func TestArgumentsOfNamedStepsAreJudged(t *testing.T) {
	f := New(Options{})
	for _, c := range []struct {
		kind, step string
		args       map[string]any
		ok         bool
	}{
		{"bios", "apply_configuration", map[string]any{"settings": []any{map[string]any{"name": "BootRetries", "value": 5.0}}}, true},
		{"bios", "apply_configuration", map[string]any{"settings": "BootRetries=5"}, false},
		{"bios", "apply_configuration", map[string]any{"settings": []any{"BootRetries"}}, false},
		{"bios", "apply_configuration", map[string]any{"settings": nil}, false},
		{"firmware", "update", map[string]any{"settings": []any{map[string]any{"component": "bmc", "url": "http://h/f"}}}, true},
		{"firmware", "update", map[string]any{"settings": map[string]any{"component": "bmc", "url": "http://h/f"}}, false},
		{"raid", "apply_configuration", map[string]any{"raid_config": map[string]any{"logical_disks": []any{map[string]any{"raid_level": "1", "size_gb": "MAX"}}}}, true},
		{"raid", "apply_configuration", map[string]any{"raid_config": []any{}}, false},
		{"raid", "apply_configuration", map[string]any{"raid_config": map[string]any{"logical_disks": []any{map[string]any{"raid_level": 1.0, "size_gb": "MAX"}}}}, false},
	} {
		for _, s := range f.Interface(c.kind).(driver.StepSource).NamedSteps(nil) {
			if s.Name != c.step {
				continue
			}
			if err := s.Check(&node.Document{UUID: "n"}, c.args); (err == nil) != c.ok {
				t.Errorf("%s.%s %v: %v", c.kind, c.step, c.args, err)
			}
		}
	}
}
