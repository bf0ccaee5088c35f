package direct

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
)

// The files of a rebuild are brought into the rack while the instance of before runs. That one boots its own kernel, with its own root,
// until the disk is written: the rebuild may fail before it has touched the machine.
func TestARebuildLeavesTheFilesOfTheInstanceThatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.Node.InstanceInfo = netboot
		was := map[string]string{"kernel": "old kernel", "ramdisk": "old ramdisk", "root_uuid": "ab-1"}
		r.Node.InstanceFiles = maps.Clone(was)
		well := r.Answer
		r.Answer = func(command string) (any, string) {
			if command == agentapi.CmdPrepareImage {
				return agentapi.PrepareImageResult{RootDevice: "/dev/vda", PartitionUUIDs: &agentapi.PartitionUUIDs{Root: "cd-2"}}, ""
			}
			return well(command)
		}
		boots := func() (kernel, params string) {
			o := networkboot.IPXE().InstanceOrder(r.Node, r.Task(networkboot.IPXE()).Facts)
			if o.Load == nil {
				t.Fatalf("the machine is told %+v", o)
			}
			return o.Load.Kernel.ID, strings.Join(o.Load.Params, " ")
		}
		lost := true
		r.Fail = func(call string) error {
			if call == "set_power" && lost {
				return driver.ErrDenied
			}
			return nil
		}
		steps := New(Settings{}).DeploySteps(r.Node)
		if err := flow(t, r, steps); err == nil {
			t.Fatal("the BMC refuses, and the rebuild goes on")
		}
		if kernel, params := boots(); kernel != "old kernel" || !strings.Contains(params, "root=UUID=ab-1") || r.Observed.InstanceFiles != nil {
			t.Errorf("after a rebuild that has written nothing the instance boots %s with %q; told %v", kernel, params, r.Observed.InstanceFiles)
		}
		lost = false
		if err := flow(t, r, steps); err != nil {
			t.Fatal(err)
		}
		if kernel, params := boots(); kernel != "id of http://h/k" || !strings.Contains(params, "root=UUID=cd-2") || r.Observed.InstanceFiles["root_uuid"] != "cd-2" {
			t.Errorf("the rebuilt instance boots %s with %q; told %v", kernel, params, r.Observed.InstanceFiles)
		}
	})
}

// The list of a rebuild that replaces the files of an instance has a step that a rackd of before lacks. Such a rackd fails the rebuild
// (plan.Fixed), and has no machine boot the kernel of the instance before. Any other list is as it was: such a rackd may go on with it.
func TestARebuildOfFilesIsNotForRackdsOfBefore(t *testing.T) {
	files := map[string]string{"kernel": "old kernel", "ramdisk": "old ramdisk", "root_uuid": "ab-1"}
	for name, c := range map[string]struct {
		info  map[string]any
		files map[string]string
		want  bool
	}{
		"a rebuild": {netboot, files, true},
		"a deploy":  {netboot, nil, false},
		"a rebuild with an image that boots disk": {map[string]any{"image_source": "http://h/i.raw"}, files, false},
	} {
		r := newRig()
		r.Node.InstanceInfo, r.Node.InstanceFiles = c.info, c.files
		var names []string
		for _, s := range New(Settings{}).DeploySteps(r.Node) {
			names = append(names, s.Name)
		}
		if slices.Contains(names, "give_files") != c.want {
			t.Errorf("%s: %v", name, names)
		}
		if at := slices.Index(names, "give_files"); c.want && (at < slices.Index(names, "deploy") || at+1 != slices.Index(names, "write_image")) {
			t.Errorf("%s: %v", name, names)
		}
		if custom := (Custom{New(Settings{})}).DeploySteps(r.Node); slices.ContainsFunc(custom, func(s driver.Step) bool { return s.Name == "give_files" }) {
			t.Errorf("%s: a custom deploy writes no image, and gives files", name)
		}
	}
}
