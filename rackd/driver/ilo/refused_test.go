package ilo

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
)

// Steps that are not carried out are refused when they are asked for, with the reason, and never write.
func TestRefusedSteps(t *testing.T) {
	d, m, a := newDouble(t), management(t), auto(t)
	for name, c := range map[string]struct {
		in   driver.Flows
		args map[string]any
		says string
		ilo  bool // the hardware type ilo has it too
	}{
		updateBySUM:    {driver.InClean, map[string]any{"url": "http://files/spp.iso", "checksum": "a", "components": []any{"cp1"}}, "Smart Update Manager", true},
		flashBySUM:     {driver.InDeploy, map[string]any{"url": "http://files/spp.iso", "checksum": "a"}, "Smart Update Manager", true},
		oneButtonErase: {driver.InClean, nil, "no rackd can read back what was erased", false},
	} {
		for hardware, list := range map[string]func(*node.Document) []driver.Step{"ilo5": m.NamedSteps, "ilo": a.NamedSteps} {
			r := drivertest.NewRig()
			r.Node.DriverInfo = d.info("any")
			steps := list(r.Node)
			at := slices.IndexFunc(steps, func(s driver.Step) bool { return s.Name == name })
			if has := at >= 0; has != (c.ilo || hardware == "ilo5") {
				t.Errorf("%s has %s: %t", hardware, name, has)
			}
			if at < 0 {
				continue
			}
			s := steps[at]
			for arg := range c.args {
				if _, takes := s.Takes[arg]; !takes {
					t.Errorf("%s takes no %s, so that the reason is not told", name, arg)
				}
			}
			task := r.Task(networkboot.IPXE())
			task.Args = c.args
			_, err := s.Run(t.Context(), task)
			for _, err := range []error{s.Check(r.Node, c.args), err} {
				if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "'"+name+"' is not executed") {
					t.Errorf("%s: %v", name, err)
				}
			}
			if !s.Has(c.in) || s.Priority != 0 {
				t.Errorf("%s: %+v", name, s)
			}
		}
	}
	if w := d.Written(); len(w) > 0 {
		t.Errorf("written %q", w)
	}
}
