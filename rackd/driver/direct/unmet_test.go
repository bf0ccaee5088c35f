package direct

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
)

// What an instance asks for and would not get is refused by name, before anything happens.
func TestWhatIsNotDoneIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		instance, properties map[string]any
		wants                string // of the refusal; empty: it is taken
	}{
		"nothing":                      {},
		"what Nova says of a flavor":   {instance: map[string]any{"root_gb": "10", "swap_mb": "0", "ephemeral_gb": "0", "preserve_ephemeral": "False", "vcpus": "4", "memory_mb": "4096", "local_gb": "100", "display_name": "web", "capabilities": `{"boot_option": "local"}`}},
		"a partition image":            {instance: map[string]any{"kernel": "http://192.0.2.1/k", "ramdisk": "http://192.0.2.1/r", "swap_mb": 1024.0, "ephemeral_gb": "5", "capabilities": "disk_label:gpt"}},
		"a partition image by netboot": {instance: map[string]any{"kernel": "http://192.0.2.1/k", "ramdisk": "http://192.0.2.1/r", "capabilities": "boot_option:netboot"}},
		"netboot without a ramdisk":    {instance: map[string]any{"kernel": "http://192.0.2.1/k", "capabilities": "boot_option:netboot"}, wants: "Missing are: ['ramdisk']"},
		"netboot of no kernel":         {instance: map[string]any{"image_type": "partition", "capabilities": "boot_option:netboot"}, wants: "Missing are: ['kernel', 'ramdisk']"},
		"netboot of what Glance has":   {instance: map[string]any{"kernel": "0f6d1c1e", "ramdisk": "http://192.0.2.1/r", "capabilities": "boot_option:netboot"}, wants: "instance_info kernel must be"},
		"netboot with a quote":         {instance: map[string]any{"kernel": "http://192.0.2.1/k", "ramdisk": "http://192.0.2.1/r", "ramdisk_kernel_arguments": `a="b`, "capabilities": "boot_option:netboot"}, wants: "quote"},
		"a disk with a kernel":         {instance: map[string]any{"image_type": "whole-disk", "kernel": "http://192.0.2.1/k"}, wants: "instance_info has kernel, and image_type says"},
		"an image to boot":             {instance: map[string]any{"boot_iso": "http://192.0.2.1/i"}, wants: "boot_iso"},
		"swap":                         {instance: map[string]any{"swap_mb": 1024.0}, wants: "swap_mb"},
		"an ephemeral disk":            {instance: map[string]any{"ephemeral_gb": "5"}, wants: "ephemeral_gb"},
		"to preserve it":               {instance: map[string]any{"preserve_ephemeral": true}, wants: "preserve_ephemeral"},
		"kickstart":                    {instance: map[string]any{"ks_template": "http://192.0.2.1/ks"}, wants: "anaconda"},
		"a disk label":                 {instance: map[string]any{"capabilities": map[string]any{"disk_label": "gpt"}}, wants: "disk_label"},
		"what the machine could do":    {properties: map[string]any{"capabilities": "disk_label:gpt,secure_boot:true,trusted_boot:true,boot_option:netboot,boot_mode:bios"}},
		"boot from the network":        {instance: map[string]any{"capabilities": `{"boot_option": "netboot"}`}},
		"boot of a ramdisk":            {instance: map[string]any{"capabilities": `{"boot_option": "ramdisk"}`}, wants: `boot_option is "ramdisk"`},
		"trusted boot":                 {instance: map[string]any{"capabilities": `{"trusted_boot": "true"}`}, wants: "trusted_boot"},
		"trusted boot as a number":     {instance: map[string]any{"capabilities": map[string]any{"trusted_boot": 1}}, wants: `trusted_boot is "1"`},
		"trusted boot in another word": {instance: map[string]any{"capabilities": "trusted_boot:yes"}, wants: `trusted_boot is "yes"`},
		"trusted boot with a space":    {instance: map[string]any{"capabilities": map[string]any{"trusted_boot": "true "}}, wants: `trusted_boot is "true "`},
		"no trusted boot":              {instance: map[string]any{"capabilities": "trusted_boot:False"}},
		"two boot options":             {instance: map[string]any{"capabilities": "boot_option:local,boot_option:netboot"}, wants: "boot_option:netboot (boot_option is there twice)"},
		"secure boot and none":         {instance: map[string]any{"capabilities": "secure_boot:false, secure_boot:true"}, wants: "secure_boot is there twice"},
		"a boot mode of none":          {properties: map[string]any{"capabilities": "boot_mode:legacy"}, wants: `boot_mode is "legacy"`},
		"secure boot":                  {instance: map[string]any{"capabilities": `{"secure_boot": "true"}`}},
		"no secure boot":               {instance: map[string]any{"capabilities": "secure_boot:false"}},
		"secure boot of a BIOS":        {instance: map[string]any{"capabilities": `{"secure_boot": "true", "boot_mode": "bios"}`}, wants: "secure boot needs UEFI"},
		"capabilities of another form": {instance: map[string]any{"capabilities": "secure_boot=true"}, wants: "secure_boot=true"},
		"half an object":               {instance: map[string]any{"capabilities": `{"secure_boot": "true"`}, wants: "Error parsing capabilities from Node"},
		"a list":                       {instance: map[string]any{"capabilities": []any{"secure_boot:true"}}, wants: `["secure_boot:true"]`},
		"no capabilities":              {instance: map[string]any{"capabilities": " "}},
		"perhaps secure boot":          {instance: map[string]any{"capabilities": `{"secure_boot": "maybe"}`}, wants: `secure_boot is "maybe"`},
	} {
		r := drivertest.NewRig()
		r.Node.InstanceInfo, r.Node.Properties = c.instance, c.properties
		err := New(Settings{}).ValidateWith(r.Task(networkboot.IPXE()).Hardware, r.Node)
		switch {
		case c.wants == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.wants != "" && (!errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), c.wants)):
			t.Errorf("%s: %v, want an error that says %q", name, err, c.wants)
		}
	}
}

// An instance that asks for secure boot has it when it boots, and the ramdisk has it not. What the BMC says it did is
// read back.
func TestSecureBootForTheInstance(t *testing.T) {
	asked := map[string]any{"capabilities": `{"secure_boot": "true"}`}
	r := drivertest.NewRig()
	r.Node.InstanceInfo = asked
	task := r.Task(networkboot.IPXE())
	if err := prepareInstance(t.Context(), task); err != nil || !r.Secure {
		t.Errorf("prepared: %t, %v", r.Secure, err)
	}
	delete(task.Facts, driver.FactBoot)
	r.NoBoot = true
	if _, err := New(Settings{}).upFor(driver.InDeploy)(t.Context(), task); err != nil || r.Secure {
		t.Errorf("deployed anew: %t, %v", r.Secure, err)
	}
	if err := prepareInstance(t.Context(), task); err != nil {
		t.Error(err)
	}
	if _, err := New(Settings{}).TearDownSteps(r.Node)[0].Run(t.Context(), task); err != nil || r.Secure {
		t.Errorf("torn down: %t, %v", r.Secure, err)
	}
	if err := prepareInstance(t.Context(), task); err != nil {
		t.Error(err)
	}
	delete(task.Facts, driver.FactBoot)
	if _, err := New(Settings{}).upFor(driver.InService)(t.Context(), task); err != nil || r.Secure {
		t.Errorf("serviced: %t, %v", r.Secure, err)
	}
	if _, err := New(Settings{}).Down(r.Node, driver.InService)[0].Run(t.Context(), task); err != nil || !r.Secure {
		t.Errorf("after its service: %t, %v", r.Secure, err)
	}
	if got, want := r.Writes("secure"), []string{"secure boot true", "secure boot false", "secure boot true", "secure boot false", "secure boot true", "secure boot false", "secure boot true"}; !slices.Equal(got, want) {
		t.Errorf("written: %v, want %v", got, want)
	}

	deaf := drivertest.NewRig()
	deaf.Node.InstanceInfo, deaf.DeafSecure = asked, true
	if err := prepareInstance(t.Context(), deaf.Task(networkboot.IPXE())); err == nil || !strings.Contains(err.Error(), "the BMC reports false") {
		t.Errorf("a BMC that does nothing: %v", err)
	}
	without := drivertest.NewRig()
	without.Node.InstanceInfo, without.NoSecure = asked, true
	if err := prepareInstance(t.Context(), without.Task(networkboot.IPXE())); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("a machine without secure boot: %v", err)
	}
	if _, err := New(Settings{}).TearDownSteps(without.Node)[0].Run(t.Context(), without.Task(networkboot.IPXE())); err != nil {
		t.Errorf("a machine without secure boot is torn down: %v", err)
	}
	silent := drivertest.NewRig()
	if err := prepareInstance(t.Context(), silent.Task(networkboot.IPXE())); err != nil || len(silent.Writes("secure")) != 0 {
		t.Errorf("not asked for: %v, %v", silent.Writes("secure"), err)
	}
}
