package commands

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/agent/command"
	"github.com/ironyard/ironyard/agent/container"
	"github.com/ironyard/ironyard/agent/deploy"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

// noContainer runs none.
type noContainer struct{}

func (noContainer) Run(context.Context, container.Job) error { return nil }

// The step that installs containers is offered in deploys alone, and only where the ramdisk has podman.
func TestContainersAreOfferedWithPodman(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	for _, c := range []struct {
		podman deploy.Containers
		want   bool
	}{{nil, false}, {noContainer{}, true}} {
		r := command.NewRunner(log, All(Deps{Log: log, Deployer: &deploy.Deployer{Log: log, Containers: c.podman}})...)
		for name, key := range map[string]string{agentapi.CmdGetDeploySteps: "deploy_steps", agentapi.CmdGetCleanSteps: "clean_steps", agentapi.CmdGetServiceSteps: "service_steps"} {
			cmd, err := r.Start(agentapi.CommandRequest{ID: name, Name: name})
			if err != nil {
				t.Fatal(err)
			}
			var answer map[string]map[string][]struct{ Step string }
			_ = json.Unmarshal(cmd.Result, &answer) // its other half is of another kind
			has := slices.ContainsFunc(answer[key][agentapi.StepManager], func(s struct{ Step string }) bool { return s.Step == agentapi.StepBootc })
			if want := c.want && key == "deploy_steps"; has != want {
				t.Errorf("%s with podman %v: offered %v, want %v", key, c.podman, has, want)
			}
		}
		r.Close()
	}
}

// No answer repeats the account of the registry.
func TestContainersKeepTheirSecret(t *testing.T) {
	raw, err := json.Marshal(bootc.shown(map[string]any{"step": agentapi.StepBootc, "args": map[string]any{"image_source": "oci://r/os:1", "oci_pull_secret": "s3cret", "configdrive": "dr1ve"}}))
	if err != nil {
		t.Fatal(err)
	}
	if said := string(raw); strings.Contains(said, "s3cret") || strings.Contains(said, "dr1ve") || !strings.Contains(said, "oci://r/os:1") {
		t.Errorf("it answers %s", said)
	}
}
