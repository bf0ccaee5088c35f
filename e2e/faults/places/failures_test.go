package places

import (
	"slices"
	"testing"

	states "github.com/ironyard/ironyard/protocol/provision"
)

// Each flow has states of failure, as docs/flows.md names them.
func TestStatesOfFailure(t *testing.T) {
	want := map[string][]states.State{
		"manage":                  {states.Enroll},
		"inspect":                 {states.InspectFail},
		"inspect fails":           {states.InspectFail},
		"adopt":                   {states.AdoptFail},
		"clean":                   {states.CleanFail},
		"clean fails":             {states.CleanFail},
		"clean until its hold":    {states.CleanFail},
		"clean from its hold":     {states.CleanFail},
		"provide":                 {states.CleanFail},
		"deploy":                  {states.DeployFail},
		"deploy fails":            {states.DeployFail},
		"deploy-steps":            {states.DeployFail},
		"deploy until its hold":   {states.DeployFail},
		"deploy from its hold":    {states.DeployFail},
		"rebuild":                 {states.Active, states.DeployFail},
		"delete":                  {states.Error, states.CleanFail},
		"delete of a rescued one": {states.Error, states.CleanFail},
		"rescue":                  {states.RescueFail},
		"unrescue":                {states.UnrescueFail},
		"service":                 {states.ServiceFail},
		"service until its hold":  {states.ServiceFail},
		"service from its hold":   {states.ServiceFail},
		"power":                   {states.Available},
		"reboot":                  {states.Available},
	}
	for _, f := range slices.Concat(flows, machineFlows, heldFlows) {
		if got := f.failures(); !slices.Equal(got, want[f.name]) {
			t.Errorf("%s: %q, want %q", f.name, got, want[f.name])
		}
	}
}
