package none

import (
	"context"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// Deploy is the deploy interface "noop", as Ironic has it: of machines that another program installs. It takes each node as it is, and
// touches no machine, so that no ramdisk cleans it either.
type Deploy struct{ Noop }

// InstanceFields is empty: nothing of instance_info is acted on.
func (Deploy) InstanceFields() []string { return nil }

// NeedsNoBoot implements driver.Bootless.
func (Deploy) NeedsNoBoot() {}

// DeploySteps are one that does nothing.
func (Deploy) DeploySteps(*node.Document) []driver.Step {
	return []driver.Step{{Interface: "deploy", Name: "deploy", Priority: 100, Kind: driver.Repeatable, Apart: true,
		Run: func(_ context.Context, t *driver.Task) (driver.Outcome, error) {
			t.Record.Phase("deploy", "the deploy interface noop leaves the machine as it is")
			return driver.Done(), nil
		}}}
}

// TearDownSteps are one that does nothing.
func (Deploy) TearDownSteps(*node.Document) []driver.Step {
	return []driver.Step{{Interface: "deploy", Name: "tear_down", Kind: driver.Repeatable, Apart: true,
		Run: func(context.Context, *driver.Task) (driver.Outcome, error) { return driver.Done(), nil }}}
}
