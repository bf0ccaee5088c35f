package commands

import (
	"context"
	"encoding/json"

	"github.com/ironyard/ironyard/agent/command"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

// exportVolume is a step that runs when it is asked for. A step "hold" after it keeps the ramdisk, and with it the volume.
var exportVolume = step{Step: agentapi.StepExportVolume, Interface: "deploy", Abortable: true, Repeatable: true, run: runExportVolume,
	secrets: []string{"auth_password", "mutual_auth_password"}, Takes: map[string]argument{
		"initiator":            {"The iSCSI name (IQN) of the machine that may log in, as its volume connector has it.", true, agentapi.ArgumentText},
		"auth_username":        {"The name that it shows by CHAP.", true, agentapi.ArgumentText},
		"auth_password":        {"The secret that it shows by CHAP, of 12 to 16 characters.", true, agentapi.ArgumentText},
		"mutual_auth_username": {"The name that the volume shows in its turn (mutual CHAP). Default: it shows none.", false, agentapi.ArgumentText},
		"mutual_auth_password": {"The secret that it shows then, of 12 to 16 characters.", false, agentapi.ArgumentText},
		"target_iqn":           {"The volume's iSCSI name. Default: one of the node's UUID.", false, agentapi.ArgumentText},
		"target_portal_port":   {"The TCP port. Default: 3260.", false, agentapi.ArgumentWhole},
		"from":                 {"Addresses and networks that may connect, divided by commas. Default: any.", false, agentapi.ArgumentText},
		"disk":                 {"Hints for the disk, as the property root_device has. Default: the node's root device.", false, agentapi.ArgumentObject},
	}}

func runExportVolume(ctx context.Context, d Deps, p agentapi.StepParams, c command.Call) (any, error) {
	raw, err := json.Marshal(p.Step["args"])
	if err != nil {
		return nil, err
	}
	var args agentapi.ExportVolumeArgs
	if err := decode(raw, &args); err != nil {
		return nil, err
	}
	s, err := rules(p)
	if err != nil {
		return nil, err
	}
	node, _ := p.Node["uuid"].(string)
	return d.Deployer.ExportVolume(ctx, s, node, args, c.From)
}
