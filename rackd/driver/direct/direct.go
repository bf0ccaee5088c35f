// Package direct is the deploy interface "direct": the agent in the ramdisk
// downloads the image from the rack's cache and writes it to the machine's disk.
// It also brings up the agent that cleans and services machines.
//
// It may import rackd/driver, rackd/driver/bringup, rackd/driver/imagefields,
// rackd/driver/instancefiles, rackd/driver/ownramdisk, rackd/driver/volume and protocol. Invariants: what
// an agent's command does is started under an id made of the work and the step, so
// that any rackd finds it again; a step keeps in its handle what it has started
// before it starts it; an agent that rebooted is given a command that bears it again at most
// restarts times, and any other command never.
package direct

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bringup"
	"github.com/ironyard/ironyard/rackd/driver/imagefields"
	"github.com/ironyard/ironyard/rackd/driver/instancefiles"
	"github.com/ironyard/ironyard/rackd/driver/ownramdisk"
	"github.com/ironyard/ironyard/rackd/driver/volume"
)

// Settings of the deploy interface; zero values mean the defaults.
type Settings struct {
	Bringup bringup.Settings
	// Poll is how often at least a running command of the agent is asked for; default 2 s. A young one is asked for more often.
	Poll time.Duration
	// Ramdisks are the rack's; nil: it has none.
	Ramdisks ownramdisk.Rack
}

// Interface implements driver.Deploy. Immutable, safe for concurrent use.
type Interface struct {
	set Settings
	by  Writer // nil: the agent fetches the image and writes it
}

// New returns the interface.
func New(s Settings) Interface {
	if s.Poll <= 0 {
		s.Poll = 2 * time.Second
	}
	return Interface{set: s}
}

// soonest is the first pause before a running command is asked for.
const soonest = 250 * time.Millisecond

// later looks at a running command again, after a quarter of the time that the step has taken so far. What takes a second is not held
// up by a second more, and what takes an hour is asked for every Settings.Poll.
func (i Interface) later(t *driver.Task) driver.Outcome {
	return driver.Wait(min(i.set.Poll, max(soonest, time.Since(t.Entered)/4)))
}

// Properties names the fields that are read.
func (Interface) Properties() map[string]string {
	p := imagefields.Properties()
	p[fieldMinDisk] = "Smallest disk, in bytes, that an image may go to when no root device hint is given. Default 4 GiB."
	return p
}

// InstanceFields names what is read or refused of instance_info.
func (Interface) InstanceFields() []string {
	return slices.AppendSeq(append(imagefields.InstanceFields(),
		"image_type", instancefiles.Kernel, instancefiles.Ramdisk, instancefiles.Arguments, "root_device", fieldDrive, fieldRootGB, fieldSwapMB, fieldEphemeralGB, fieldEphemeralFormat, fieldPreserveEphemeral),
		maps.Keys(refusedFields))
}

// Validate checks what instance_info says of the image.
func (i Interface) Validate(n *node.Document) error {
	if volume.Boots(n) {
		return unwritten(n)
	}
	img, err := imageOf(n)
	if err != nil {
		return err
	}
	return i.canWrite(n, img, img.declared())
}

// ValidateWith checks what instance_info asks for besides.
func (Interface) ValidateWith(h *driver.Hardware, n *node.Document) error {
	var pair error
	if loadsKernel(n) {
		pair = instancefiles.ValidatePair(n)
	}
	return errors.Join(driver.ValidateInstance(h, n), unmet(n), pair)
}

// Retries of steps whose BMC or agent does not answer.
const (
	retries = 4
	pause   = 5 * time.Second
)

func step(name string, priority int, kind driver.StepKind, run func(context.Context, *driver.Task) (driver.Outcome, error)) driver.Step {
	return driver.Step{Interface: "deploy", Name: name, Priority: priority, Kind: kind, Retries: retries, Pause: pause, Run: run}
}

// giveFiles is the step of a rebuild behind which the machine boots the files of the new instance. A rackd of before brings the files of a
// rebuild elsewhere, and would have the machine boot the kernel of the instance before, with the new root. It does not know this
// step, so it fails the rebuild if it takes it over.
const giveFiles = "give_files"

// DeploySteps are Ironic's core deploy steps, after one of ours: the image is in the
// rack's cache, verified, before the machine is touched. A wrong URL or checksum so
// shows in a second and not after a boot.
//
// An instance that is a volume needs no image and no ramdisk.
func (i Interface) DeploySteps(n *node.Document) []driver.Step {
	if volume.Boots(n) {
		return i.volumeSteps()
	}
	fetch := step("fetch_image", 110, driver.Repeatable, i.fetchImage)
	fetch.Retries, fetch.Pause, fetch.Apart = 2, 10*time.Second, true
	up := step("deploy", 100, driver.Reattachable, i.upFor(driver.InDeploy))
	up.Boots, up.Discovers = true, true
	steps := []driver.Step{fetch, up}
	if loadsKernel(n) && len(n.InstanceFiles) > 0 {
		steps = append(steps, step(giveFiles, 81, driver.Repeatable, func(_ context.Context, t *driver.Task) (driver.Outcome, error) {
			return driver.Done(), instancefiles.GiveAhead(t)
		}))
	}
	steps = append(steps,
		step("write_image", 80, driver.Reattachable, i.writeImage),
		step("prepare_instance_boot", 60, driver.Repeatable, i.prepareInstanceBoot),
		step("tear_down_agent", 40, driver.Reattachable, i.tearDownAgent),
		step("boot_instance", 20, driver.Reattachable, i.bootInstance))
	for at := range steps {
		steps[at].Abortable = true // a disk that is half written is written again
	}
	return steps
}

// TearDownSteps take the instance off: the machine is off and boots nothing, and its virtual drives
// are empty. What is on its disk goes with the cleaning that follows.
func (i Interface) TearDownSteps(*node.Document) []driver.Step {
	return []driver.Step{step("tear_down", 0, driver.Repeatable, func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
		if err := i.set.Bringup.Off(ctx, t); err != nil {
			return driver.Outcome{}, err
		}
		t.Facts[driver.FactTornDown] = "yes"
		failed := driver.EmptyDrives(ctx, t)
		if errors.Is(failed, driver.ErrUnreachable) { // it is asked again
			return driver.Outcome{}, failed
		}
		return driver.Done(), errors.Join(failed, driver.TakeBackInstance(ctx, t)) // what can be taken back is
	})}
}

// bootLoader are the parameters of image.install_bootloader. The agent knows the
// disk that it wrote. BootMode is empty where the node asks for none: then a machine that runs by BIOS
// is deployed as it is.
type bootLoader struct {
	RootUUID string `json:"root_uuid"`
	BootMode string `json:"target_boot_mode,omitempty"`
	// ESPUUID is that of the EFI system partition beside a partition image. Our agent finds it by its type.
	ESPUUID string `json:"efi_system_part_uuid,omitempty"`
	// NetworkFirst: the machine is to ask the network at each start, for nothing can tell it to. The own agent alone reads it.
	NetworkFirst bool `json:"ironyard_network_first,omitempty"`
	// SkipBlockDevices are hints for the disks that are never written to, for an agent that has started again since the write. Only the own
	// agent is told: ironic-python-agent refuses arguments that it does not know.
	SkipBlockDevices any `json:"ironyard_skip_block_devices,omitempty"`
}

// prepareInstanceBoot has the agent install the boot loader of a partition image and write the firmware's boot entry, where
// firmware has such, and makes the disk the boot device. An instance whose kernel comes by the network needs neither.
func (i Interface) prepareInstanceBoot(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
	if loadsKernel(t.Node) {
		if err := instancefiles.MountRoot(t, t.Facts[factRootUUID]); err != nil {
			return driver.Outcome{}, err
		}
		t.Record.Phase("boot loader", "none: the instance's kernel and ramdisk come by the network, and mount root=UUID="+t.Facts[factRootUUID])
		return driver.Done(), switchInstance(ctx, t)
	}
	if partition := isPartition(t.Node); partition || t.Node.BootMode() == "uefi" {
		mode := ""
		switch {
		case driver.UEFIAsked(t.Node):
			mode = "uefi"
		case partition && t.Node.BootMode() == "bios":
			mode = "bios"
		}
		_, fixed := t.Hardware.Management().(driver.FixedBootOrder)
		p := bootLoader{RootUUID: t.Facts[factRootUUID], BootMode: mode, ESPUUID: t.Facts[factESPUUID], NetworkFirst: fixed}
		if t.Facts[factReadBack] != "" {
			p.SkipBlockDevices = t.Node.Properties["skip_block_devices"]
		}
		cmd, err := t.Agent.Call(ctx, t.Fence, t.WorkID+"/install_bootloader", agentapi.CmdInstallBoot, p)
		if err != nil {
			return driver.Outcome{}, fmt.Errorf("node %s: make the disk boot: %w", t.Node.Label(), err)
		}
		var made struct {
			Result string `json:"result"`
		}
		if err := json.Unmarshal(cmd.Result, &made); err == nil && made.Result != "" { // ironic-python-agent says nothing
			t.Record.Phase("boot entry", made.Result)
		}
	}
	return driver.Done(), prepareInstance(ctx, t)
}

// prepareInstance makes the machine boot its disk from now on.
func prepareInstance(ctx context.Context, t *driver.Task) error {
	if err := instancefiles.Forget(t); err != nil { // of an instance before
		return err
	}
	return switchInstance(ctx, t)
}

// switchInstance makes the machine boot its instance from now on, with secure boot where the instance asks for it.
func switchInstance(ctx context.Context, t *driver.Task) error {
	if err := driver.Prepares(ctx, t); err != nil {
		return err
	}
	if err := driver.SetSecureBoot(ctx, t, true); err != nil {
		return err
	}
	return t.Hardware.Boot().PrepareInstance(ctx, t)
}

func (i Interface) bootInstance(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
	if err := i.set.Bringup.IntoInstance(ctx, t, true); err != nil {
		return driver.Outcome{}, err
	}
	i.runs(t)
	return driver.Done(), nil
}

// runs tells that the instance was started.
func (Interface) runs(t *driver.Task) {
	t.Record.Phase("reboot", "into the instance, boot mode "+t.Node.BootMode())
}
