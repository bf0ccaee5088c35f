package redfish

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/fake"
	"github.com/ironyard/ironyard/rackd/driver/mediaboot"
	"github.com/ironyard/ironyard/rackd/driver/redfish/redfishtest"
)

// A BMC by Redfish keeps no CD of an instance that is not to be, and no boot from it.
func TestACDIsTakenBack(t *testing.T) {
	l := &lazyDrives{tree: newTree()}
	k := mediaTask(t, l)
	k.Node.InstanceInfo = map[string]any{"boot_iso": "http://192.0.2.1/live.iso"}
	k.Node.Interfaces = map[string]string{"deploy": "ramdisk"} // which boots it
	boot := func() string {
		l.tree.mu.Lock()
		defer l.tree.mu.Unlock()
		b, _ := l.at["/redfish/v1/Systems/1"]["Boot"].(map[string]any)
		return fmt.Sprint(l.at[cdAt]["Inserted"], " ", b["BootSourceOverrideTarget"], " ", b["BootSourceOverrideEnabled"])
	}
	if err := (mediaboot.Interface{}).PrepareInstance(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	if got := boot(); got != "true Cd Continuous" {
		t.Fatalf("the instance is prepared, and the BMC shows %s", got)
	}
	for range 2 {
		if err := driver.TakeBackInstance(t.Context(), k); err != nil {
			t.Fatal(err)
		}
		if got := boot(); got != "false Hdd Continuous" {
			t.Errorf("taken back, and the BMC shows %s; writes %q", got, l.written())
		}
	}
}

// Firmware attaches no volume of an instance that is not to be. Its order of boot options, which has the volume first, counts no longer.
func TestAVolumeIsTakenBack(t *testing.T) {
	b := adapters(t, false)
	const options = redfishtest.System + "/BootOptions"
	b.Do(func() {
		b.At[options] = redfishtest.Links(options + "/Boot0004")
		b.At[options+"/Boot0004"] = map[string]any{"@odata.id": options + "/Boot0004", "BootOptionReference": "Boot0004",
			"UefiDevicePath": "PciRoot(0x0)/MAC(525400000001,0x1)/iSCSI(iqn.2026-11.org.example:v,0x1,0x0,None,None,None,TCP)"}
		b.At[redfishtest.System]["Boot"] = map[string]any{"BootOrder": []any{"Boot0001", "Boot0004"}, "BootOptions": redfishtest.Link(options),
			"BootSourceOverrideTarget": "None", "BootSourceOverrideEnabled": "Disabled"}
	})
	d := newDriver(t, Options{})
	kind := fake.New(fake.Options{}).Type()
	kind.Interfaces["boot"] = []driver.Named{{Name: "redfish-virtual-media", Impl: mediaboot.HTTPBoot(nil)}}
	kind.Interfaces["management"] = []driver.Named{{Name: "redfish", Impl: d}}
	reg, err := driver.NewRegistry(kind)
	if err != nil {
		t.Fatal(err)
	}
	k := drivertest.NewRig().Task(mediaboot.HTTPBoot(nil))
	k.Node = &node.Document{UUID: "u", Driver: kind.Name, DriverInfo: map[string]any{fieldAddress: b.URL, fieldUser: redfishtest.User, fieldPassword: redfishtest.Password, fieldVerifyCA: b.CA}}
	if k.Hardware, err = reg.Resolve(k.Node); err != nil {
		t.Fatal(err)
	}
	k.Node.Interfaces = map[string]string{"storage": "external"}
	k.Node.Targets = []node.Target{{UUID: "t", Type: "iscsi", Properties: map[string]any{"target_iqn": "iqn.2026-11.org.example:v", "target_portal": "192.0.2.9", "auth_username": "m1", "auth_password": "pa55w0rd12"}}}
	order := func() string {
		is := ""
		b.Do(func() {
			boot, _ := b.At[redfishtest.System]["Boot"].(map[string]any)
			is = fmt.Sprint(boot["BootOrder"], boot["BootSourceOverrideTarget"], boot["BootSourceOverrideEnabled"])
		})
		return is
	}
	if err := mediaboot.HTTPBoot(nil).PrepareInstance(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	if list, err := d.ISCSIBoot(t.Context(), k.Node); err != nil || len(list) != 2 || !strings.HasPrefix(order(), "[Boot0004 Boot0001]") {
		t.Fatalf("the instance is prepared: %+v, %v; %s", list, err, order())
	}
	for range 2 {
		if err := driver.TakeBackInstance(t.Context(), k); err != nil {
			t.Fatal(err)
		}
		if list, err := d.ISCSIBoot(t.Context(), k.Node); err != nil || len(list) != 0 || !strings.HasSuffix(order(), "HddContinuous") {
			t.Errorf("taken back: %+v, %v; %s; writes %q", list, err, order(), b.Written())
		}
	}
}
