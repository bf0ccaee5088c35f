package command

import (
	"fmt"
	"log/slog"

	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/secretfile"
)

type keyCommand struct {
	Generate keyGenerate `cmd:"" help:"Print a new fleet key, for central."`
	Group    keyGroup    `cmd:"" help:"Print the key of a conductor group, for its rackds."`
}

type keyGenerate struct{}

func (keyGenerate) Run() error {
	key, err := seal.GenerateKey()
	if err != nil {
		return err
	}
	fmt.Println(key.Text())
	return nil
}

type keyGroup struct {
	File  string `arg:"" type:"existingfile" help:"File with the fleet's key."`
	Group string `arg:"" optional:"" help:"Conductor group. Default: the group without a name."`
	// Generation is for rackds whose keys are given by hand.
	Generation []uint64 `help:"Generations of the group's key, as 'central key groups' shows them. The one that seals comes first." default:"0"`
}

func (k keyGroup) Run(log *slog.Logger) error {
	text, err := secretfile.Read(k.File, log)
	if err != nil {
		return err
	}
	fleet, err := seal.ParseKey(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", k.File, err)
	}
	group, err := fleet.ForGroupAt(k.Group, k.Generation...)
	if err != nil {
		return err
	}
	fmt.Println(group.Text())
	return nil
}
