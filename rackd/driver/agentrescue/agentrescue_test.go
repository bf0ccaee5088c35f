package agentrescue

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
	"github.com/ironyard/ironyard/rackd/netboot/bootfiles"
	"github.com/ironyard/ironyard/rackd/rackramdisk"
)

var _ driver.Rescuer = Interface{}

const password = "open sesame"

// play runs steps, and returns the error of the first that fails.
func play(t *testing.T, r *drivertest.Rig, steps []driver.Step) error {
	t.Helper()
	for _, s := range steps {
		if out, err := s.Run(t.Context(), r.Task(networkboot.IPXE())); err != nil {
			return err
		} else if out != driver.Done() {
			t.Fatalf("%s waits: %+v", s.Name, out)
		}
		r.NextStep()
	}
	return nil
}

func TestRescueAndBack(t *testing.T) {
	for name, result := range map[string]any{"own agent": agentapi.FinalizeRescueResult{SSH: []string{"10.0.0.9:22"}, HostKey: "SHA256:abc"}, "ironic-python-agent": nil} {
		synctest.Test(t, func(t *testing.T) {
			r := drivertest.NewRig()
			r.SetPowerState(driver.PowerOn)
			r.Node.InstanceInfo = map[string]any{FieldPassword: password}
			r.Answer = func(string) (any, string) { return result, "" }
			i := New(Settings{})
			if err := play(t, r, i.RescueSteps(r.Node)); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			told := strings.Join(r.Phases, "\n")
			if want := "host key SHA256:abc"; result != nil && !strings.Contains(told, want) {
				t.Errorf("%s: the history says %q, want %q", name, told, want)
			}
			writes := strings.Join(r.Log, "\n")
			if strings.Contains(writes+told, password) || !strings.Contains(writes, agentapi.CmdFinalizeRescue) {
				t.Errorf("%s: writes %q", name, writes)
			}
			delete(r.Node.InstanceInfo, FieldPassword) // it went with the request
			if err := play(t, r, i.UnrescueSteps(r.Node)); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if got := r.Writes("power"); got[len(got)-1] != "power power on" || got[len(got)-2] != "power power off" {
				t.Errorf("%s: power writes %q", name, got)
			}
			if fact := r.Task(networkboot.IPXE()).Facts[driver.FactBoot]; fact != driver.BootInstance {
				t.Errorf("%s: after the unrescue the machine boots %q", name, fact)
			}
		})
	}
}

// A refusal is the flow's, and tells neither the password nor its hash.
func TestAgentRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := drivertest.NewRig()
		r.Node.InstanceInfo = map[string]any{FieldPassword: password}
		r.Answer = func(string) (any, string) { return nil, "no such argument: hashed" }
		err := play(t, r, New(Settings{}).RescueSteps(r.Node))
		if err == nil || !strings.Contains(err.Error(), "no such argument") || !strings.Contains(err.Error(), "6.0") || strings.Contains(err.Error(), password) {
			t.Errorf("%v", err)
		}
	})
}

func TestValidate(t *testing.T) {
	r := drivertest.NewRig()
	racks, err := rackramdisk.New(bootfiles.Paths{Kernel: "k", Ramdisk: "r", RescueRamdisk: "rr"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		instance map[string]any
		boot     driver.Interface
		want     string
	}{
		{map[string]any{FieldPassword: password}, networkboot.IPXE().Of(racks), ""},
		{nil, networkboot.IPXE(), "is missing 'instance_info/rescue_password'"},
		{map[string]any{FieldPassword: " "}, networkboot.IPXE(), "must be a non-empty string"},
		{map[string]any{FieldPassword: password}, networkboot.IPXE(), "--rescue-ramdisk"},
		{map[string]any{FieldPassword: password}, bootless{networkboot.IPXE()}, "validate_rescue"},
	} {
		r.Node.InstanceInfo = c.instance
		i := New(Settings{})
		err := i.Validate(r.Node)
		if err == nil {
			err = i.ValidateWith(r.Task(c.boot).Hardware, r.Node)
		}
		if (err == nil) != (c.want == "") || err != nil && (!errors.Is(err, driver.ErrInvalid) && !errors.Is(err, driver.ErrUnsupported) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v: %v, want %q", c.instance, err, c.want)
		}
	}
}

// bootless is a boot interface without a ramdisk for rescues.
type bootless struct{ driver.Boot }

func (bootless) ValidateRescue(*node.Document) {}
