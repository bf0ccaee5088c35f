package commands

import (
	"context"
	"errors"

	"github.com/ironyard/ironyard/agent/command"
	"github.com/ironyard/ironyard/agent/deploy"
	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/shacrypt"
)

// Rescue lets people into the ramdisk.
type Rescue interface {
	// Begin accepts logins with the password of that hash. From then on the machine is its user's: heartbeats
	// stop at once and the command API soon after.
	Begin(hash string) (agentapi.FinalizeRescueResult, error)
}

// finalizeRescue sets the password of the user "rescue". A password that is not hashed is hashed here, as
// ironic-python-agent does.
func finalizeRescue(d Deps) command.Spec {
	return command.Spec{Name: agentapi.CmdFinalizeRescue, Run: func(_ context.Context, c command.Call) (any, error) {
		var p agentapi.FinalizeRescueParams
		if err := decode(c.Params, &p); err != nil {
			return nil, err
		}
		if p.Password == "" {
			return nil, &deploy.ParamError{Reason: "rescue_password is empty"}
		}
		if d.Rescue == nil {
			return nil, errors.New("only an agent in the ramdisk lets a user in")
		}
		if !p.Hashed {
			var err error
			if p.Password, err = shacrypt.Hash(p.Password); err != nil {
				return nil, &deploy.ParamError{Reason: err.Error()}
			}
		}
		return d.Rescue.Begin(p.Password)
	}}
}
