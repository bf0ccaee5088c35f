package commands

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/agent/command"
	"github.com/ironyard/ironyard/agent/deploy"
	images "github.com/ironyard/ironyard/agent/image"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

// attached are disks that are there at once.
type attached []agentapi.Disk

func (a attached) Settled(_ context.Context, _ bool, check func([]agentapi.Disk, []agentapi.UnfitDisk) error) ([]agentapi.Disk, error) {
	return a, check(a, nil)
}

// The step write_image, whose arguments are Ironic's and name no disk, writes to the node's root device.
func TestWriteImageTakesTheNodesRootDevice(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "image")
	if err := os.WriteFile(file, make([]byte, 8<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sfdisk", "--quiet", file)
	cmd.Stdin = strings.NewReader("label: dos\nsize=4MiB\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(content)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(content) }))
	defer s.Close()
	root := map[string]any{"serial": "ROOT"}
	for _, c := range []struct {
		name string
		node map[string]any
		args map[string]any
		want string // serial
	}{
		{"of the properties", map[string]any{"properties": map[string]any{"root_device": root}}, nil, "ROOT"},
		{"as text", map[string]any{"properties": map[string]any{"root_device": `{"serial": "ROOT"}`}}, nil, "ROOT"},
		{"of the instance", map[string]any{"instance_info": map[string]any{"root_device": root}, "properties": map[string]any{"root_device": map[string]any{"serial": "DATA"}}}, nil, "ROOT"},
		{"of the arguments", map[string]any{"properties": map[string]any{"root_device": map[string]any{"serial": "DATA"}}}, root, "ROOT"},
		{"none", map[string]any{"properties": map[string]any{}}, nil, "DATA"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var disks attached
			old := bytes.Repeat([]byte{0xd7}, 24<<20)
			for name, size := range map[string]int{"DATA": 16 << 20, "ROOT": 24 << 20} {
				path := filepath.Join(dir, name)
				if err := os.WriteFile(path, old[:size], 0o600); err != nil {
					t.Fatal(err)
				}
				disks = append(disks, agentapi.Disk{Name: path, Size: int64(size), Serial: name})
			}
			log := slog.New(slog.DiscardHandler)
			d := &deploy.Deployer{Machine: disks, Log: log, EFIVars: t.TempDir(), Images: &images.Writer{Client: s.Client(), SpoolDir: t.TempDir(), SpoolLimit: func() int64 { return 1 << 30 }}}
			r := command.NewRunner(log, All(Deps{Log: log, Deployer: d})...)
			defer r.Close()
			info := map[string]any{"id": "i", "urls": []string{s.URL}, "os_hash_algo": "sha256", "os_hash_value": hex.EncodeToString(sum[:]), "disk_format": "raw",
				"ironyard_min_disk_bytes": 1, "image_type": "whole-disk-image"}
			if c.args != nil {
				info["ironyard_root_device"] = c.args
			}
			params, err := json.Marshal(map[string]any{"step": map[string]any{"interface": "deploy", "step": "write_image", "args": map[string]any{"image_info": info}}, "node": c.node, "ports": []any{}})
			if err != nil {
				t.Fatal(err)
			}
			got, err := r.Start(agentapi.CommandRequest{ID: "w1", Name: agentapi.CmdExecServiceStep, Params: params})
			if err != nil {
				t.Fatal(err)
			}
			if got, err = r.Wait(t.Context(), got.ID); err != nil || got.Error != nil {
				t.Fatalf("the step: %v, %v", err, got.Error)
			}
			for _, d := range disks {
				now, err := os.ReadFile(d.Name)
				if written := !bytes.Equal(now, old[:d.Size]); err != nil || written != (d.Serial == c.want) {
					t.Errorf("disk %s was written to: %t, %v", d.Serial, written, err)
				}
			}
		})
	}
}
