package direct

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/ironyard/ironyard/protocol/agentapi"
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
