package commands

import (
	"bytes"
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

// Two disks hold one image, and one of them is kept. The agent has started again since it wrote the other: it is told of the kept one, and
// leaves it out.
func TestTheBootLoaderLeavesKeptDisksOut(t *testing.T) {
	content := make([]byte, 1<<20)
	copy(content[440:], []byte{0x78, 0x56, 0x34, 0x12}) // the identifier of an MBR
	content[510], content[511] = 0x55, 0xaa
	dir := t.TempDir()
	disks := []string{filepath.Join(dir, "kept"), filepath.Join(dir, "written")}
	for _, path := range disks {
		if err := os.WriteFile(path, bytes.Clone(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		skip any
		want string // part of the error; empty: it succeeds
	}{
		"no rules":                {nil, "2 have the written disk's identifier"},
		"one is kept":             {[]any{map[string]any{"name": disks[0]}}, ""},
		"rules that mean nothing": {[]any{map[string]any{"colour": "red"}}, `"colour" is unknown`},
	} {
		synctest.Test(t, func(t *testing.T) {
			log := slog.New(slog.DiscardHandler)
			d := &deploy.Deployer{Machine: diskwatch.New(inventory.Machine{DiskFiles: disks}, log), Log: log, EFIVars: filepath.Join(dir, "none")}
			r := command.NewRunner(log, All(Deps{Log: log, Deployer: d})...)
			defer r.Close()
			params, err := json.Marshal(map[string]any{"root_uuid": "0x12345678", "ironyard_skip_block_devices": c.skip})
			if err != nil {
				t.Fatal(err)
			}
			cmd, err := r.Start(agentapi.CommandRequest{ID: "boot", Name: agentapi.CmdInstallBoot, Params: params})
			if err != nil {
				t.Fatal(err)
			}
			cmd, _ = r.Wait(context.Background(), cmd.ID)
			if (cmd.Status == agentapi.CommandSucceeded) != (c.want == "") || c.want != "" && !strings.Contains(cmd.Error.Details, c.want) {
				t.Errorf("%s: %s, result %s, error %+v, want %q", name, cmd.Status, cmd.Result, cmd.Error, c.want)
			}
		})
	}
}
