package direct

import (
	"testing"
	"testing/synctest"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/mediaboot"
)

// A deploy has failed because the firmware did not log in to a wrong volume, or a user has set another boot device since. The volume
// is detached from the node then. Whatever comes next, the firmware does not keep it.
func TestFirmwareIsClearedOfAVolumeThatLeftAfterAFailedDeploy(t *testing.T) {
	boot := mediaboot.VirtualMedia(nil)
	for name, next := range map[string]func(*driver.Task) error{
		"a deploy to a disk": func(task *driver.Task) error { return boot.PrepareInstance(t.Context(), task) },
		"an undeploy":        func(task *driver.Task) error { return boot.CleanUpInstance(t.Context(), task) },
	} {
		for _, set := range []string{"", string(driver.BootPXE)} {
			synctest.Test(t, func(t *testing.T) {
				r, task, f := volumed(t, boot, "uefi")
				f.hidden = 1 << 30
				if _, err := walk(t, r, task, New(Settings{}).DeploySteps(r.Node)); err == nil || f.target == nil {
					t.Fatalf("%v, target %v", err, f.target)
				}
				now := *task.Node
				now.Targets, now.InstanceInfo, now.BootSet = nil, map[string]any{"image_source": "http://i/os.img"}, set
				after := *task
				after.Node, after.Facts = &now, map[string]string{}
				if err := next(&after); err != nil || f.target != nil {
					t.Errorf("%s, boot device %q: %v; the firmware attaches %v", name, set, err, f.target)
				}
			})
		}
	}
	_, task, f := volumed(t, boot, "uefi")
	task.Node.Interfaces, task.Node.Targets = map[string]string{"storage": "noop"}, []node.Target{}
	if err := boot.CleanUpInstance(t.Context(), task); err != nil || len(f.log) > 0 {
		t.Errorf("a node without volumes: %v, writes %q", err, f.log)
	}
}
