package direct

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/mediaboot"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
)

const volumeSecret = "a secret of a volume"

// firmware is a management interface whose machine's firmware attaches volumes. It shows the volume as a boot device after so many
// orders to boot it.
type firmware struct {
	driver.Management
	driver.VirtualMedia
	target        *driver.ISCSITarget
	hidden        int
	log           []string
	deviceRefused error
	kept          error // what it says of a target that it forgets in part
	room          driver.ISCSIRoom
	start         func() driver.Start // nil: the BMC does not tell
	mode          string              // the boot mode that it shows; empty: that of the fake
}

func (f *firmware) BootMode(ctx context.Context, n *node.Document) (string, error) {
	if f.mode != "" {
		return f.mode, nil
	}
	return f.Management.BootMode(ctx, n)
}

func (f *firmware) Start(context.Context, *node.Document) (driver.Start, error) {
	if f.start == nil {
		return driver.StartUntold, nil
	}
	return f.start(), nil
}

func (f *firmware) ISCSIRoom() driver.ISCSIRoom { return f.room }

func (f *firmware) ISCSIBoot(context.Context, *node.Document) (list []driver.ISCSITarget, err error) {
	if f.target != nil {
		list = append(list, *f.target)
	}
	return list, nil
}

func (f *firmware) SetISCSIBoot(_ context.Context, fence driver.Fence, n *node.Document, t driver.ISCSITarget) error {
	f.log = append(f.log, fmt.Sprintf("set %s:%d %d %s by %s", t.Host, t.Port, t.LUN, t.IQN, t.Initiator))
	f.target = &t
	return fence.Check()
}

func (f *firmware) ClearISCSIBoot(_ context.Context, fence driver.Fence, _ *node.Document) error {
	f.log = append(f.log, "clear")
	f.target = nil
	if err := fence.Check(); err != nil {
		return err
	}
	return f.kept
}

func (f *firmware) SetBootDevice(_ context.Context, _ driver.Fence, _ *node.Document, d driver.BootDevice, persistent bool) error {
	f.log = append(f.log, fmt.Sprintf("boot %s %t", d, persistent))
	if d == driver.BootISCSI {
		if f.hidden--; f.hidden >= 0 {
			return fmt.Errorf("no such device: %w", driver.ErrUnsupported)
		}
		return f.deviceRefused
	}
	return nil
}

// volumed is a task on a node that boots from a volume.
func volumed(t *testing.T, boot driver.Boot, mode string) (*drivertest.Rig, *driver.Task, *firmware) {
	t.Helper()
	r := newRig()
	f := &firmware{}
	task := withMedia(t, r, boot, func(m driver.Management) driver.Management {
		f.Management, f.VirtualMedia = m, m.(driver.VirtualMedia)
		return f
	})
	r.Node.Interfaces = map[string]string{"storage": "external"}
	r.Node.InstanceInfo = map[string]any{}
	r.Node.Properties = map[string]any{"capabilities": "boot_mode:" + mode}
	r.Node.Connectors = []node.Connector{{Type: "iqn", ID: "iqn.2026-11.org.example:m1"}}
	r.Node.Targets = []node.Target{{UUID: "t", Type: "iscsi", Properties: map[string]any{"target_iqn": "iqn.2026-11.org.example:boot", "target_portal": "10.0.0.9:3260",
		"target_lun": 1.0, "auth_username": "m1", "auth_password": volumeSecret}}}
	task.ConfigDrive = func(context.Context) (string, error) { return "", nil }
	return r, task, f
}

// walk runs steps until the last is done.
func walk(t *testing.T, r *drivertest.Rig, task *driver.Task, steps []driver.Step) (waits int, err error) {
	t.Helper()
	for _, s := range steps {
		r.NextStep()
		for {
			out, err := s.Run(t.Context(), task)
			if err != nil {
				return waits, err
			}
			if out == driver.Done() {
				break
			}
			waits++
			time.Sleep(devicePoll)
		}
	}
	return waits, nil
}

const setIt = "set 10.0.0.9:3260 1 iqn.2026-11.org.example:boot by iqn.2026-11.org.example:m1"

// A node with a bootable volume is deployed without image, ramdisk and agent, by iPXE or by its firmware. An undeploy leaves nothing
// in the firmware.
func TestVolumesAreBooted(t *testing.T) {
	for _, c := range []struct {
		name   string
		boot   driver.Boot
		mode   string
		hidden int
		want   []string // deploy
		byIPXE bool
		clears bool
	}{
		{"ipxe bios", networkboot.IPXE(), "bios", 0, []string{"boot pxe true"}, true, false},
		{"ipxe uefi", networkboot.IPXE(), "uefi", 0, []string{"boot pxe true"}, true, false},
		{"ilo-pxe bios", networkboot.PXE().ByFirmware(), "bios", 0, []string{"boot pxe true"}, true, true},
		{"ilo-pxe uefi", networkboot.PXE().ByFirmware(), "uefi", 0, []string{setIt, "boot iscsiboot true"}, false, true},
		{"virtual media", mediaboot.VirtualMedia(nil), "uefi", 0, []string{setIt, "boot iscsiboot true"}, false, true},
		{"shown later", mediaboot.VirtualMedia(nil), "uefi", 3, []string{setIt, "boot iscsiboot true", "boot iscsiboot true", "boot iscsiboot true", "boot iscsiboot true"}, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, task, f := volumed(t, c.boot, c.mode)
				f.hidden = c.hidden
				i := New(Settings{})
				if err := errors.Join(i.Validate(r.Node), c.boot.(driver.VolumeBooter).ValidateVolume(task.Hardware, r.Node)); err != nil {
					t.Fatal(err)
				}
				if o := c.boot.InstanceOrder(r.Node, nil); (o.Volumes != nil) != c.byIPXE || o.Disk == c.byIPXE || o.ByFirmware == c.byIPXE {
					t.Errorf("the machine is told %+v", o)
				}
				steps := i.DeploySteps(r.Node)
				for _, s := range steps {
					if s.Boots || s.Discovers {
						t.Errorf("step %s wants the ramdisk", s.Name)
					}
				}
				waits, err := walk(t, r, task, steps)
				if err != nil || (waits > 0) != (c.hidden > 0) {
					t.Fatalf("%d waits, %v", waits, err)
				}
				if !slices.Equal(f.log, c.want) {
					t.Errorf("writes %q, want %q", f.log, c.want)
				}
				if is, err := task.Hardware.Power().PowerState(t.Context(), r.Node); err != nil || is != driver.PowerOn || task.Facts[driver.FactBoot] != driver.BootInstance {
					t.Errorf("power %s, %v, facts %v", is, err, task.Facts)
				}
				f.log = nil
				r.Node.Targets = r.Node.Targets[:1]
				if _, err := walk(t, r, task, i.TearDownSteps(r.Node)); err != nil {
					t.Fatal(err)
				}
				if cleared := slices.Contains(f.log, "clear"); cleared != c.clears || f.target != nil {
					t.Errorf("undeployed: writes %q, target %t", f.log, f.target != nil)
				}
				if slices.Contains(f.log, "boot disk true") == c.byIPXE {
					t.Errorf("undeployed: writes %q", f.log)
				}
				if told := fmt.Sprint(r.Phases, task.Facts); strings.Contains(told, volumeSecret) {
					t.Errorf("the secret is told: %s", told)
				}
			})
		})
	}
}

// What an instance asks of a disk that is written, and would not get of a volume, is refused by name.
func TestAVolumeIsNotLaidOut(t *testing.T) {
	r, task, _ := volumed(t, networkboot.IPXE(), "bios")
	for field, value := range map[string]any{"": nil, "swap_mb": "0", "root_gb": "10", "!swap_mb": 512, "!ephemeral_gb": 1, "!kernel": "http://h/k", "!capabilities": "disk_label:gpt", "!ramdisk": "http://h/r"} {
		name, refused := strings.CutPrefix(field, "!")
		r.Node.InstanceInfo = map[string]any{name: value, "image_type": "partition"}
		err := New(Settings{}).ValidateWith(task.Hardware, r.Node)
		if (err != nil) != refused || refused && (!errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "boots from a volume")) {
			t.Errorf("%s: %v: %v", name, value, err)
		}
	}
}

// The machine of a node that asks for no boot mode keeps its own, which shows in the deploy. In BIOS mode nothing is given to the firmware.
func TestVolumesInTheModeOfTheMachine(t *testing.T) {
	byFirmware := []string{setIt, "boot iscsiboot true"}
	for _, c := range []struct {
		name, finds string
		boot        driver.Boot
		want        []string
		refused     bool
	}{
		{"virtual media", "bios", mediaboot.VirtualMedia(nil), nil, true},
		{"virtual media", "uefi", mediaboot.VirtualMedia(nil), byFirmware, false},
		{"ilo-pxe", "bios", networkboot.PXE().ByFirmware(), []string{"boot pxe true"}, false},
		{"ilo-pxe", "uefi", networkboot.PXE().ByFirmware(), byFirmware, false},
		{"ipxe", "bios", networkboot.IPXE(), []string{"boot pxe true"}, false},
	} {
		t.Run(c.name+" "+c.finds, func(t *testing.T) {
			r, task, f := volumed(t, c.boot, "uefi")
			r.Node.Properties, f.mode = nil, c.finds
			if err := c.boot.(driver.VolumeBooter).ValidateVolume(task.Hardware, r.Node); err != nil {
				t.Fatal(err)
			}
			_, err := walk(t, r, task, New(Settings{}).DeploySteps(r.Node))
			if (err != nil) != c.refused || c.refused && (!errors.Is(err, driver.ErrInvalid) || err.Error() != "virtual media can not boot volume in bios mode.") {
				t.Errorf("%v", err)
			}
			if !slices.Equal(f.log, c.want) {
				t.Errorf("writes %q, want %q", f.log, c.want)
			}
			if is, err := task.Hardware.Power().PowerState(t.Context(), r.Node); err != nil || (is == driver.PowerOn) == c.refused {
				t.Errorf("the machine is %s, %v", is, err)
			}
		})
	}
}

// A volume that has gone from the node, or an image in its place, does not leave the target in the firmware.
func TestFirmwareIsClearedOfWhatTheNodeNoLongerHas(t *testing.T) {
	_, task, f := volumed(t, mediaboot.VirtualMedia(nil), "uefi")
	boot := mediaboot.VirtualMedia(nil)
	f.target = &driver.ISCSITarget{}
	task.Node.Targets, task.Node.BootSet = nil, string(driver.BootISCSI)
	if err := boot.PrepareInstance(t.Context(), task); err != nil || f.target != nil {
		t.Errorf("an image in its place: %v, writes %q", err, f.log)
	}
	for name, b := range map[string]driver.Boot{"virtual media": boot, "ilo-pxe": networkboot.PXE().ByFirmware()} {
		f.target, f.log = &driver.ISCSITarget{}, nil
		if err := b.CleanUpInstance(t.Context(), task); err != nil || f.target != nil || !slices.Contains(f.log, "boot disk true") {
			t.Errorf("%s, no instance in its place: %v, writes %q", name, err, f.log)
		}
	}
	f.log, task.Node.BootSet, task.Node.Interfaces = nil, string(driver.BootDisk), map[string]string{"storage": "noop"}
	if err := boot.CleanUpInstance(t.Context(), task); err != nil || slices.Contains(f.log, "clear") {
		t.Errorf("never from a volume: %v, writes %q", err, f.log)
	}
}

// The device that the firmware shows late counts from the next start. A BMC that is silent when the machine is to be switched off for it
// is asked again: the machine that ran before has booted something else.
func TestTheMachineIsStartedAgainAfterItsBMCWasSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, task, f := volumed(t, mediaboot.VirtualMedia(nil), "uefi")
		f.hidden = 1
		steps := New(Settings{}).DeploySteps(r.Node)
		if _, err := walk(t, r, task, steps[:len(steps)-1]); err != nil {
			t.Fatal(err)
		}
		r.NextStep()
		run, fence := steps[len(steps)-1].Run, task.Fence
		task.Fence = unheard{fence, func() bool { return f.hidden < 0 }} // from the order of the device on
		if _, err := run(t.Context(), task); !errors.Is(err, driver.ErrUnreachable) || f.hidden >= 0 {
			t.Fatalf("the BMC is silent: %v", err)
		}
		task.Fence = fence
		for _, want := range []driver.PowerState{driver.PowerOff, driver.PowerOn} {
			if out, err := run(t.Context(), task); err != nil || (out == driver.Done()) != (want == driver.PowerOn) {
				t.Fatalf("%+v, %v", out, err)
			}
			if is, err := task.Hardware.Power().PowerState(t.Context(), r.Node); err != nil || is != want {
				t.Errorf("the machine is %s, want %s: %v", is, want, err)
			}
		}
	})
}

// unheard is a fence behind which no write reaches the BMC while silent says so.
type unheard struct {
	driver.Fence
	silent func() bool
}

func (u unheard) Check() error {
	if u.silent() {
		return driver.ErrUnreachable
	}
	return u.Fence.Check()
}

// A deploy whose firmware never shows the volume fails. Its end takes the target from the firmware, and may be called again.
func TestAVolumeThatNeverShowsIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, task, f := volumed(t, mediaboot.VirtualMedia(nil), "uefi")
		f.hidden = 1 << 30
		var noted []string // what the firmware had been told when the checkpoint said that it would be
		r.Fail = func(call string) error {
			if call == "save" && noted == nil && task.Facts[driver.FactPrepared] != "" {
				noted = append([]string{"noted"}, f.log...)
			}
			return nil
		}
		_, err := walk(t, r, task, New(Settings{}).DeploySteps(r.Node))
		if err == nil || !strings.Contains(err.Error(), "the firmware did not log in") || !strings.Contains(err.Error(), "auth_password") || strings.Contains(err.Error(), volumeSecret) {
			t.Errorf("%v", err)
		}
		if f.target == nil || !slices.Equal(noted, []string{"noted"}) {
			t.Fatalf("target %v, %q", f.target, noted)
		}
		for range 2 {
			f.log = nil
			if err := driver.TakeBackInstance(t.Context(), task); err != nil || f.target != nil || f.log[len(f.log)-1] != "boot disk true" || task.Facts[driver.FactBoot] != "" {
				t.Errorf("taken back: %v, writes %q, facts %v", err, f.log, task.Facts)
			}
		}
	})
}

// A BMC that does not forget an account is told of in the history. Asking it once more changes nothing, so the rest is done.
func TestATargetThatIsKeptIsTold(t *testing.T) {
	r, task, f := volumed(t, mediaboot.VirtualMedia(nil), "uefi")
	f.kept = fmt.Errorf("its function 1 still has CHAPUsername: %w", driver.ErrTargetKept)
	if err := driver.TakeBackInstance(t.Context(), task); err != nil || f.log[len(f.log)-1] != "boot disk true" {
		t.Errorf("%v, writes %q", err, f.log)
	}
	if told := strings.Join(r.Phases, "\n"); !strings.Contains(told, "CHAPUsername") {
		t.Errorf("the history says %q", told)
	}
}

// A firmware that never shows the volume has not logged in: the deploy fails, and says what to look at. It does so shortly after the BMC
// has said that the firmware looks for a system. What the BMC says of the start before does not count.
func TestFirmwareThatDoesNotLogIn(t *testing.T) {
	off := func(far driver.Start, after time.Duration) func() driver.Start {
		began := time.Now()
		return func() driver.Start {
			if time.Since(began) < after {
				return far
			}
			return driver.PastFirmware
		}
	}
	for name, c := range map[string]struct {
		start func() func() driver.Start
		least time.Duration
		most  time.Duration
	}{
		"untold":                      {nil, 10 * time.Minute, 11 * time.Minute},
		"past firmware after minutes": {func() func() driver.Start { return off(driver.InFirmware, 4*time.Minute) }, 6 * time.Minute, 7 * time.Minute},
		"told once it is off":         {func() func() driver.Start { return off(driver.InFirmware, time.Millisecond) }, 2 * time.Minute, 3 * time.Minute},
		"of the start before":         {func() func() driver.Start { return off(driver.PastFirmware, 0) }, 10 * time.Minute, 11 * time.Minute},
		"in firmware for good":        {func() func() driver.Start { return off(driver.InFirmware, time.Hour) }, 10 * time.Minute, 11 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, task, f := volumed(t, mediaboot.VirtualMedia(nil), "uefi")
				f.hidden = 1 << 30
				if c.start != nil {
					f.start = c.start()
				}
				began := time.Now()
				_, err := walk(t, r, task, New(Settings{}).DeploySteps(r.Node))
				if took := time.Since(began); took < c.least || took > c.most {
					t.Errorf("it fails after %s, want %s to %s", took, c.least, c.most)
				}
				for _, word := range []string{"the firmware did not log in", "target_portal 10.0.0.9:3260", "target_iqn iqn.2026-11.org.example:boot", "initiator iqn.2026-11.org.example:m1", "auth_username m1 and auth_password"} {
					if err == nil || !strings.Contains(err.Error(), word) || strings.Contains(err.Error(), volumeSecret) {
						t.Errorf("%v lacks %q, or tells the secret", err, word)
					}
				}
			})
		})
	}
}

// A drive that does not open fails the tear-down, and keeps no volume in the firmware.
func TestATearDownTakesBackWhatItCan(t *testing.T) {
	r, task, f := volumed(t, mediaboot.VirtualMedia(nil), "uefi")
	if err := mediaboot.VirtualMedia(nil).PrepareInstance(t.Context(), task); err != nil || f.target == nil {
		t.Fatal(err)
	}
	f.VirtualMedia = &media{stays: 100, detach: driver.ErrDenied}
	_, err := walk(t, r, task, New(Settings{}).TearDownSteps(r.Node))
	if !errors.Is(err, driver.ErrDenied) || f.target != nil || f.log[len(f.log)-1] != "boot disk true" {
		t.Errorf("%v; writes %q", err, f.log)
	}
}

// Where the boot device is refused the firmware keeps no target.
func TestTargetsGoWhereTheBootDeviceIsRefused(t *testing.T) {
	_, task, f := volumed(t, mediaboot.VirtualMedia(nil), "uefi")
	f.deviceRefused = driver.ErrDenied
	if err := mediaboot.VirtualMedia(nil).PrepareInstance(t.Context(), task); !errors.Is(err, driver.ErrDenied) || f.target != nil {
		t.Errorf("%v, writes %q", err, f.log)
	}
}

func TestVolumesThatCannotBeBooted(t *testing.T) {
	r, task, _ := volumed(t, mediaboot.VirtualMedia(nil), "bios")
	const words = "virtual media can not boot volume in bios mode."
	if err := mediaboot.VirtualMedia(nil).ValidateVolume(task.Hardware, r.Node); err == nil || err.Error() != words {
		t.Errorf("validated: %v", err)
	}
	if _, err := walk(t, r, task, New(Settings{}).DeploySteps(r.Node)); err == nil || err.Error() != words {
		t.Errorf("deployed: %v", err)
	}
	r.Node.InstanceInfo["configdrive"] = "ZHJpdmU="
	if err := New(Settings{}).Validate(r.Node); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "configdrive") {
		t.Errorf("a config drive: %v", err)
	}
	task.ConfigDrive = func(context.Context) (string, error) { return "ZHJpdmU=", nil }
	if _, err := walk(t, r, task, New(Settings{}).DeploySteps(r.Node)); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "configdrive") {
		t.Errorf("a config drive of the request: %v", err)
	}
	r.Node.Properties = map[string]any{"capabilities": "boot_mode:uefi"}
	r.Node.Targets = append(r.Node.Targets, node.Target{UUID: "d", Type: "iscsi", BootIndex: 1, Properties: r.Node.Targets[0].Properties})
	if err := mediaboot.VirtualMedia(nil).ValidateVolume(task.Hardware, r.Node); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "2 volume targets") {
		t.Errorf("two volumes: %v", err)
	}
	if o := networkboot.IPXE().InstanceOrder(r.Node, nil); o.Volumes == nil || len(o.Volumes.List) != 2 || o.Name != "volume" {
		t.Errorf("two volumes by iPXE: %+v", o)
	}
	r.Node.Targets = r.Node.Targets[:1]
	r.Node.Targets[0].Properties["target_portal"] = "san.example:3260"
	if err := mediaboot.VirtualMedia(nil).ValidateVolume(task.Hardware, r.Node); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), `the name "san.example"`) {
		t.Errorf("a portal with a name: %v", err)
	}
	if o := networkboot.IPXE().InstanceOrder(r.Node, nil); o.Volumes == nil {
		t.Errorf("a portal with a name by iPXE: %+v", o)
	}
}
