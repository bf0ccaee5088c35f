package direct

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
)

// What a partition image's disk is to be is read as Ironic reads it, and refused in its words.
func TestPartitionFields(t *testing.T) {
	for name, c := range map[string]struct {
		info map[string]any
		want agentapi.Partitions
		says string // of the refusal
	}{
		"least":          {info: map[string]any{"image_type": "partition", "root_gb": 10}, want: agentapi.Partitions{RootMB: 10240}},
		"by its kernel":  {info: map[string]any{"kernel": "http://h/k", "root_gb": "10"}, want: agentapi.Partitions{RootMB: 10240}},
		"by its ramdisk": {info: map[string]any{"ramdisk": "http://h/r", "root_gb": 1.0}, want: agentapi.Partitions{RootMB: 1024}},
		"all": {info: map[string]any{"image_type": "partition", "root_gb": 2, "swap_mb": "512", "ephemeral_gb": 3, "preserve_ephemeral": "True", "capabilities": "disk_label:gpt"},
			want: agentapi.Partitions{RootMB: 2048, SwapMB: 512, EphemeralMB: 3072, EphemeralFormat: "ext4", PreserveEphemeral: true, DiskLabel: "gpt"}},
		"msdos":           {info: map[string]any{"image_type": "partition", "root_gb": 2, "capabilities": "disk_label:msdos,boot_mode:bios"}, want: agentapi.Partitions{RootMB: 2048, DiskLabel: "msdos"}},
		"no root":         {info: map[string]any{"image_type": "partition"}, says: "Cannot validate driver deploy. Some parameters were missing in node's instance_info. Missing are: ['instance_info.root_gb']"},
		"root of 0":       {info: map[string]any{"image_type": "partition", "root_gb": 0}, says: "Invalid parameter root_gb"},
		"half a GiB":      {info: map[string]any{"image_type": "partition", "root_gb": 0.5}, says: "Invalid parameter root_gb. Reason: 0.5 is not an integer value."},
		"much swap":       {info: map[string]any{"image_type": "partition", "root_gb": 1, "swap_mb": "much"}, says: "Invalid parameter swap_mb. Reason: much is not an integer value."},
		"less than none":  {info: map[string]any{"image_type": "partition", "root_gb": 1, "ephemeral_gb": -1}, says: "Invalid parameter ephemeral_gb"},
		"a format":        {info: map[string]any{"image_type": "partition", "root_gb": 1, "ephemeral_gb": 1, "ephemeral_format": "ntfs"}, says: "Invalid parameter ephemeral_format"},
		"perhaps":         {info: map[string]any{"image_type": "partition", "root_gb": 1, "preserve_ephemeral": "perhaps"}, says: "Unrecognized value 'perhaps'"},
		"preserve what":   {info: map[string]any{"image_type": "partition", "root_gb": 1, "preserve_ephemeral": true}, says: "there is no ephemeral partition to preserve"},
		"another label":   {info: map[string]any{"image_type": "partition", "root_gb": 1, "capabilities": "disk_label:apm"}, says: `disk_label is "apm"`},
		"msdos with UEFI": {info: map[string]any{"image_type": "partition", "root_gb": 1, "capabilities": "disk_label:msdos"}, says: "the boot mode is uefi"},
		"another type":    {info: map[string]any{"image_type": "tarball"}, says: "image_type"},
	} {
		info := map[string]any{"image_source": "http://h/i", "image_checksum": strings.Repeat("a", 64)}
		maps.Copy(info, c.info)
		i, err := imageOf(&node.Document{UUID: "u-1", InstanceInfo: info})
		switch {
		case c.says != "" && (!errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%s: %v, want %q", name, err, c.says)
		case c.says == "" && (err != nil || i.partitions == nil || *i.partitions != c.want):
			t.Errorf("%s: %+v, %v, want %+v", name, i.partitions, err, c.want)
		}
	}
}

// A partition image's boot loader is installed on BIOS too, by the names that the agent has told: our agent with the image,
// ironic-python-agent when it is asked.
func TestDeployOfAPartitionImage(t *testing.T) {
	for name, c := range map[string]struct {
		mode    string
		written any
		told    []string // of install_bootloader
		asked   bool     // for the partitions
	}{
		"UEFI": {"uefi", agentapi.PrepareImageResult{RootDevice: "/dev/vda", RootUUID: "r", PartitionUUIDs: &agentapi.PartitionUUIDs{Root: "r", ESP: "AB-CD"}},
			[]string{`"root_uuid":"r"`, `"efi_system_part_uuid":"AB-CD"`, `"target_boot_mode":"uefi"`}, false},
		"BIOS": {"bios", agentapi.PrepareImageResult{RootDevice: "/dev/vda", RootUUID: "r", PartitionUUIDs: &agentapi.PartitionUUIDs{Root: "r"}},
			[]string{`"root_uuid":"r"`, `"target_boot_mode":"bios"`}, false},
		"ironic-python-agent": {"bios", map[string]any{"result": "prepare_image: image (x) written to device /dev/vda root_uuid=None"},
			[]string{`"root_uuid":"told"`, `"efi_system_part_uuid":"E-E"`}, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig()
			r.Node.InstanceInfo["image_type"], r.Node.InstanceInfo["root_gb"] = "partition", 1
			r.Node.InstanceInfo["capabilities"] = "boot_mode:" + c.mode
			well := r.Answer
			r.Answer = func(name string) (any, string) {
				switch name {
				case agentapi.CmdPrepareImage:
					return c.written, ""
				case agentapi.CmdPartitionUUIDs:
					return map[string]any{"result": map[string]any{"partitions": map[string]any{"root": "/dev/vda2"}, "root uuid": "told", "efi system partition uuid": "E-E"}}, ""
				}
				return well(name)
			}
			if err := flow(t, r, New(Settings{}).DeploySteps(r.Node)); err != nil {
				t.Fatal(name, err)
			}
			if got := r.Writes("agent " + agentapi.CmdPrepareImage); len(got) != 1 || !strings.Contains(got[0], `"image_type":"partition"`) || !strings.Contains(got[0], `"root_mb":1024`) {
				t.Errorf("%s: the agent was told %q", name, got)
			}
			got := r.Writes("agent " + agentapi.CmdInstallBoot)
			if len(got) != 1 || len(r.Writes("agent "+agentapi.CmdPartitionUUIDs)) == 1 != c.asked {
				t.Fatalf("%s: writes %q", name, r.Log)
			}
			for _, want := range c.told {
				if !strings.Contains(got[0], want) {
					t.Errorf("%s: the boot loader: %s, want %s", name, got[0], want)
				}
			}
		})
	}
}

// netboot is a partition image whose kernel and ramdisk come by the network.
var netboot = map[string]any{"image_source": "http://h/i", "image_checksum": strings.Repeat("a", 64), "root_gb": 1, "kernel": "http://h/k", "ramdisk": "http://h/r",
	"ramdisk_kernel_arguments": "console=ttyS0", "capabilities": "boot_option:netboot"}

// A partition image that asks for it gets no boot loader: at each start the network brings its kernel and its ramdisk. The rack has both
// before the machine is touched. The kernel mounts the root partition that was written.
func TestPartitionImageByNetwork(t *testing.T) {
	for name, c := range map[string]struct {
		told string // the root file system's UUID
		want string // of the kernel's parameters
		says string // of an error
	}{
		"well":      {told: "ab-1", want: "root=UUID=ab-1 ro text console=ttyS0"},
		"no UUID":   {told: "ab 1 init=/bin/sh", says: "is no UUID of a file system"},
		"no kernel": {told: "ab-1", says: "get instance_info kernel into the rack's cache"},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig()
			r.Node.InstanceInfo = netboot
			well := r.Answer
			r.Answer = func(command string) (any, string) {
				if command == agentapi.CmdPrepareImage {
					return agentapi.PrepareImageResult{RootDevice: "/dev/vda", PartitionUUIDs: &agentapi.PartitionUUIDs{Root: c.told}}, ""
				}
				return well(command)
			}
			r.Fail = func(call string) error {
				if name == "no kernel" && call == "latest http://h/k" {
					return driver.ErrUnreachable
				}
				return nil
			}
			err := flow(t, r, New(Settings{}).DeploySteps(r.Node))
			if c.says != "" {
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%s: %v, want %q", name, err, c.says)
				}
				if name == "no kernel" && len(r.Log) > 0 {
					t.Errorf("%s: the machine was touched: %q", name, r.Log)
				}
				return
			}
			if err != nil {
				t.Fatal(name, err)
			}
			if got := r.Writes("agent " + agentapi.CmdInstallBoot); len(got) > 0 {
				t.Errorf("a boot loader was installed: %q", got)
			}
			if got := r.Writes("boot "); !slices.Equal(got, []string{"boot pxe false", "boot pxe true"}) {
				t.Errorf("boot devices %q", got)
			}
			// Another rackd answers by what central has noted, when the work and its facts are gone.
			r.Node.InstanceFiles = r.Observed.InstanceFiles
			o := networkboot.IPXE().InstanceOrder(r.Node, nil)
			if o.Load == nil || strings.Join(o.Load.Params, " ") != c.want || o.Load.Kernel.ID != "id of http://h/k" || o.Load.Initramfs.ID != "id of http://h/r" {
				t.Errorf("the machine is told %+v, %+v", o, o.Load)
			}
		})
	}
}

// A rebuild that boots from its disk leaves nothing of the instance before that came by the network.
func TestPartitionImageFromItsDiskAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.Node.InstanceFiles = map[string]string{"kernel": "1", "ramdisk": "2", "root_uuid": "ab-1"}
		if err := flow(t, r, New(Settings{}).DeploySteps(r.Node)); err != nil {
			t.Fatal(err)
		}
		if got := r.Observed.InstanceFiles; got == nil || len(got) > 0 {
			t.Errorf("the instance's files are %v", got)
		}
	})
}

// No deploy here has seen the root partition of an adopted instance: the instance itself has to name it.
func TestAdoptionOfAPartitionImageByNetwork(t *testing.T) {
	r := newRig()
	r.Node.InstanceInfo = netboot
	if i := New(Settings{}); !i.Adopts(r.Node) {
		t.Error("nothing to take over")
	} else if err := i.TakeOver(t.Context(), r.Task(networkboot.IPXE())); !errors.Is(err, driver.ErrInvalid) || r.Observed.InstanceFiles != nil {
		t.Errorf("without a root: %v, told %v", err, r.Observed.InstanceFiles)
	}
	r.Node.InstanceInfo = maps.Clone(netboot)
	r.Node.InstanceInfo["ramdisk_kernel_arguments"] = "quiet root=UUID=cd-2"
	if err := New(Settings{}).TakeOver(t.Context(), r.Task(networkboot.IPXE())); err != nil || len(r.Log) > 0 || r.Observed.InstanceFiles["kernel"] != "id of http://h/k" {
		t.Errorf("with a root: %v, writes %q, told %v", err, r.Log, r.Observed.InstanceFiles)
	}
	if i := New(Settings{}); i.Adopts(newRig().Node) || (Custom{i}).Adopts(r.Node) || (Bootc{i}).Adopts(r.Node) {
		t.Error("taken over, although the disk is what boots")
	}
}
