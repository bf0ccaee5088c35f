package direct

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
)

var (
	_ driver.Deploy = Bootc{}
	_ driver.InBand = Bootc{}
)

func container() map[string]any {
	return map[string]any{"image_source": "oci://registry.example/os:1", "image_pull_secret": "u:s3cret", "bootc_authorized_keys": "ssh-ed25519 AAAA"}
}

// ironicAgent answers as ironic-python-agent does, with the steps that its generic hardware manager has; bootc says whether with that one.
func ironicAgent(bootc bool) func(string) (any, string) {
	steps := []map[string]any{{"interface": "deploy", "step": "write_image", "priority": 0}}
	if bootc {
		steps = append(steps, map[string]any{"interface": "deploy", "step": bootcStep, "priority": 0, "reboot_requested": false})
	}
	return func(name string) (any, string) {
		if name == agentapi.CmdGetDeploySteps {
			return map[string]any{"deploy_steps": map[string]any{"GenericHardwareManager": steps}}, ""
		}
		return "Container image written", ""
	}
}

// The agent is told what Ironic tells it, and no secret besides.
func TestBootcInstallsAContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.Node.InstanceInfo = container()
		r.Answer = ironicAgent(true)
		b := Bootc{New(Settings{})}
		var names []string
		for _, s := range b.DeploySteps(r.Node) {
			names = append(names, s.Name)
		}
		if want := []string{"deploy", bootcStep, "set_boot_to_disk", "tear_down_agent", "boot_instance"}; !slices.Equal(names, want) {
			t.Errorf("steps %q, want %q", names, want)
		}
		if err := flow(t, r, b.DeploySteps(r.Node)); err != nil {
			t.Fatal(err)
		}
		told := r.Writes("agent " + agentapi.CmdExecDeployStep)
		if len(told) != 1 {
			t.Fatalf("the agent was told %q", told)
		}
		var got struct {
			Step struct {
				Interface, Step string
				Args            map[string]any
			}
			Node map[string]any
		}
		if err := json.Unmarshal([]byte(strings.TrimPrefix(told[0], "agent "+agentapi.CmdExecDeployStep+" ")), &got); err != nil {
			t.Fatal(err)
		}
		secret := base64.StdEncoding.EncodeToString([]byte(base64.StdEncoding.EncodeToString([]byte("u:s3cret"))))
		if a := got.Step.Args; got.Step.Interface != "deploy" || got.Step.Step != bootcStep || a["image_source"] != "oci://registry.example/os:1" || a["configdrive"] != "ZHJpdmU=" || a["oci_pull_secret"] != secret || len(a) != 3 {
			t.Errorf("the step is %+v", got.Step)
		}
		info, _ := got.Node["instance_info"].(map[string]any)
		if info["bootc_authorized_keys"] != "ssh-ed25519 AAAA" || info["image_pull_secret"] != nil || r.Node.InstanceInfo["image_pull_secret"] == nil {
			t.Errorf("the agent knows %v of the instance", info)
		}
		if got := r.Writes("boot disk"); len(got) != 1 {
			t.Errorf("boot devices %q", got)
		}
	})
}

// An agent without the step is refused, by the name of the step, before it is told to write anything.
func TestBootcNeedsAnAgentThatCan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.Node.InstanceInfo = container()
		r.Answer = ironicAgent(false)
		steps := Bootc{New(Settings{})}.DeploySteps(r.Node)
		err := flow(t, r, steps[:1])
		if !errors.Is(err, driver.ErrUnsupported) || !strings.Contains(err.Error(), bootcStep) {
			t.Errorf("%v", err)
		}
		if got := r.Writes("agent " + agentapi.CmdExecDeployStep); len(got) > 0 {
			t.Errorf("the agent was told %q", got)
		}
	})
}

func TestWhatBootcRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change map[string]any
		want   string
	}{
		"as it is":        {nil, ""},
		"said so":         {map[string]any{"image_disk_format": "bootc"}, ""},
		"no secret":       {map[string]any{"image_pull_secret": ""}, ""},
		"a digest":        {map[string]any{"image_source": "oci://registry.example/os@sha256:" + strings.Repeat("ab", 32)}, ""},
		"a disk's image":  {map[string]any{"image_source": "http://u:p@192.0.2.1/i"}, "Invalid image href …@192.0.2.1/i."},
		"nothing":         {map[string]any{"image_source": ""}, "Invalid image href ."},
		"another format":  {map[string]any{"image_disk_format": "raw"}, "installs containers"},
		"a token":         {map[string]any{"image_pull_secret": "", "image_request_authorization_secret": "Bearer t0ken"}, "podman takes a user"},
		"two credentials": {map[string]any{"image_request_authorization_secret": "Bearer t0ken"}, "give one"},
		"a CD's image":    {map[string]any{"boot_iso": "http://192.0.2.1/i.iso"}, "boot_iso: it is for the deploy interface ramdisk"},
		"no CD's image":   {map[string]any{"boot_iso": ""}, ""},
		"a mode":          {map[string]any{"capabilities": "boot_mode:x"}, "boot_mode"},
	} {
		r := newRig()
		r.Deploy = Bootc{New(Settings{})}
		r.Node.InstanceInfo = container()
		for key, value := range c.change {
			r.Node.InstanceInfo[key] = value
		}
		err := r.Task(networkboot.IPXE()).Hardware.Validate("deploy", r.Node)
		if (err == nil) != (c.want == "") || err != nil && (!errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "t0ken")) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// The container of the instance's user is started with all rights in the ramdisk, beside what podman was given. So credentials of
// driver_info, whose holder may be another, stay in the rack.
func TestBootcGivesNoCredentialsOfTheNodeAway(t *testing.T) {
	for name, of := range map[string]map[string]any{
		"a pull secret":         {"image_pull_secret": "op:s3cret", "image_server_hosts": "registry.example"},
		"one without TLS":       {"image_pull_secret": "op:s3cret", "image_server_hosts": "http://registry.example"},
		"a user and a password": {"image_server_auth_strategy": "http_basic", "image_server_user": "op", "image_server_password": "s3cret", "image_server_hosts": "registry.example"},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig()
			b := Bootc{New(Settings{})}
			r.Node.InstanceInfo, r.Answer = container(), ironicAgent(true)
			r.Node.DriverInfo = maps.Clone(of)
			if err := b.Validate(r.Node); err != nil {
				t.Errorf("%s, and the instance has its own: %v", name, err)
			}
			delete(r.Node.InstanceInfo, "image_pull_secret")
			if err := b.Validate(r.Node); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "image_pull_secret of instance_info") || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%s: %v", name, err)
			}
			if err := flow(t, r, b.DeploySteps(r.Node)); !errors.Is(err, driver.ErrInvalid) {
				t.Errorf("%s: a deploy that began before a rackd looked at this: %v", name, err)
			}
			if told := r.Writes("agent " + agentapi.CmdExecDeployStep); len(told) > 0 {
				t.Errorf("%s: the agent was told %q", name, told)
			}
		})
	}
}
