package command

import (
	"fmt"
	"log/slog"

	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/secretfile"
)

type keyCommand struct {
	Generate keyGenerate `cmd:"" help:"Print a new key of the fleet, for central."`
	Group    keyGroup    `cmd:"" help:"Print the key of a conductor group, all that its rackds need."`
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
	Group string `arg:"" optional:"" help:"Conductor group; none: nodes without a group."`
	// Generation is for rackds whose keys are given by hand.
	Generation []uint64 `help:"Generations of the group's key that 'central key groups' shows, the one that seals first." default:"0"`
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
