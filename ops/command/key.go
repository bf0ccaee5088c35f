package command

import (
	"fmt"
	"log/slog"

	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/secretfile"
	"github.com/ironyard/ironyard/rackd/agentdoor"
)

type keyCommand struct {
	Generate keyGenerate `cmd:"" help:"Print a new fleet key, for central."`
	Group    keyGroup    `cmd:"" help:"Print the key of a conductor group, for its rackds."`
	Print    keyPrint    `cmd:"" name:"fingerprint" help:"Print the fingerprint of the certificate that the rackds of a conductor group show to agents, for 'ramdisk build --api-fingerprint'."`
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

type keyPrint struct {
	File  string `arg:"" type:"existingfile" help:"File with the group's key, as rackd --key-file reads it."`
	Group string `arg:"" optional:"" help:"Conductor group. Default: the group without a name."`
}

func (k keyPrint) Run(log *slog.Logger) error {
	text, err := secretfile.Read(k.File, log)
	if err != nil {
		return err
	}
	ring, err := seal.ParseKeyring(string(text), k.Group)
	if err != nil {
		return fmt.Errorf("%s: %w", k.File, err)
	}
	key := ring.Of(k.Group)
	if key == nil {
		return fmt.Errorf("%s has no key of conductor group %q", k.File, k.Group)
	}
	id, err := agentdoor.NewIdentity(key)
	if err != nil {
		return err
	}
	fmt.Println(id.Fingerprint)
	return nil
}
