package ramdisk

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bringup"
	"github.com/ironyard/ironyard/rackd/driver/direct"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/instancefiles"
	"github.com/ironyard/ironyard/rackd/driver/mediaboot"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
)

var (
	_ driver.Deploy  = Interface{}
	_ driver.InBand  = Interface{}
	_ driver.Adopter = Interface{}
)

var files = map[string]any{"kernel": "http://192.0.2.1/k", "ramdisk": "http://192.0.2.1/r", "ramdisk_kernel_arguments": "console=ttyS0 a=b"}

// task is a task whose request brought no config drive.
func task(r *drivertest.Rig, boot driver.Boot) *driver.Task {
	t := r.Task(boot)
	t.ConfigDrive = func(context.Context) (string, error) { return "", nil }
	return t
}

func open() Interface { return New(direct.New(direct.Settings{}), bringup.Settings{}) }

// The machine asks the network at each start, and is told the files that the deploy was given: also by a rackd that has nothing but
// the node's document, and whatever lies at their addresses by then.
func TestBootsTheFilesEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := drivertest.NewRig()
		r.SetPowerState(driver.PowerOn)
		r.Node.InstanceInfo = files
		step := open().DeploySteps(r.Node)[0]
		for range 2 { // repeatable
			if _, err := step.Run(t.Context(), task(r, networkboot.IPXE())); err != nil {
				t.Fatal(err)
			}
		}
		if want := []string{"boot pxe true", "boot pxe true"}; !slices.Equal(r.Writes("boot"), want) {
			t.Errorf("boot devices %v", r.Writes("boot"))
		}
		if got := r.Writes("agent"); len(got) != 0 {
			t.Errorf("an agent was told %v", got)
		}
		later := *r.Node
		later.InstanceFiles = r.Observed.InstanceFiles
		for name, o := range map[string]struct {
			n     *node.Document
			facts map[string]string
		}{"in the flow": {r.Node, task(r, networkboot.IPXE()).Facts}, "after it": {&later, nil}} {
			load := networkboot.IPXE().InstanceOrder(o.n, o.facts).Load
			if load == nil || !load.Instance || load.Kernel.ID != "id of http://192.0.2.1/k" || load.Initramfs.ID != "id of http://192.0.2.1/r" || !load.Kernel.Kept ||
				!slices.Equal(load.Params, []string{"root=/dev/ram0", "text", "console=ttyS0", "a=b"}) {
				t.Errorf("%s the machine loads %+v", name, load)
			}
		}
	})
}

// An image of a CD is read over the network; with a deploy of another kind the node forgets it.
func TestBootsAnImage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := drivertest.NewRig()
		r.Node.InstanceInfo = map[string]any{"boot_iso": "http://192.0.2.1/i.iso"}
		if _, err := open().DeploySteps(r.Node)[0].Run(t.Context(), task(r, networkboot.PXE())); err != nil {
			t.Fatal(err)
		}
		o := networkboot.PXE().InstanceOrder(r.Node, task(r, networkboot.PXE()).Facts)
		if o.Image == nil || o.Image.ID != "id of http://192.0.2.1/i.iso" || !o.OverTFTP {
			t.Errorf("%+v", o)
		}
	})
}

// A file that cannot be had fails the deploy before the machine is touched.
func TestFetchesFirst(t *testing.T) {
	r := drivertest.NewRig()
	r.Node.InstanceInfo = files
	r.Fail = func(call string) error {
		if call == "latest http://192.0.2.1/r" {
			return driver.ErrUnreachable
		}
		return nil
	}
	if _, err := open().DeploySteps(r.Node)[0].Run(t.Context(), task(r, networkboot.IPXE())); !errors.Is(err, driver.ErrUnreachable) || len(r.Log) != 0 {
		t.Errorf("%v, writes %v", err, r.Log)
	}
}

// What the machine boots is noted in the checkpoint before the BMC is told, and not before that: a rackd that takes over from one that died
// while it fetched files leaves the machine alone.
func TestNotesBeforeItTellsTheMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, staysOn := range []bool{false, true} {
			r := drivertest.NewRig()
			r.Node.InstanceInfo, r.Node.DisablePowerOff = files, staysOn
			r.SetPowerState(driver.PowerOn)
			task := task(r, networkboot.IPXE())
			var noted []string // what was written when the fact was saved
			r.Fail = func(call string) error {
				switch {
				case strings.HasPrefix(call, "latest") && task.Facts[driver.FactPrepared] != "":
					t.Errorf("noted before %s", call)
				case call == "save" && noted == nil && task.Facts[driver.FactPrepared] != "":
					noted = append([]string{"noted"}, r.Log...)
				}
				return nil
			}
			if _, err := open().DeploySteps(r.Node)[0].Run(t.Context(), task); err != nil && !staysOn { // the rig has no reset
				t.Fatal(err)
			}
			want := []string{"noted", "power power off"}
			if staysOn {
				want = want[:1]
			}
			if !slices.Equal(noted, want) {
				t.Errorf("stays on %t: %q, want %q; writes %q", staysOn, noted, want, r.Log)
			}
		}
	})
}

// badMedia boots from media that rackds make, of files of which none can be made.
type badMedia struct {
	driver.Boot
	driver.InstanceMediumMaker
}

func (badMedia) ValidateInstanceFiles(*node.Document) error { return nil }
func (badMedia) ReadyInstance(ctx context.Context, t *driver.Task) error {
	return errors.Join(instancefiles.FetchForMedium(ctx, t, ""), driver.ErrInvalid)
}

// A rebuild sends the machine nothing where its files are no good, or the BMC does not answer. The instance of before runs on then. It
// boots its own files at its next start, in this rackd's eyes and in central's.
func TestAFailedRebuildLeavesTheFilesOfTheInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			boot    driver.Boot
			broken  string
			staysOn bool
			want    error
		}{
			"a file cannot be had":                         {networkboot.IPXE(), "latest http://192.0.2.1/r", false, driver.ErrUnreachable},
			"the BMC of a machine that stays on is silent": {networkboot.IPXE(), "power_state", true, driver.ErrUnreachable},
			"no medium can be made of the files":           {badMedia{Boot: networkboot.IPXE()}, "", false, driver.ErrInvalid},
		} {
			r := drivertest.NewRig()
			r.Node.InstanceInfo, r.Node.DisablePowerOff = files, c.staysOn
			r.Node.InstanceFiles = map[string]string{"kernel": "old kernel", "ramdisk": "old ramdisk"}
			r.SetPowerState(driver.PowerOn)
			r.Fail = func(call string) error {
				if call == c.broken {
					return driver.ErrUnreachable
				}
				return nil
			}
			task := task(r, c.boot)
			if _, err := open().DeploySteps(r.Node)[0].Run(t.Context(), task); !errors.Is(err, c.want) || len(r.Log) != 0 {
				t.Errorf("%s: %v, writes %v", name, err, r.Log)
			}
			load := networkboot.IPXE().InstanceOrder(r.Node, task.Facts).Load
			if load == nil || load.Kernel.ID != "old kernel" || r.Observed.InstanceFiles != nil || task.Facts[driver.FactPrepared] != "" {
				t.Errorf("%s: the machine loads %+v, central is told %v, facts %v", name, load, r.Observed.InstanceFiles, task.Facts)
			}
		}
	})
}

// bootless boots no instance.
type bootless struct{ driver.Boot }

// A boot interface that boots disks alone is refused before the machine is touched.
func TestNeedsABootInterface(t *testing.T) {
	r := drivertest.NewRig()
	b := bootless{networkboot.IPXE()}
	_, err := open().DeploySteps(r.Node)[0].Run(t.Context(), task(r, b))
	if !errors.Is(err, driver.ErrUnsupported) || len(r.Log) != 0 {
		t.Errorf("%v, writes %v", err, r.Log)
	}
	if err := open().ValidateWith(task(r, b).Hardware, r.Node); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "`ramdisk_boot` capability") {
		t.Errorf("with a boot interface that boots disks: %v", err)
	}
}

// A config drive reaches an instance without a disk by virtual media alone. By any other way it is refused before the machine is touched.
// It refuses one, too, that came after the node was judged.
func TestAConfigDriveThatWouldNotArriveIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		boot    driver.Boot
		arrives bool
	}{"ipxe": {networkboot.IPXE(), false}, "pxe": {networkboot.PXE(), false}, "redfish-https": {mediaboot.HTTPBoot(nil), false}, "redfish-virtual-media": {mediaboot.VirtualMedia(nil), true}} {
		r := drivertest.NewRig()
		r.Node.InstanceInfo = map[string]any{"boot_iso": "http://192.0.2.1/i.iso", "configdrive": "kept"}
		r.Node.Properties = map[string]any{"capabilities": "boot_mode:uefi"}
		if err := open().ValidateWith(task(r, c.boot).Hardware, r.Node); (err == nil) != c.arrives || err != nil && (!errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "configdrive")) {
			t.Errorf("%s: validate: %v", name, err)
		}
		if c.arrives {
			continue
		}
		if _, err := open().DeploySteps(r.Node)[0].Run(t.Context(), r.Task(c.boot)); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "configdrive") || len(r.Log) != 0 {
			t.Errorf("%s: deploy: %v, writes %v", name, err, r.Log)
		}
	}
}

func TestValidate(t *testing.T) {
	const k, rd, iso = "http://192.0.2.1/k", "http://192.0.2.1/r", "http://192.0.2.1/i.iso"
	for _, c := range []struct {
		info map[string]any
		want string
	}{
		{map[string]any{"kernel": k, "ramdisk": rd}, ""},
		{map[string]any{"kernel": "tftp://192.0.2.1/k", "ramdisk": "file:///srv/r"}, ""},
		{map[string]any{"boot_iso": iso}, ""},
		{map[string]any{"boot_iso": iso, "capabilities": `{"boot_option": "ramdisk"}`}, ""},
		{map[string]any{"boot_iso": iso, "capabilities": "boot_option:netboot"}, ""},
		{map[string]any{"boot_iso": iso, "capabilities": "boot_option:kickstart"}, "boot_option"},
		{nil, "Missing are: ['kernel', 'ramdisk']"},
		{map[string]any{"kernel": k}, "Missing are: ['ramdisk']"},
		{map[string]any{"image_source": "http://192.0.2.1/i"}, "no image service is asked"},
		{map[string]any{"boot_iso": iso, "image_source": "x"}, "An 'image_source' and 'boot_iso' parameter may not be specified at the same time"},
		{map[string]any{"boot_iso": iso, "kernel": k}, "remove one of them"},
		{map[string]any{"boot_iso": "tftp://192.0.2.1/i"}, "no drive can be read"},
		{map[string]any{"boot_iso": "0f6d1c1e-9d5e-4bdb-a2a2-3c9d21c0a001"}, "Glance"},
		{map[string]any{"kernel": "http://u:secret@192.0.2.1/k", "ramdisk": rd}, "user name"},
		{map[string]any{"kernel": k, "ramdisk": rd, "ramdisk_kernel_arguments": []any{"a"}}, "give a text"},
		{map[string]any{"kernel": k, "ramdisk": rd, "ramdisk_kernel_arguments": strings.Repeat("a", 801)}, "801 bytes"},
		{map[string]any{"kernel": k, "ramdisk": rd, "ramdisk_kernel_arguments": `a="b`}, "quote"},
		{map[string]any{"kernel": k, "ramdisk": rd, "ramdisk_kernel_arguments": "a=$b"}, `holds "$"`},
	} {
		r := drivertest.NewRig()
		r.Node.InstanceInfo = c.info
		err := open().ValidateWith(task(r, networkboot.IPXE()).Hardware, r.Node)
		if (err == nil) != (c.want == "") || err != nil && (!errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%v: %v, want %q", c.info, err, c.want)
		}
	}
}

// What an adopted node's instance boots is brought into the cache; its machine is told nothing.
func TestTakeOver(t *testing.T) {
	r := drivertest.NewRig()
	r.Node.InstanceInfo = files
	if err := open().TakeOver(t.Context(), task(r, networkboot.IPXE())); err != nil || len(r.Log) != 0 || r.Observed.InstanceFiles["kernel"] != "id of http://192.0.2.1/k" {
		t.Errorf("%v, writes %v, told %v", err, r.Log, r.Observed.InstanceFiles)
	}
}

func TestSupports(t *testing.T) {
	for _, c := range []struct {
		info map[string]any
		want bool
	}{
		{files, false},
		{map[string]any{"kernel": "k", "ramdisk": "r", instancefiles.Sentinel: true}, true},
		{map[string]any{"kernel": "k", instancefiles.Sentinel: true}, false},
		{map[string]any{"boot_iso": "i", instancefiles.Sentinel: "true"}, true},
		{map[string]any{"boot_iso": "i", instancefiles.Sentinel: false}, false},
	} {
		if got := open().Supports(&node.Document{InstanceInfo: c.info}); got != c.want {
			t.Errorf("%v: %t", c.info, got)
		}
	}
}
