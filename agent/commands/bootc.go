package commands

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/ironyard/ironyard/agent/command"
	"github.com/ironyard/ironyard/agent/deploy"
	"github.com/ironyard/ironyard/agent/efiboot"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

// bootc is a step of deploys, where the ramdisk has podman. It clears the disk first, so that an agent that has started again may begin it
// once more. The arguments are ironic-python-agent's.
var bootc = step{Step: agentapi.StepBootc, Interface: "deploy", Abortable: true, Repeatable: true, run: runBootc, secrets: []string{"oci_pull_secret", "configdrive"},
	Takes: map[string]argument{
		"image_source":    {"The container that installs itself: oci://HOST[:PORT]/NAME, with a tag or a digest.", true, agentapi.ArgumentText},
		"configdrive":     {"The config drive: base64 of a gzipped image.", false, agentapi.ArgumentText},
		"oci_pull_secret": {"The account at the registry: base64 of the auth of podman's file, which is base64 of user:password.", false, agentapi.ArgumentText},
	}}

// ofDeploys are the steps of deploys that this ramdisk has.
func ofDeploys(d Deps) []step {
	if d.Deployer == nil || d.Deployer.Containers == nil {
		return deploySteps
	}
	return append(deploySteps[:len(deploySteps):len(deploySteps)], bootc)
}

func runBootc(ctx context.Context, d Deps, p agentapi.StepParams, c command.Call) (any, error) {
	raw, err := json.Marshal(p.Step["args"])
	if err != nil {
		return nil, err
	}
	var args agentapi.BootcArgs
	if err := decode(raw, &args); err != nil {
		return nil, err
	}
	s, err := rules(p)
	if err != nil {
		return nil, err
	}
	install := deploy.Container{Source: args.Source, ConfigDrive: args.ConfigDrive, PullSecret: args.PullSecret}
	instance, _ := p.Node["instance_info"].(map[string]any)
	if keys, given := instance["bootc_authorized_keys"]; given && keys != nil {
		var is bool
		if install.AuthorizedKeys, is = keys.(string); !is {
			return nil, &deploy.ParamError{Reason: "instance_info bootc_authorized_keys is no text: give keys as a file authorized_keys has them"}
		}
	}
	switch luks := instance["bootc_tpm2_luks"].(type) {
	case nil:
	case bool:
		install.TPM2LUKS = luks
	default:
		return nil, &deploy.ParamError{Reason: fmt.Sprintf("instance_info bootc_tpm2_luks is %.40q: give true or false", fmt.Sprint(luks))}
	}
	networkFirst, _ := p.Node[agentapi.StepNetworkFirst].(bool)
	install.Place = efiboot.Place(networkFirst)
	install.UEFI, _ = p.Node[agentapi.StepUEFI].(bool)
	return d.Deployer.InstallContainer(ctx, s, install, c.Report)
}
