package direct

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/rackd/driver"
)

// ironic-python-agent gives commands ids of its own, takes no argument that it does not
// know, and says in words where the image is.
func TestPythonAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.Runs, r.OwnIDs = 3, true
		r.Answer = func(name string) (any, string) {
			switch name {
			case agentapi.CmdPrepareImage:
				return map[string]any{"result": "prepare_image: image (sha256-ab) written to device /dev/vda root_uuid=0x1234abcd"}, ""
			case agentapi.CmdGetDeploySteps:
				return map[string]any{"deploy_steps": map[string]any{"GenericHardwareManager": []any{}}, "hardware_manager_version": map[string]any{"generic_hardware_manager": "1.2"}}, ""
			}
			return map[string]any{"result": "ok"}, ""
		}
		if err := flow(t, r, New(Settings{}).DeploySteps(r.Node)); err != nil {
			t.Fatal(err)
		}
		if got := r.Writes("agent " + agentapi.CmdPrepareImage); len(got) != 1 {
			t.Errorf("the image was written %d times", len(got))
		}
		if got := r.Writes("agent " + agentapi.CmdGetDeploySteps); len(got) != 1 || strings.Contains(got[0], `"step"`) {
			t.Errorf("asked for its steps with %q", got)
		}
		if got := r.Writes("agent " + agentapi.CmdInstallBoot); len(got) != 1 || !strings.Contains(got[0], `"root_uuid":"0x1234abcd"`) {
			t.Errorf("the boot loader: %q", got)
		}
		if !slices.ContainsFunc(r.Phases, func(p string) bool { return strings.HasSuffix(p, "to /dev/vda") }) {
			t.Errorf("phases %q", r.Phases)
		}
	})
}

// A rackd that dies, or is fenced, between giving a command and noting the id that the
// agent gave it leaves one that runs, or has ended: who goes on with the step finds it in
// the agent's list.
func TestPythonAgentsCommandIsFoundAgain(t *testing.T) {
	for _, c := range []struct {
		name string
		runs int
	}{{"while it runs", 3}, {"when it has ended", 0}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig()
				r.Runs, r.OwnIDs = c.runs, true
				r.Answer = func(string) (any, string) {
					return map[string]any{"result": "prepare_image: image (x) written to device /dev/vda root_uuid=1"}, ""
				}
				saves := 0
				r.Fail = func(call string) error {
					if call == "save" {
						if saves++; saves == 2 {
							return driver.ErrFenced
						}
					}
					return nil
				}
				steps := New(Settings{}).DeploySteps(r.Node)
				write := slices.IndexFunc(steps, func(s driver.Step) bool { return s.Name == "write_image" })
				if err := flow(t, r, steps[:write+1]); !errors.Is(err, driver.ErrFenced) {
					t.Fatalf("error %v: the test shows nothing", err)
				}
				for { // another rackd, with the handle that was saved first
					out, err := run(t, r, "write_image")
					if err != nil {
						t.Fatal(err)
					}
					if out == driver.Done() {
						break
					}
				}
				if got := r.Writes("agent " + agentapi.CmdPrepareImage); len(got) != 1 {
					t.Errorf("the image was written %d times", len(got))
				}
			})
		})
	}
}
