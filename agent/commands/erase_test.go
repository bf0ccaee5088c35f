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

	"github.com/ironyard/ironyard/agent/command"
	"github.com/ironyard/ironyard/agent/deploy"
	"github.com/ironyard/ironyard/agent/diskwatch"
	"github.com/ironyard/ironyard/agent/inventory"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

// A step that erases says that it has only where each disk is erased or may stay as it is: the real inventory, watch, deployer and
// command, on machines where nothing can be erased. want is part of the error, empty where the step succeeds.
func TestAnErasureThatErasesNothing(t *testing.T) {
	const readOnly = "sys/block/sda/ro"
	disk := func(more ...string) map[string]string {
		files := map[string]string{"sys/block/sda/size": "20971520", "sys/block/sda/serial": "TENANT"}
		for i := 0; i < len(more); i += 2 {
			files[more[i]] = more[i+1]
		}
		return files
	}
	keeps := map[string]any{"skip_block_devices": []any{map[string]any{"serial": "TENANT"}}}
	for name, c := range map[string]struct {
		files map[string]string
		node  map[string]any
		want  string
	}{
		"no disk at all":                     {files: map[string]string{"sys/.keep": ""}, want: "nothing is erased: this machine shows no disks at all"},
		"none, and none was inspected":       {files: map[string]string{"sys/.keep": ""}, node: map[string]any{agentapi.StepKnownDisks: []any{}}},
		"none, and one was inspected":        {files: map[string]string{"sys/.keep": ""}, node: map[string]any{agentapi.StepKnownDisks: []any{[]any{"TENANT", "", 7}}}, want: `(serial "TENANT"`},
		"a hidden one":                       {files: map[string]string{"sys/block/nvme0c0n1/size": "20971520", "sys/block/nvme0c0n1/hidden": "1"}, want: "nothing is erased"},
		"a stick":                            {files: disk("sys/block/sda/removable", "1"), want: "removable: used only where properties/root_device names it"},
		"a stick, and no disk was inspected": {files: disk("sys/block/sda/removable", "1"), node: map[string]any{agentapi.StepKnownDisks: []any{}}},
		"a stick that is to be erased":       {files: disk("sys/block/sda/removable", "1", readOnly, "1"), node: map[string]any{"properties": map[string]any{"root_device": map[string]any{"serial": "TENANT"}}}, want: "which is read-only"},
		"read-only":                          {files: disk(readOnly, "1"), want: `/dev/sda (10737418240 bytes, serial "TENANT"), which is read-only`},
		"read-only, and none was inspected":  {files: disk(readOnly, "1"), node: map[string]any{agentapi.StepKnownDisks: []any{}}, want: "which is read-only"},
		"read-only and kept":                 {files: disk(readOnly, "1"), node: map[string]any{"properties": keeps}},
		"mounted":                            {files: disk("sys/block/sda/sda1/size", "2048", "proc/self/mounts", "/dev/sda1 /mnt ext4 rw 0 0"), want: "which is in use"},
		"a drive that has failed":            {files: disk("sys/block/sda/size", "0", "sys/block/sda/removable", "0"), want: "which is of size 0"},
		"a drive that has failed and kept":   {files: disk("sys/block/sda/size", "0"), node: map[string]any{"properties": keeps}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				root := t.TempDir()
				for path, text := range c.files {
					path = filepath.Join(root, path)
					if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				log := slog.New(slog.DiscardHandler)
				d := &deploy.Deployer{Machine: diskwatch.New(inventory.Machine{Root: root}, log), Log: log}
				r := command.NewRunner(log, All(Deps{Log: log, Deployer: d})...)
				defer r.Close()
				for _, step := range []string{"erase_devices_metadata", "erase_devices"} {
					params, err := json.Marshal(map[string]any{"step": map[string]any{"interface": "deploy", "step": step}, "node": c.node, "ports": []any{}})
					if err != nil {
						t.Fatal(err)
					}
					cmd, err := r.Start(agentapi.CommandRequest{ID: step, Name: agentapi.CmdExecCleanStep, Params: params})
					if err != nil {
						t.Fatal(err)
					}
					if cmd, _ = r.Wait(context.Background(), cmd.ID); (cmd.Status == agentapi.CommandSucceeded) != (c.want == "") {
						t.Errorf("%s: %s, result %s, error %+v", step, cmd.Status, cmd.Result, cmd.Error)
					}
					if c.want != "" && (cmd.Error == nil || !strings.Contains(cmd.Error.Details, c.want)) {
						t.Errorf("%s: error %+v, want %q", step, cmd.Error, c.want)
					}
				}
			})
		})
	}
}
