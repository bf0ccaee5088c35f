package commands

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/agent/command"
	"github.com/ironyard/ironyard/agent/deploy"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

// The step is offered in each flow with its arguments, and its order comes back without the secret.
func TestExportVolumeIsOffered(t *testing.T) {
	d := Deps{Log: slog.New(slog.DiscardHandler), Deployer: &deploy.Deployer{Log: slog.New(slog.DiscardHandler)}}
	for _, name := range []string{agentapi.CmdGetCleanSteps, agentapi.CmdGetDeploySteps, agentapi.CmdGetServiceSteps} {
		for _, s := range All(d) {
			if s.Name != name {
				continue
			}
			result, err := s.Run(t.Context(), command.Call{})
			raw, err2 := json.Marshal(result)
			if text := string(raw); err != nil || err2 != nil || !strings.Contains(text, `"step":"export_volume","priority":0`) || !strings.Contains(text, `"auth_password"`) {
				t.Errorf("%s: %v, %v, %s", name, err, err2, text)
			}
		}
	}
	order := map[string]any{"step": "export_volume", "args": map[string]any{"auth_username": "m", "auth_password": "twelve-or-more"}}
	raw, err := json.Marshal(exportVolume.shown(order))
	if err != nil || strings.Contains(string(raw), "twelve") || !strings.Contains(string(raw), `"auth_username":"m"`) {
		t.Errorf("%s, %v", raw, err)
	}
	if args := order["args"].(map[string]any); args["auth_password"] != "twelve-or-more" {
		t.Error("the order itself has lost its secret")
	}
}
