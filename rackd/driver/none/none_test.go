package none

import (
	"errors"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

var (
	_ driver.Inspect    = Unsupported{}
	_ driver.Rescuer    = Unsupported{}
	_ driver.StepSource = Unsupported{}
	_ driver.StepSource = Noop{}
)

func TestUnsupportedRefusesWithAWayOut(t *testing.T) {
	n := &node.Document{UUID: "u-1", Name: "web1"}
	u := Unsupported{Kind: "rescue"}
	errs := []error{u.Validate(n)}
	for _, s := range append(u.RescueSteps(n), u.UnrescueSteps(n)...) {
		_, err := s.Run(t.Context(), &driver.Task{Node: n})
		errs = append(errs, err)
	}
	for _, err := range errs {
		if !errors.Is(err, driver.ErrUnsupported) || !strings.Contains(err.Error(), "web1") || !strings.Contains(err.Error(), "rescue_interface") {
			t.Errorf("error %v: want ErrUnsupported naming the node and the field", err)
		}
	}
	if u.NamedSteps(n) != nil || (Noop{}).NamedSteps(n) != nil || (Noop{}).Validate(n) != nil {
		t.Error("none contributes steps, or noop refuses")
	}
}
