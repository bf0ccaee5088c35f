package anaconda

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/ironyard/ironyard/rackd/bootorder"
	"github.com/ironyard/ironyard/rackd/configdrive"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bringup"
	"github.com/ironyard/ironyard/rackd/driver/direct"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/mediaboot"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
)

var (
	_ driver.Deploy = Interface{}
	_ driver.InBand = Interface{}
	_ driver.Paired = Interface{}
)

func open() Interface { return New(direct.New(direct.Settings{}), bringup.Settings{}) }

func instance() map[string]any {
	return map[string]any{"image_source": "http://192.0.2.1/os.tar.gz", "kernel": "http://192.0.2.1/k", "ramdisk": "http://192.0.2.1/r", "stage2": "http://192.0.2.1/s"}
}

// run runs a step, as a rackd does that has the node now.
func run(t *testing.T, r *drivertest.Rig, name string, change func(*driver.Task)) (driver.Outcome, error) {
	t.Helper()
	for _, s := range open().DeploySteps(r.Node) {
		if s.Name == name {
			task := r.Task(networkboot.IPXE())
			task.ConfigDrive = func(context.Context) (string, error) { return "", nil }
			if change != nil {
				change(task)
			}
			return s.Run(t.Context(), task)
		}
	}
	t.Fatalf("no step %s", name)
	return driver.Outcome{}, nil
}

func says(r *drivertest.Rig, status, message string) {
	r.Task(networkboot.IPXE()).Facts[driver.FactReported] = `{"status":"` + status + `","message":"` + message + `"}`
}

// The machine boots the installer once, and its disk from then on that the installer says it has ended.
func TestInstalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := drivertest.NewRig()
		r.Node.InstanceInfo = instance()
		r.SetPowerState(driver.PowerOn)
		if out, err := run(t, r, "fetch_image", nil); err != nil || out != driver.Done() || len(r.Log) > 0 {
			t.Fatalf("%+v, %v; writes %q", out, err, r.Log)
		}
		r.NextStep()
		for range 2 { // it waits
			if out, err := run(t, r, "deploy", nil); err != nil || out == driver.Done() {
				t.Fatalf("%+v, %v", out, err)
			}
		}
		if want := []string{"power power off", "boot pxe false", "power power on"}; !slices.Equal(sorted(r.Log), sorted(want)) {
			t.Errorf("writes %q, want %q", r.Log, want)
		}
		o := networkboot.IPXE().RamdiskOrder(r.Node, r.Task(networkboot.IPXE()).Facts)
		if o.Load == nil || o.Load.Installer == nil || !o.Load.Instance || o.Load.Kernel != (bootorder.File{URL: "http://192.0.2.1/k", ID: "id of http://192.0.2.1/k", Kept: true}) ||
			o.Load.Installer.Stage2.ID != "id of http://192.0.2.1/s" || o.Load.Installer.Image.ID != "id of http://192.0.2.1/os.tar.gz" || o.Load.Installer.Ending != ".tar.gz" {
			t.Errorf("the machine is told %+v", o)
		}
		says(r, "start", "")
		if out, err := run(t, r, "deploy", nil); err != nil || out == driver.Done() {
			t.Fatalf("%+v, %v", out, err)
		}
		says(r, "end", "")
		if out, err := run(t, r, "deploy", nil); err != nil || out != driver.Done() {
			t.Fatalf("%+v, %v", out, err)
		}
		r.NextStep()
		r.Log = nil
		for range 2 { // a successor does what is left
			if out, err := run(t, r, "boot_instance", nil); err != nil || out != driver.Done() {
				t.Fatalf("%+v, %v", out, err)
			}
		}
		if got, want := r.Writes("power"), []string{"power power off", "power power on"}; !slices.Equal(got, want) || !slices.Contains(r.Log, "boot disk true") {
			t.Errorf("writes %q", r.Log)
		}
		facts := r.Task(networkboot.IPXE()).Facts
		if o := networkboot.IPXE().InstanceOrder(r.Node, facts); !o.Disk || facts[driver.FactBoot] != driver.BootInstance || facts[driver.FactInstaller] != "" {
			t.Errorf("the machine is told %+v, facts %v", o, facts)
		}
	})
}

// A rackd dies, or its BMC is silent, once the instance has been started. The next run of the step does not switch it off in its first
// boot.
func TestATakeoverLeavesTheInstanceRunning(t *testing.T) {
	for _, fails := range []error{driver.ErrFenced, driver.ErrUnreachable} {
		synctest.Test(t, func(t *testing.T) {
			r := drivertest.NewRig()
			r.Node.InstanceInfo = instance()
			r.SetPowerState(driver.PowerOn)
			r.Fail = func(call string) error {
				if call == "set_power" && len(r.Writes("power power on")) > 0 {
					return fails
				}
				return nil
			}
			if _, err := run(t, r, "boot_instance", nil); !errors.Is(err, fails) {
				t.Fatal(err)
			}
			r.Fail = nil
			if out, err := run(t, r, "boot_instance", nil); err != nil || out != driver.Done() {
				t.Fatalf("%+v, %v", out, err)
			}
			if got, want := r.Writes("power"), []string{"power power off", "power power on"}; !slices.Equal(got, want) {
				t.Errorf("after %v: %q, want %q", fails, got, want)
			}
		})
	}
}

func sorted(list []string) []string { return slices.Sorted(slices.Values(list)) }

func TestFailsByTheInstallersWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := drivertest.NewRig()
		r.Node.InstanceInfo = instance()
		for _, step := range []string{"fetch_image", "deploy"} {
			if _, err := run(t, r, step, nil); err != nil {
				t.Fatal(err)
			}
		}
		says(r, "error", "no disk")
		if _, err := run(t, r, "deploy", nil); err == nil || !strings.Contains(err.Error(), "no disk") {
			t.Errorf("%v", err)
		}
	})
}

// The installer has ended, and the machine starts again by itself while rackd cannot reach its BMC: it is to wait, and not to install once
// more over what was installed.
func TestAnInstallerThatHasEndedIsNotBooted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := drivertest.NewRig()
		r.Node.InstanceInfo = instance()
		for _, step := range []string{"fetch_image", "deploy"} {
			if _, err := run(t, r, step, nil); err != nil {
				t.Fatal(err)
			}
		}
		facts := r.Task(networkboot.IPXE()).Facts
		for _, c := range []struct {
			status string
			loads  bool
		}{{"start", true}, {"end", false}, {"error", false}} {
			says(r, c.status, "")
			if o := networkboot.IPXE().RamdiskOrder(r.Node, facts); o.Boots() != c.loads || o.Again == c.loads {
				t.Errorf("after %q the machine is told %+v", c.status, o)
			}
		}
	})
}

// media is where rackds serve files; one of them has gone.
type media struct {
	driver.Media
	base, gone string
}

func (m media) Base() string            { return m.base }
func (m media) Served(base string) bool { return base != m.gone }

// An installer that has not begun may wait for a rackd that has gone: the next owner starts the machine again. One that has begun
// goes on.
func TestStartsAgainBeforeTheInstallerHasBegun(t *testing.T) {
	for _, begun := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := drivertest.NewRig()
			r.Node.InstanceInfo = instance()
			if _, err := run(t, r, "fetch_image", nil); err != nil {
				t.Fatal(err)
			}
			if _, err := run(t, r, "deploy", func(task *driver.Task) { task.Media = media{base: "http://a"} }); err != nil {
				t.Fatal(err)
			}
			if begun {
				says(r, "start", "")
			}
			r.Log = nil
			for range 2 {
				if _, err := run(t, r, "deploy", func(task *driver.Task) { task.Media = media{base: "http://b", gone: "http://a"} }); err != nil {
					t.Fatal(err)
				}
			}
			if got, want := r.Writes("power"), []string{"power power off", "power power on"}; begun && len(got) > 0 || !begun && !slices.Equal(got, want) {
				t.Errorf("begun %t: %q", begun, got)
			}
		})
	}
}

// What speaks against a deploy is said before the machine is touched, in Ironic's words where it has them.
func TestWhatIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		set        map[string]any
		properties map[string]any
		want       string
	}{
		"as it is":            {nil, nil, ""},
		"a repository":        {map[string]any{"image_source": "https://192.0.2.1/os/", "stage2": nil}, nil, ""},
		"with a checksum":     {map[string]any{"image_checksum": strings.Repeat("ab", 32), "image_pull_secret": "u:p"}, nil, ""},
		"its own template":    {map[string]any{"ks_template": "file:///srv/ks"}, map[string]any{"root_device": map[string]any{"name": "/dev/sda"}}, ""},
		"no image":            {map[string]any{"image_source": nil}, nil, "Missing are: ['image_source']"},
		"no kernel":           {map[string]any{"kernel": nil, "ramdisk": nil}, nil, "Image http://192.0.2.1/os.tar.gz is missing the following properties: kernel, ramdisk"},
		"no stage2":           {map[string]any{"stage2": nil}, nil, "The anaconda deploy interface requires this to be set with the OS image or in instance_info['stage2']"},
		"a CD":                {map[string]any{"boot_iso": "http://192.0.2.1/i"}, nil, "may not be specified at the same time"},
		"a made kickstart":    {map[string]any{"ks_cfg": "http://192.0.2.1/ks"}, nil, "ks_template"},
		"a password":          {map[string]any{"kernel": "http://u:p@192.0.2.1/k"}, nil, "user name"},
		"Glance":              {map[string]any{"ks_template": "glance://x"}, nil, "Glance"},
		"hints":               {nil, map[string]any{"root_device": map[string]any{"name": "/dev/sda"}}, "ks_template"},
		"kept disks":          {nil, map[string]any{"skip_block_devices": []any{map[string]any{"name": "/dev/sda"}}}, "clears all disks"},
		"a secret alone":      {map[string]any{"image_pull_secret": "u:p"}, nil, "image_checksum"},
		"a repository's user": {map[string]any{"image_source": "https://u:p@192.0.2.1/os/"}, nil, "without a user"},
		"a mode":              {map[string]any{"capabilities": "boot_mode:x"}, nil, "boot_mode"},
	} {
		r := drivertest.NewRig()
		r.Deploy = open()
		r.Node.InstanceInfo, r.Node.Properties = instance(), c.properties
		for key, value := range c.set {
			if r.Node.InstanceInfo[key] = value; value == nil {
				delete(r.Node.InstanceInfo, key)
			}
		}
		err := r.Task(networkboot.PXE()).Hardware.Validate("deploy", r.Node)
		if (err == nil) != (c.want == "") || err != nil && (!errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "u:p")) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	r := drivertest.NewRig()
	r.Deploy, r.Node.InstanceInfo = open(), instance()
	for name, boot := range map[string]driver.Interface{"http": networkboot.HTTP(nil), "medium": mediaboot.VirtualMedia(nil)} {
		if err := r.Task(boot).Hardware.Validate("deploy", r.Node); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "loads no installer") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// cache is a rack's cache with one file.
type cache struct {
	*drivertest.Rig
	path string
}

func (c cache) File(string) (*os.File, func(), error) {
	f, err := os.Open(c.path)
	return f, func() { f.Close() }, err
}

// A template or a config drive that no kickstart can be made of fails the deploy before the machine is touched.
func TestTheKickstartIsJudgedFirst(t *testing.T) {
	drive, err := configdrive.Build(t.Context(), nil, `{"user_data":"x"}`, configdrive.Defaults{UUID: "u", Name: "n"})
	if err != nil {
		t.Fatal(err)
	}
	good := "{{ ks_options.liveimg_url }} {{ ks_options.agent_token }} {{ ks_options.heartbeat_url }}"
	for name, c := range map[string]struct{ template, drive, want string }{
		"good":       {good, drive, ""},
		"unknown":    {good + "{{ ks_options.x }}", "", "not a valid kickstart option"},
		"unreadable": {"{% for %}", "", "line 1"},
		"a drive":    {good, "ZHJpdmU=", "config drive"},
	} {
		r := drivertest.NewRig()
		r.Node.InstanceInfo = instance()
		r.Node.InstanceInfo["ks_template"] = "http://192.0.2.1/ks"
		path := filepath.Join(t.TempDir(), "ks")
		if err := os.WriteFile(path, []byte(c.template), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := run(t, r, "fetch_image", func(task *driver.Task) {
			task.Images = cache{r, path}
			task.ConfigDrive = func(context.Context) (string, error) { return c.drive, nil }
		})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) || len(r.Log) > 0 {
			t.Errorf("%s: %v, want %q; writes %q", name, err, c.want, r.Log)
		}
	}
}
