package commands

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/ironyard/ironyard/agent/command"
	"github.com/ironyard/ironyard/agent/deploy"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

// A deploy template that erases metadata is part of each deploy of its trait, a rebuild with preserve_ephemeral included. The two
// contradict each other: the step is refused, and nothing is erased.
func TestADeployStepDoesNotEraseWhatIsToBePreserved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "disk")
	old := bytes.Repeat([]byte{0xd7}, 16<<20)
	if err := os.WriteFile(path, old, 0o600); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	d := &deploy.Deployer{Machine: attached{{Name: path, Size: 16 << 20}}, Log: log, EFIVars: t.TempDir()}
	r := command.NewRunner(log, All(Deps{Log: log, Deployer: d})...)
	defer r.Close()
	params, err := json.Marshal(map[string]any{"step": map[string]any{"interface": "deploy", "step": "erase_devices_metadata"}, "ports": []any{},
		"node": map[string]any{"instance_info": map[string]any{"image_type": "partition", "root_gb": 10, "ephemeral_gb": 5, "preserve_ephemeral": true}}})
	if err != nil {
		t.Fatal(err)
	}
	c, err := r.Start(agentapi.CommandRequest{ID: "e", Name: agentapi.CmdExecDeployStep, Params: params})
	if err != nil {
		t.Fatal(err)
	}
	if c, err = r.Wait(t.Context(), c.ID); err != nil {
		t.Fatal(err)
	}
	now, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if c.Status == agentapi.CommandSucceeded || !bytes.Equal(now, old) {
		t.Errorf("the step is %s, and the disk with the ephemeral partition untouched: %v", c.Status, bytes.Equal(now, old))
	}
}
