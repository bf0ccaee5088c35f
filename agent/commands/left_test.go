package commands

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/agent/command"
	"github.com/ironyard/ironyard/agent/deploy"
	"github.com/ironyard/ironyard/agent/diskwatch"
	"github.com/ironyard/ironyard/agent/inventory"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

// A disk that the ramdisk has shown is gone at the erasure: the step fails by its name. Where the work has changed the machine's RAID, the
// disk was a volume, and is not missed.
func TestAnErasureMissesWhatTheMachineHasShown(t *testing.T) {
	for name, c := range map[string]struct {
		changed bool
		want    string
	}{
		"a disk that has left":      {false, `gone: /dev/sda (serial "TENANT"`},
		"a volume that was deleted": {true, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			root := t.TempDir()
			at := filepath.Join(root, "sys/block/sda")
			if err := os.MkdirAll(at, 0o755); err != nil {
				t.Fatal(err)
			}
			for file, text := range map[string]string{"size": "20971520", "serial": "TENANT"} {
				if err := os.WriteFile(filepath.Join(at, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			log := slog.New(slog.DiscardHandler)
			watch := diskwatch.New(inventory.Machine{Root: root}, log)
			time.Sleep(2 * time.Minute)
			if err := os.RemoveAll(at); err != nil {
				t.Fatal(err)
			}
			r := command.NewRunner(log, All(Deps{Log: log, Deployer: &deploy.Deployer{Machine: watch, Forget: watch.Forget, Log: log}})...)
			defer r.Close()
			node := map[string]any{agentapi.StepKnownDisks: []any{}} // nothing else misses a disk
			if c.changed {
				node[agentapi.StepVolumesChanged] = true
			}
			params, err := json.Marshal(map[string]any{"step": map[string]any{"interface": "deploy", "step": "erase_devices"}, "node": node})
			if err != nil {
				t.Fatal(err)
			}
			cmd, err := r.Start(agentapi.CommandRequest{ID: "erase", Name: agentapi.CmdExecCleanStep, Params: params})
			if err != nil {
				t.Fatal(err)
			}
			cmd, _ = r.Wait(context.Background(), cmd.ID)
			if (cmd.Status == agentapi.CommandSucceeded) != (c.want == "") || c.want != "" && !strings.Contains(cmd.Error.Details, c.want) {
				t.Errorf("%s: %s, error %+v, want %q", name, cmd.Status, cmd.Error, c.want)
			}
		})
	}
}
