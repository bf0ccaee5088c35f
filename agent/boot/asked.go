package boot

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/ironyard/ironyard/agent/bootserver"
	"github.com/ironyard/ironyard/agent/inventory"
	"github.com/ironyard/ironyard/agent/netup"
	"github.com/ironyard/ironyard/agent/session"
)

// parametersFile keeps what a rackd has told of this boot.
const parametersFile = "/run/ironyard/parameters"

// asks reports whether the settings are a rackd's to tell. A command line that names an API comes from a boot script.
func (f *Flags) asks() bool {
	return f.Ramdisk && f.APIURL == "" && (f.AskDHCP || len(f.BootServers) > 0)
}

// ask takes the settings that a rackd tells.
func (f *Flags) ask(ctx context.Context, log *slog.Logger, up *netup.Manager) error {
	again := false
	places := func(ctx context.Context) (list []bootserver.Place) {
		if !f.AskDHCP {
			return bootserver.Everywhere(f.BootServers, macsOf(inventory.Machine{OwnModules: f.Ramdisk}))
		}
		for _, b := range up.BootFiles(ctx, again, bootserver.IsParameters) {
			list = append(list, bootserver.Place{Base: bootserver.BaseOf(b.Name), MAC: b.MAC})
		}
		again = true // the rackd that came with the lease may have gone
		return list
	}
	words, err := bootserver.Asker{Log: log, Places: places, Fingerprint: f.APIFingerprint, For: session.LookupFor, File: parametersFile}.Parameters(ctx)
	if err != nil {
		return err
	}
	return f.told(words)
}

// told takes the settings that a rackd has told. What the program itself switches on stays on. The answer has come by plain HTTP. So a
// program that names its rackd's certificate does not let the answer say which disks are erased.
func (f *Flags) told(words string) error {
	debug, shared, pinned := f.Debug, f.EraseShared, f.APIFingerprint != ""
	err := f.kernel(words)
	f.Debug, f.EraseShared = f.Debug || debug, shared || f.EraseShared && !pinned
	if err != nil {
		return fmt.Errorf("the parameters that a rackd has told: %w", err)
	}
	return nil
}
