package fake

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/bootorder"
	"github.com/ironyard/ironyard/rackd/driver"
)

// ending is a step's handle: whoever goes on with the step knows when it ends.
type ending struct {
	Until time.Time `json:"until"`
}

// step makes a step that lasts its delay, then fails if it is told to, then does
// its effect (nil for none).
func (b base) step(name string, priority int, effect func(ctx context.Context, t *driver.Task) error) driver.Step {
	return driver.Step{Interface: b.kind, Name: name, Priority: priority, Kind: driver.Reattachable,
		Retries: 3, Pause: time.Second,
		Run: func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
			if left, err := b.remaining(ctx, t, name); err != nil {
				return driver.Outcome{}, err
			} else if left > 0 {
				return driver.Wait(left), nil
			}
			if err := failure(t.Node, name); err != nil {
				return driver.Outcome{}, err
			}
			if err := t.Fence.Check(); err != nil {
				return driver.Outcome{}, err
			}
			if effect != nil {
				if err := effect(ctx, t); err != nil {
					return driver.Outcome{}, err
				}
			}
			t.Record.Phase(name, "fake")
			return driver.Done(), nil
		}}
}

// remaining is how much of the step's delay is left; the first call starts it.
func (b base) remaining(ctx context.Context, t *driver.Task, name string) (time.Duration, error) {
	if raw := t.Record.Handle(); raw != nil {
		var h ending
		if err := json.Unmarshal(raw, &h); err != nil {
			return 0, fmt.Errorf("node %s: fake step %s: its handle %q cannot be read: %w", t.Node.Label(), name, raw, err)
		}
		return time.Until(h.Until), nil
	}
	d, set, err := delayOf(t.Node, "fake_"+name+"_delay")
	if err != nil {
		return 0, err
	}
	if !set {
		d = b.fleet.opts.DefaultDelay
	}
	if d <= 0 {
		return 0, nil
	}
	return d, t.Record.SaveHandle(ctx, ending{Until: time.Now().Add(d)})
}

// powered is an effect that leaves the machine in a power state.
func (b base) powered(target driver.PowerState) func(context.Context, *driver.Task) error {
	return func(ctx context.Context, t *driver.Task) error {
		return power{b}.SetPower(ctx, t.Fence, t.Node, target)
	}
}

type boot struct{ base }

func (boot) RamdiskOrder(n *node.Document, _ map[string]string) bootorder.Order {
	return bootorder.Refuse(fmt.Sprintf("Node %s has a fake boot interface, which boots nothing.", n.Label()))
}

func (boot) InstanceOrder(*node.Document, map[string]string) bootorder.Order {
	return bootorder.LocalDisk()
}

func (b boot) fact(ctx context.Context, t *driver.Task, method, value string) error {
	return b.use(ctx, t.Node, method, func(*machine) {
		if value == "" {
			delete(t.Facts, driver.FactBoot)
		} else if t.Facts != nil {
			t.Facts[driver.FactBoot] = value
		}
	})
}

func (b boot) PrepareRamdisk(ctx context.Context, t *driver.Task) error {
	return b.fact(ctx, t, "prepare_ramdisk", driver.BootRamdisk)
}

func (b boot) CleanUpRamdisk(ctx context.Context, t *driver.Task) error {
	return b.fact(ctx, t, "clean_up_ramdisk", "")
}

func (b boot) PrepareInstance(ctx context.Context, t *driver.Task) error {
	return b.fact(ctx, t, "prepare_instance", driver.BootInstance)
}

func (b boot) CleanUpInstance(ctx context.Context, t *driver.Task) error {
	return b.fact(ctx, t, "clean_up_instance", "")
}

type deploy struct{ base }

// ValidateWith checks what the instance's capabilities ask for, as real deploys do.
func (d deploy) ValidateWith(h *driver.Hardware, n *node.Document) error {
	return driver.ValidateInstance(h, n, "ramdisk")
}

// InstanceFields names what real deploys read of instance_info, which are played here.
func (deploy) InstanceFields() []string {
	return []string{"image_source", "image_checksum", "image_os_hash_algo", "image_os_hash_value", "image_disk_format", "root_device", "configdrive", "kernel", "ramdisk"}
}

// prepareInstance switches secure boot too, where the instance asks for it.
func (d deploy) prepareInstance(ctx context.Context, t *driver.Task) error {
	if err := driver.Prepares(ctx, t); err != nil {
		return err
	}
	if err := driver.SetSecureBoot(ctx, t, true); err != nil {
		return err
	}
	return boot(d).PrepareInstance(ctx, t)
}

// tearDown switches the machine off, empties its virtual drives, then switches secure boot off.
func (d deploy) tearDown(ctx context.Context, t *driver.Task) error {
	if err := d.powered(driver.PowerOff)(ctx, t); err != nil {
		return err
	}
	if err := driver.EmptyDrives(ctx, t); err != nil {
		return err
	}
	return driver.SetSecureBoot(ctx, t, false)
}

func (d deploy) DeploySteps(*node.Document) []driver.Step {
	steps := []driver.Step{
		d.step("deploy", 100, d.powered(driver.PowerOn)),
		d.step("write_image", 80, nil),
		d.step("prepare_instance_boot", 60, d.prepareInstance),
		d.step("tear_down_agent", 40, d.powered(driver.PowerOff)),
		d.step("boot_instance", 20, d.powered(driver.PowerOn)),
	}
	for i := range steps {
		steps[i].Abortable = true // as those of the interface that it plays
	}
	return steps
}

func (d deploy) TearDownSteps(*node.Document) []driver.Step {
	return []driver.Step{d.step("tear_down", 0, d.tearDown)}
}

type rescue struct{ base }

func (r rescue) RescueSteps(*node.Document) []driver.Step {
	return []driver.Step{r.step("rescue", 0, r.powered(driver.Rebooting))}
}

func (r rescue) UnrescueSteps(*node.Document) []driver.Step {
	return []driver.Step{r.step("unrescue", 0, r.powered(driver.Rebooting))}
}
