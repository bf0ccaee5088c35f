// Package anaconda is the deploy interface "anaconda": the machine boots an installer over the network, which follows a kickstart,
// puts the instance on the disk by itself and reports by agent_status.
//
// It may import rackd/driver, rackd/driver/bringup, rackd/driver/direct (whose agent cleans and services these machines),
// rackd/driver/installer, rackd/driver/instancefiles, rackd/configdrive, rackd/kickstart and protocol. Invariants: everything that
// the installer needs is in the rack's cache, and its kickstart was made once, before the machine is touched. The flow goes on by
// what the installer has reported in its newest boot, and by nothing else.
package anaconda

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/configdrive"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bringup"
	"github.com/ironyard/ironyard/rackd/driver/direct"
	"github.com/ironyard/ironyard/rackd/driver/installer"
	"github.com/ironyard/ironyard/rackd/driver/instancefiles"
	"github.com/ironyard/ironyard/rackd/kickstart"
)

// Interface implements driver.Deploy. Immutable, safe for concurrent use.
type Interface struct {
	direct.Interface
	power bringup.Settings
}

// New returns the interface; agent brings up the agent that cleans.
func New(agent direct.Interface, power bringup.Settings) Interface { return Interface{agent, power} }

// Properties names the fields that are read. As in Ironic there are none of driver_info.
func (Interface) Properties() map[string]string { return nil }

// InstanceFields names what is read or refused of instance_info.
func (Interface) InstanceFields() []string {
	return append(installer.Fields(), driver.FieldPreserveEphemeral)
}

// Ignored implements driver.InstanceIgnorer: all that is read is used. Kernel and ramdisk are the installer's, and make no partition
// image.
func (Interface) Ignored(*node.Document) map[string]string { return nil }

// Adopts implements driver.Adopter: the machine boots its disk.
func (Interface) Adopts(*node.Document) bool { return false }

// Validate looks at what instance_info says of the installer.
func (Interface) Validate(n *node.Document) error {
	if err := installer.Validate(n); err != nil {
		return err
	}
	for _, field := range []string{"root_device", "skip_block_devices"} {
		if !installer.Templated(n) && (n.Properties[field] != nil || n.InstanceInfo[field] != nil) {
			return fmt.Errorf("node %s has %s, and rackd's own kickstart clears all disks, for installers know no such hints: write the disks into a template of your own (ks_template), or remove the field: %w",
				n.Label(), field, driver.ErrInvalid)
		}
	}
	return nil
}

// ValidateWith asks for a boot interface that loads an installer over the network.
func (Interface) ValidateWith(h *driver.Hardware, n *node.Document) error {
	if _, can := h.Boot().(driver.InstallerBooter); !can {
		return fmt.Errorf("node %s: the boot interface %s loads no installer: use ipxe, pxe or http-ipxe: %w", n.Label(), h.Kinds()["boot"].Name, driver.ErrInvalid)
	}
	return errors.Join(driver.ValidateInstance(h, n), driver.RefusePreserving(n, "an installer lays out the disk by its kickstart alone"))
}

// Retries of steps whose BMC or server does not answer.
const (
	retries    = 4
	retryPause = 5 * time.Second
)

// DeploySteps are Ironic's one, between one of ours that brings what the installer needs into the rack, and the start of the instance.
func (i Interface) DeploySteps(*node.Document) []driver.Step {
	step := func(name string, priority int, kind driver.StepKind, run func(context.Context, *driver.Task) (driver.Outcome, error)) driver.Step {
		return driver.Step{Interface: "deploy", Name: name, Priority: priority, Kind: kind, Abortable: true, Retries: retries, Pause: retryPause, Run: run}
	}
	fetch := step("fetch_image", 110, driver.Repeatable, fetch)
	fetch.Apart = true
	install := step("deploy", 100, driver.Reattachable, i.install)
	install.Boots = true
	return []driver.Step{fetch, install, step("boot_instance", 20, driver.Reattachable, i.bootInstance)}
}

// fetch brings the files into the rack, and makes the kickstart once, so that a wrong template or config drive shows now.
func fetch(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
	text, err := installer.Fetch(ctx, t)
	if err != nil {
		return driver.Outcome{}, err
	}
	if err := judge(ctx, t, text); err != nil {
		return driver.Outcome{}, fmt.Errorf("node %s: %w", t.Node.Label(), err)
	}
	t.Record.Phase("image", "the installer and what it needs are in the rack's cache")
	return driver.Done(), nil
}

func judge(ctx context.Context, t *driver.Task, text string) error {
	if text != "" {
		template, err := kickstart.Parse(text)
		if err != nil {
			return err
		}
		if err := template.Judge(); err != nil {
			return err
		}
	}
	drive, err := t.ConfigDrive(ctx)
	if err != nil || drive == "" {
		return err
	}
	files, err := configdrive.Files(drive)
	if err != nil {
		return fmt.Errorf("a kickstart brings the files of the config drive: %w", err)
	}
	list := make([]kickstart.File, len(files))
	for i, f := range files {
		list[i] = kickstart.File(f)
	}
	_, err = kickstart.Drive(list)
	return err
}

// installing is the handle of the step that runs the installer.
type installing struct {
	Boot json.RawMessage `json:"boot,omitempty"` // of the boot into it
	// Base is where the rackd that started the machine serves files.
	Base string `json:"base,omitempty"`
}

// install boots the installer, and waits for its word. Until it has begun it may hang on files of a rackd that has gone, and has
// changed nothing: then the machine is started again.
func (i Interface) install(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
	var h installing
	if raw := t.Record.Handle(); raw != nil {
		if err := json.Unmarshal(raw, &h); err != nil {
			return driver.Outcome{}, fmt.Errorf("node %s: the handle %q of the installer cannot be read: %w", t.Node.Label(), raw, err)
		}
	} else {
		delete(t.Facts, driver.FactReported) // of a deploy before
		if err := driver.SetSecureBoot(ctx, t, false); err != nil {
			return driver.Outcome{}, err
		}
	}
	said, heard := installer.Said(t.Facts)
	switch {
	case !heard:
		return i.boot(ctx, t, &h)
	case said.Status == driver.InstallerFailed:
		return driver.Outcome{}, fmt.Errorf("node %s: the installer has failed: %s", t.Node.Label(), said.Message)
	case said.Status == driver.InstallerEnded:
		return driver.Done(), nil
	}
	return driver.Wait(0), nil
}

// boot has the machine boot the installer, once for a rackd that lives.
func (i Interface) boot(ctx context.Context, t *driver.Task, h *installing) (driver.Outcome, error) {
	deserted := h.Base != "" && t.Media != nil && !t.Media.Served(h.Base)
	if deserted && t.HandsOff() {
		return driver.Wait(look), nil
	}
	if deserted {
		t.Record.Phase("installer", "the rackd that it was to have its files from has gone, and it has not begun: the machine is started again")
	}
	if t.Media != nil && (h.Base == "" || deserted) {
		h.Base = t.Media.Base()
	}
	booting := *t
	booting.Record = driver.Part{Recorder: t.Record, Kept: &h.Boot, Save: func(ctx context.Context) error { return t.Record.SaveHandle(ctx, h) }}
	if err := i.power.Unattended(ctx, &booting, deserted); err != nil {
		return driver.Outcome{}, err
	}
	return driver.Wait(look), nil
}

// look is how often an installer that has not begun is looked at: whether the rackd that it boots from still lives.
const look = 10 * time.Second

// bootInstance starts what was installed.
func (i Interface) bootInstance(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
	installer.Over(t)
	t.Facts[driver.FactBoot] = driver.BootInstance // who asks the network from now on is told to boot the disk
	if err := i.power.Instance(ctx, t, false, i.down); err != nil {
		return driver.Outcome{}, err
	}
	t.Record.Phase("reboot", "into the instance, boot mode "+t.Node.BootMode())
	return driver.Done(), nil
}

// down ends the installer. A machine that does not switch itself off in time, as rackd's own kickstart asks for, is switched off: the
// installer has written everything before it says that it has ended.
func (i Interface) down(ctx context.Context, t *driver.Task) error {
	if err := i.power.OffAfter(ctx, t); err != nil {
		return err
	}
	if err := driver.Prepares(ctx, t); err != nil {
		return err
	}
	if err := driver.SetSecureBoot(ctx, t, true); err != nil {
		return err
	}
	return instancefiles.Forget(t) // of an instance before
}
