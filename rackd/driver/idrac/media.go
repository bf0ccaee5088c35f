package idrac

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/redfish"
)

// For an iDRAC the standard's Cd is a drive of the machine's own. Its virtual drives are boot devices of the iDRAC itself.

// virtualDrives are what the iDRAC calls its drives.
var virtualDrives = map[driver.BootDevice]string{"cdrom": "VCD-DVD", "floppy": "VFDD"}

// The iDRAC's attributes of its boot device, as its configuration profile and its resource of attributes call them.
const (
	profileOnce, profileFirst = "ServerBoot.1#BootOnce", "ServerBoot.1#FirstBootDevice"
	once, first               = "ServerBoot.1.BootOnce", "ServerBoot.1.FirstBootDevice"
)

// An import of two attributes takes some seconds.
const imports = 60

// importLook is a variable for tests alone.
var importLook = 2 * time.Second

// SetMediaBoot implements driver.MediaBooter, by a configuration profile with two attributes.
func (m Management) SetMediaBoot(ctx context.Context, f driver.Fence, n *node.Document, device driver.BootDevice, persistent bool) error {
	drive := virtualDrives[device]
	if drive == "" {
		return fmt.Errorf("node %s: an iDRAC has no virtual drive %q: %w", n.Label(), device, driver.ErrUnsupported)
	}
	enabled := "Enabled"
	if persistent {
		enabled = "Disabled"
	}
	doing := fmt.Sprintf("set the boot device to the virtual %s", device)
	job, so := "", false
	err := m.Turn(ctx, f, n, doing, func(t *redfish.Turn) error {
		k, err := managerOf(t)
		if err != nil {
			return err
		}
		is, known, err := bootAttributes(t, k)
		if err != nil {
			return err
		}
		if so = known && strings.EqualFold(is[first], drive) && strings.EqualFold(is[once], enabled); so {
			return nil
		}
		order, err := k.profile("ImportSystemConfiguration")
		if err != nil {
			return err
		}
		// The iDRAC refuses a profile with white space that means nothing.
		profile := fmt.Sprintf(`<SystemConfiguration><Component FQDD="%s"><Attribute Name="%s">%s</Attribute><Attribute Name="%s">%s</Attribute></Component></SystemConfiguration>`,
			k.ID, profileOnce, enabled, profileFirst, drive)
		job, err = t.Order(order.Target, map[string]any{"ShareParameters": map[string]any{"Target": "ALL"}, "ImportBuffer": profile})
		return err
	})
	if err != nil || so {
		return err
	}
	return m.awaitMediaBoot(ctx, n, doing, job, drive, enabled)
}

// awaitMediaBoot waits until the iDRAC has ended the import, and reads back.
func (m Management) awaitMediaBoot(ctx context.Context, n *node.Document, doing, job, drive, enabled string) error {
	for range imports {
		done := false
		err := m.Turn(ctx, nil, n, doing, func(t *redfish.Turn) error {
			var task struct {
				TaskState, TaskStatus string
				Messages              []struct{ Message string }
			}
			if job != "" {
				_, err := t.ReadCode(job, &task)
				if err != nil && redfish.Status(err) != 404 {
					return err
				}
			}
			if task.TaskState == "Exception" || task.TaskStatus == "Critical" {
				said := "it says nothing"
				if len(task.Messages) > 0 {
					said = task.Messages[len(task.Messages)-1].Message
				}
				return fmt.Errorf("its task %s failed: %s", job, said)
			}
			k, err := managerOf(t)
			if err != nil {
				return err
			}
			is, known, err := bootAttributes(t, k)
			if err != nil {
				return err
			}
			done = known && strings.EqualFold(is[first], drive) && strings.EqualFold(is[once], enabled) || !known && task.TaskState == "Completed"
			return nil
		})
		if err != nil || done {
			return err
		}
		if err := driver.Pause(ctx, importLook); err != nil {
			return err
		}
	}
	return fmt.Errorf("node %s: %s: the iDRAC accepted it, and %s later does not show it: look at its job queue", n.Label(), doing, imports*importLook)
}

// bootAttributes reads the iDRAC's attributes of its boot device; known is false where it shows none.
func bootAttributes(t *redfish.Turn, m manager) (is map[string]string, known bool, err error) {
	for _, at := range m.Links.Oem.Dell.DellAttributes {
		if !strings.Contains(at.Path, m.ID) {
			continue
		}
		var found struct{ Attributes map[string]any }
		err := t.Read(at.Path, &found)
		if redfish.Status(err) == 404 {
			continue
		}
		if err != nil {
			return nil, false, err
		}
		one, isText := found.Attributes[once].(string)
		other, isToo := found.Attributes[first].(string)
		if isText && isToo {
			return map[string]string{once: one, first: other}, true, nil
		}
	}
	return nil, false, nil
}
