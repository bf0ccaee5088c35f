package mediaboot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/configdrive"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/agentrescue"
	"github.com/ironyard/ironyard/rackd/driver/bringup"
	"github.com/ironyard/ironyard/rackd/driver/direct"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/fake"
	"github.com/ironyard/ironyard/rackd/driver/ramdisk"
)

var _ driver.InstanceMediumMaker = Interface{}

const cd, stick = "http://192.0.2.5:8080/media/5f0c/secret-w1/boot.iso", "http://192.0.2.5:8080/media/5f0c/secret-w1/configdrive.img"

// bmc are virtual drives of some types, as a Redfish BMC has them.
type bmc struct {
	driver.Management
	types  []string // of each drive, divided by slashes
	in     map[int]string
	writes []string
	shows  map[string]string // other names of images
	// problem is why the machine cannot read what is in its second drive.
	problem string
}

func (b *bmc) Media(context.Context, *node.Document) (list []hardware.Media, err error) {
	for i, types := range b.types {
		list = append(list, hardware.Media{Types: strings.Split(types, "/"), Inserted: b.in[i] != "", Image: b.in[i]})
		if i == 1 {
			list[i].Problem = b.problem
		}
	}
	return list, nil
}

func (b *bmc) of(kind string) (fits []int) {
	shown := map[string][]string{"cdrom": {"CD", "DVD"}, "disk": {"USBStick"}, "floppy": {"Floppy"}}[kind]
	for i, types := range b.types {
		if slices.ContainsFunc(shown, func(s string) bool { return slices.Contains(strings.Split(types, "/"), s) }) {
			fits = append(fits, i)
		}
	}
	return fits
}

func (b *bmc) AttachMedia(_ context.Context, f driver.Fence, _ *node.Document, kind, url string) error {
	fits := b.of(kind)
	if len(fits) == 0 {
		return driver.ErrUnsupported
	}
	to := fits[0]
	for _, i := range slices.Backward(fits) {
		if b.in[i] == "" {
			to = i
		}
	}
	for _, i := range fits {
		if b.in[i] == url {
			return nil
		}
	}
	b.in[to], b.writes = cmp.Or(b.shows[url], url), append(b.writes, "insert "+kind+" "+url)
	return f.Check()
}

func (b *bmc) DetachMedia(_ context.Context, f driver.Fence, _ *node.Document, types []string) error {
	for _, kind := range types {
		for _, i := range b.of(kind) {
			delete(b.in, i)
		}
	}
	return f.Check()
}

func (b *bmc) EjectImage(_ context.Context, f driver.Fence, _ *node.Document, kind string, meant func(string) bool) error {
	for _, i := range b.of(kind) {
		if b.in[i] != "" && meant(b.in[i]) {
			b.writes = append(b.writes, "eject "+kind+" "+b.in[i])
			delete(b.in, i)
		}
	}
	return f.Check()
}

// instanceTask is work on a machine with those drives and the files of an instance, which drive accompanies.
func instanceTask(t *testing.T, info map[string]any, drive string, types ...string) (*drivertest.Rig, *driver.Task, *bmc, *server) {
	t.Helper()
	r := drivertest.NewRig()
	r.Node.InstanceInfo, r.Node.Interfaces = info, nil
	k := r.Task(VirtualMedia(fine))
	b := &bmc{types: types, in: map[int]string{}}
	kind := fake.New(fake.Options{}).Type()
	b.Management = kind.Interfaces["management"][0].Impl.(driver.Management)
	kind.Interfaces["management"] = []driver.Named{{Name: "fake", Impl: b}}
	kind.Interfaces["boot"] = []driver.Named{{Name: "redfish-virtual-media", Impl: VirtualMedia(fine)}}
	kind.Interfaces["power"] = []driver.Named{{Name: "noted", Impl: k.Hardware.Power()}}
	reg, err := driver.NewRegistry(kind)
	if err != nil {
		t.Fatal(err)
	}
	r.Node.Driver, r.Node.Interfaces = kind.Name, nil
	if k.Hardware, err = reg.Resolve(r.Node); err != nil {
		t.Fatal(err)
	}
	s := &server{alive: true}
	r.Node.Interfaces = map[string]string{"deploy": "ramdisk"}
	k.Node, k.Media = r.Node, s
	k.ConfigDrive = func(context.Context) (string, error) { return drive, nil }
	return r, k, b, s
}

func ownFiles() map[string]any {
	return map[string]any{"kernel": "http://192.0.2.1/k", "ramdisk": "http://192.0.2.1/r", "ramdisk_kernel_arguments": "console=ttyS0"}
}

func aDrive(t *testing.T) string {
	t.Helper()
	text, err := configdrive.Build(t.Context(), nil, `{"user_data":"secret"}`, configdrive.Defaults{UUID: "u"})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// The medium of kernel and ramdisk is in the drive for all starts, and the config drive in a second one. A later owner leaves them there.
// The end of the instance takes them out, and neither history nor facts hold an address.
func TestInstanceFromItsMedia(t *testing.T) {
	for name, c := range map[string]struct {
		info   map[string]any
		drive  bool
		types  []string
		writes []string
	}{
		"kernel and ramdisk":          {ownFiles(), false, []string{"CD/DVD"}, []string{"insert cdrom " + cd}},
		"with a config drive":         {ownFiles(), true, []string{"CD/DVD", "USBStick"}, []string{"insert disk " + stick, "insert cdrom " + cd}},
		"in a floppy":                 {ownFiles(), true, []string{"Floppy", "CD"}, []string{"insert floppy " + stick, "insert cdrom " + cd}},
		"in one of two that take all": {ownFiles(), true, []string{"CD/USBStick", "CD/USBStick"}, []string{"insert disk " + stick, "insert cdrom " + cd}},
		"an image with a config drive": {map[string]any{"boot_iso": instanceISO}, true, []string{"CD/DVD", "USBStick"},
			[]string{"insert disk " + stick, "insert cdrom " + instanceISO}},
	} {
		t.Run(name, func(t *testing.T) {
			drive := ""
			if c.drive {
				drive = aDrive(t)
			}
			r, k, b, s := instanceTask(t, c.info, drive, c.types...)
			i := VirtualMedia(fine)
			if err := errors.Join(i.Validate(k.Node), i.ValidateInstanceFiles(k.Node), i.ReadyInstance(t.Context(), k)); err != nil || len(b.writes) != 0 {
				t.Fatalf("%v, writes %q", err, b.writes)
			}
			if of, name := i.DriveNames(k.Node, k.Facts); c.drive && (of != k.Node.UUID || name != k.Node.Name) {
				t.Errorf("its config drive is made for %q, %q, the node is %q", of, name, k.Node.Name)
			}
			for range 2 { // a rackd that goes on with the step
				if err := i.PrepareInstance(t.Context(), k); err != nil {
					t.Fatal(err)
				}
			}
			if !slices.Equal(b.writes, c.writes) || s.instance != "published" {
				t.Errorf("writes %q (%s), want %q", b.writes, s.instance, c.writes)
			}
			if is, _ := k.Hardware.Management().BootDevice(t.Context(), k.Node); is.Device != "cdrom" || is.Persistent == nil || !*is.Persistent {
				t.Errorf("boot device %+v", is)
			}
			if got := fmt.Sprint(k.Facts, r.Phases); strings.Contains(got, "secret") {
				t.Errorf("an address, or the config drive, stands in %s", got)
			}
			if k.Facts[driver.FactReadied] == "" {
				t.Error("a failure from here on would leave the media where they are")
			}
			for _, end := range []func(context.Context, *driver.Task) error{i.CleanUpRamdisk, i.CleanUpInstance} {
				b.writes = nil
				if err := errors.Join(i.PrepareInstance(t.Context(), k), end(t.Context(), k)); err != nil {
					t.Fatal(err)
				}
				for at, image := range b.in {
					if strings.Contains(image, "/media/") {
						t.Errorf("after its end drive %d holds %s", at, image)
					}
				}
				if s.instance != "withdrawn" {
					t.Error("the addresses answer on")
				}
			}
			if files := r.Observed.InstanceFiles; files == nil || len(files) != 0 {
				t.Errorf("the node keeps %v", files)
			}
		})
	}
}

// What cannot be done is refused before the machine is touched.
func TestInstanceMediaRefused(t *testing.T) {
	small := []string{"CD/DVD", "USBStick"}
	with := func(field string, value any) map[string]any {
		info := ownFiles()
		info[field] = value
		return info
	}
	for name, c := range map[string]struct {
		info    map[string]any
		arch    string
		drive   string
		types   []string
		problem error
		wrong   error
		fail    string
		flow    bool // what validate cannot know, the flow says
		says    string
	}{
		"no GRUB":                    {info: ownFiles(), types: small, problem: errors.New("install grub"), says: "install grub"},
		"another architecture":       {info: ownFiles(), types: small, arch: "aarch64", says: "GRUB for x86_64"},
		"a kernel by TFTP":           {info: with("kernel", "tftp://h/k"), types: small, says: "scheme tftp"},
		"an apostrophe":              {info: with("ramdisk_kernel_arguments", "a='b'"), types: small, says: "ends words"},
		"a space between quotes":     {info: with("ramdisk_kernel_arguments", `a="b c"`), types: small, says: "space between quotes"},
		"no space between quotes":    {info: with("ramdisk_kernel_arguments", `a="b"`), types: small},
		"no second drive":            {info: ownFiles(), drive: "yes", types: []string{"CD/DVD"}, flow: true, says: "no second virtual drive"},
		"one drive for all":          {info: ownFiles(), drive: "yes", types: []string{"CD/USBStick"}, flow: true, says: "no second virtual drive"},
		"an image, no second drive":  {info: map[string]any{"boot_iso": instanceISO}, drive: "yes", types: []string{"CD"}, flow: true, says: "its drives are: CD"},
		"one stick for two":          {info: ownFiles(), drive: "yes", types: []string{"USBStick"}, flow: true, says: "no second virtual drive"},
		"one stick, an image":        {info: map[string]any{"boot_iso": instanceISO}, drive: "yes", types: []string{"USBStick"}, flow: true, says: "its drives are: USBStick"},
		"no drive without the need":  {info: ownFiles(), types: []string{"CD"}},
		"a config drive that is not": {info: ownFiles(), drive: "bm9uZQ==", types: small, flow: true, says: "gzip"},
		"files that are too large":   {info: ownFiles(), types: small, flow: true, wrong: fmt.Errorf("too large for a CD: %w", driver.ErrInvalid), says: "too large for a CD"},
		"a kernel that is not there": {info: ownFiles(), types: small, flow: true, fail: "latest http://192.0.2.1/k", says: "kernel into the rack's cache"},
	} {
		t.Run(name, func(t *testing.T) {
			drive := c.drive
			if drive == "yes" {
				drive = aDrive(t)
			}
			r, k, b, s := instanceTask(t, c.info, drive, c.types...)
			k.Node.Properties = map[string]any{"cpu_arch": c.arch}
			s.wrong = c.wrong
			r.Fail = func(call string) error {
				if call == c.fail {
					return driver.ErrInvalid
				}
				return nil
			}
			i := VirtualMedia(func(string) error { return c.problem })
			err := i.ValidateInstanceFiles(k.Node)
			if c.flow && err == nil {
				err = i.ReadyInstance(t.Context(), k)
			}
			if (err == nil) != (c.says == "") || err != nil && (!errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("%v, want %q", err, c.says)
			}
			if len(b.writes) != 0 || err != nil && strings.Contains(err.Error(), "c2VjcmV0") {
				t.Errorf("writes %q, error %v", b.writes, err)
			}
		})
	}
}

// A file that has left the cache comes back only if it is the one that the deploy was given.
func TestInstanceMediumOfOtherFiles(t *testing.T) {
	r, k, b, _ := instanceTask(t, ownFiles(), "", "CD")
	k.Node.InstanceFiles = map[string]string{"kernel": "sha256-k", "ramdisk": "sha256-r", node.FileMedium: "w1"}
	r.Fail = func(call string) error {
		if call == "prepare_image" {
			return errors.New("the checksum differs")
		}
		return nil
	}
	for name, do := range map[string]func(context.Context, *driver.Task) error{"prepared": VirtualMedia(fine).PrepareInstance, "kept": VirtualMedia(fine).KeepInstance} {
		if err := do(t.Context(), k); err == nil || !strings.Contains(err.Error(), "checksum differs") || len(b.writes) > 0 {
			t.Errorf("%s: %v, writes %q", name, err, b.writes)
		}
	}
}

// The ramdisk of a later flow takes the instance's media out, and the instance gets them back at the same address.
func TestRamdiskBesideAnInstancesMedia(t *testing.T) {
	_, k, b, _ := instanceTask(t, ownFiles(), aDrive(t), "CD/DVD", "USBStick")
	i := VirtualMedia(fine)
	if err := errors.Join(i.ReadyInstance(t.Context(), k), i.PrepareInstance(t.Context(), k), i.PrepareRamdisk(t.Context(), k)); err != nil {
		t.Fatal(err)
	}
	if len(b.in) != 1 || !strings.Contains(b.in[0], "secret1") {
		t.Errorf("with the ramdisk the drives hold %v", b.in)
	}
	if err := errors.Join(i.CleanUpRamdisk(t.Context(), k), i.PrepareInstance(t.Context(), k)); err != nil {
		t.Fatal(err)
	}
	if b.in[0] != cd || b.in[1] != stick {
		t.Errorf("with the instance the drives hold %v", b.in)
	}
}

// What the machine of an active instance is to find is put in again where it is lost, and moved where its rackd has gone. What others have
// put in stays, and where all is well nothing is written.
func TestInstanceMediaAreKept(t *testing.T) {
	const gone, lives = "http://192.0.2.4:8080", "http://192.0.2.3:8080"
	other := func(base, url string) string { return strings.Replace(url, "http://192.0.2.5:8080", base, 1) }
	for name, c := range map[string]struct {
		at     string
		in     map[int]string
		writes []string
		want   string // where they are noted to be, empty: nothing is noted
	}{
		"all well":                      {"http://192.0.2.5:8080", map[int]string{0: cd, 1: stick}, nil, ""},
		"served by another":             {lives, map[int]string{0: other(lives, cd), 1: other(lives, stick)}, nil, ""},
		"the BMC has forgotten":         {"http://192.0.2.5:8080", map[int]string{}, []string{"insert disk " + stick, "insert cdrom " + cd}, ""},
		"one of them, served elsewhere": {lives, map[int]string{0: other(lives, cd)}, []string{"insert disk " + other(lives, stick)}, ""},
		"its rackd has gone":            {gone, map[int]string{0: other(gone, cd), 1: other(gone, stick)}, []string{"insert disk " + stick, "insert cdrom " + cd}, "http://192.0.2.5:8080"},
		"never told":                    {"", map[int]string{}, []string{"insert disk " + stick, "insert cdrom " + cd}, "http://192.0.2.5:8080"},
		"a ramdisk's that was left":     {"http://192.0.2.5:8080", map[int]string{0: "http://192.0.2.5:8080/media/5f0c/secret1/boot.iso", 1: stick}, []string{"insert cdrom " + cd}, ""},
		"codes of another group":        {"http://192.0.2.5:8080", map[int]string{0: strings.Replace(cd, "secret", "other", 1), 1: strings.Replace(stick, "secret", "other", 1)}, []string{"insert disk " + stick, "insert cdrom " + cd}, ""},
		"an operator's CD":              {"http://192.0.2.5:8080", map[int]string{0: "http://o/tools.iso", 1: stick}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r, k, b, s := instanceTask(t, ownFiles(), "", "CD/DVD", "USBStick")
			k.Node.InstanceFiles = map[string]string{"kernel": "sha256-k", "ramdisk": "sha256-r", node.FileMedium: "w1", node.FileMediumAt: c.at, node.FileDrive: "0f"}
			s.alive, s.lives, b.in = false, []string{lives}, c.in
			if err := VirtualMedia(fine).KeepInstance(t.Context(), k); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(b.writes, c.writes) || r.Observed.InstanceFiles[node.FileMediumAt] != c.want {
				t.Errorf("writes %q, want %q; noted %v", b.writes, c.writes, r.Observed.InstanceFiles)
			}
		})
	}
}

// A rackd dies once the machine is told to start from its medium. Whether the machine has read it, no other rackd knows. The next owner
// starts it again, from its own. It leaves a machine alone whose medium still answers.
func TestAnInstanceWhoseRackdIsGoneIsStartedAgain(t *testing.T) {
	for _, alive := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			r, k, b, s := instanceTask(t, ownFiles(), "", "CD/DVD")
			step := ramdisk.New(direct.New(direct.Settings{}), bringup.Settings{}).DeploySteps(k.Node)[0]
			if _, err := step.Run(t.Context(), k); err != nil {
				t.Fatal(err)
			}
			s.alive, s.base, s.lives = alive, "http://192.0.2.6:8080", []string{"http://192.0.2.6:8080"} // it is another rackd from now on
			want := []string{"power power on"}
			if !alive {
				want = append(want, "power power off", "power power on")
			}
			for range 2 { // and yet another run of that one
				if _, err := step.Run(t.Context(), k); err != nil {
					t.Fatal(err)
				}
			}
			if got := r.Writes("power"); !slices.Equal(got, want) || strings.Contains(b.in[0], "192.0.2.6") == alive {
				t.Errorf("alive %t: power writes %q, want %q; the drive holds %s", alive, got, want, b.in[0])
			}
		})
	}
}

// So it is at the end of a rescue and of a service, where the instance has run before. A rackd may also die between the two steps of an
// unrescue: then the machine is off, and told of a medium that no longer answers.
func TestAnInstanceThatComesBackIsStartedAgain(t *testing.T) {
	run := func(steps ...driver.Step) func(context.Context, *drivertest.Rig, *driver.Task) error {
		return func(ctx context.Context, r *drivertest.Rig, k *driver.Task) error {
			for at, s := range steps {
				if at > 0 {
					r.NextStep()
				}
				if _, err := s.Run(ctx, k); err != nil {
					return err
				}
			}
			return nil
		}
	}
	unrescue := agentrescue.New(agentrescue.Settings{}).UnrescueSteps(nil)
	service := direct.New(direct.Settings{}).Down(nil, driver.InService)
	off, on, reset := "power power off", "power power on", "power rebooting"
	for name, c := range map[string]struct {
		before, after            func(context.Context, *drivertest.Rig, *driver.Task) error
		stays                    bool
		first, whole, withOthers []string // the power's writes: of the first rackd, and in the end where its medium answers and where not
	}{
		"unrescue":                    {run(unrescue...), run(unrescue[1]), false, []string{off, on}, []string{off, on}, []string{off, on, off, on}},
		"unrescue, between its steps": {run(unrescue[0]), run(unrescue[1]), false, []string{off}, []string{off, on}, []string{off, on}},
		"service":                     {run(service...), run(service...), false, []string{off, on}, []string{off, on}, []string{off, on, off, on}},
		"service by resets":           {run(service...), run(service...), true, []string{reset}, nil, []string{reset, reset}},
	} {
		for _, alive := range []bool{true, false} {
			if alive && c.whole == nil {
				continue
			}
			t.Run(fmt.Sprintf("%s alive %t", name, alive), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r, k, b, s := instanceTask(t, ownFiles(), "", "CD/DVD")
					if err := VirtualMedia(fine).ReadyInstance(t.Context(), k); err != nil {
						t.Fatal(err)
					}
					r.SetPowerState(driver.PowerOn) // the ramdisk runs
					k.Node.DisablePowerOff = c.stays
					if err := c.before(t.Context(), r, k); err != nil {
						t.Fatal(err)
					}
					if got := r.Writes("power"); !slices.Equal(got, c.first) {
						t.Fatalf("power writes %q, want %q", got, c.first)
					}
					if name == "unrescue, between its steps" {
						r.NextStep()
					}
					s.alive, s.base, s.lives = alive, "http://192.0.2.6:8080", []string{"http://192.0.2.6:8080"} // another rackd has it
					want := c.whole
					if !alive {
						want = c.withOthers
					}
					for range 2 {
						if err := c.after(t.Context(), r, k); err != nil {
							t.Fatal(err)
						}
						if c.stays {
							break // its reset would be in doubt
						}
					}
					if got := r.Writes("power"); !slices.Equal(got, want) || strings.Contains(b.in[0], "192.0.2.6") == alive {
						t.Errorf("power writes %q, want %q; the drive holds %s", got, want, b.in[0])
					}
				})
			})
		}
	}
}
