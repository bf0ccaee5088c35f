package ribcl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
)

var errMissing = driver.Refuse("ilo_address is missing")

func TestConformance(t *testing.T) {
	drivertest.Conformance(t, func(t *testing.T) *drivertest.Machine { return newDouble(t).machine(t) })
}

// In UEFI mode the order is one of boot options, with descriptions.
func TestBootOrderInUEFIMode(t *testing.T) {
	d, r := newDouble(t), newDriver(t)
	d.order = []entry{
		{"Boot0007", "Embedded SAS : Smart Array P830i Controller - 279.367 GB, RAID 1 Logical Drive(Target:0, Lun:0)"},
		{"Boot000B", "iLO Virtual USB 2 : HP iLO Virtual USB CD/DVD ROM"},
		{"Boot0009", "Embedded FlexibleLOM 1 Port 1 :HP Ethernet 1Gb 4-port 331FLR Adapter - NIC (IPv4) "},
		{"Boot0008", "Embedded FlexibleLOM 1 Port 1 :HP Ethernet 1Gb 4-port 331FLR Adapter - NIC (IPv6) "}}
	n := d.node(password)
	for _, c := range []struct {
		device driver.BootDevice
		order  string
	}{{"pxe", "Boot0009 Boot0008 Boot0007 Boot000B"}, {"cdrom", "Boot000B Boot0009 Boot0008 Boot0007"}, {"disk", "Boot0007 Boot000B Boot0009 Boot0008"}} {
		if err := r.SetBootDevice(t.Context(), &drivertest.Fence{}, n, c.device, true); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range d.order {
			got = append(got, e.value)
		}
		if strings.Join(got, " ") != c.order {
			t.Errorf("%s first: %v, want %s", c.device, got, c.order)
		}
	}
	d.do(func() { d.order = d.order[:1] })
	if err := r.SetBootDevice(t.Context(), &drivertest.Fence{}, n, "pxe", true); !errors.Is(err, driver.ErrUnsupported) || !strings.Contains(err.Error(), "'NETWORK' is not configured as boot device") {
		t.Errorf("without a NIC: %v", err)
	}
}

func TestMachinesWithoutABootMode(t *testing.T) {
	d, r := newDouble(t), newDriver(t)
	d.mode = ""
	if _, err := r.BootMode(t.Context(), d.node(password)); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("%v", err)
	}
}

func TestVirtualMedia(t *testing.T) {
	const image = "http://images.example/ipa.iso?a=1&b=2"
	d, r := newDouble(t), newDriver(t)
	n, f := d.node(password), &drivertest.Fence{}
	for range 2 {
		if err := r.AttachMedia(t.Context(), f, n, "cdrom", image); err != nil || d.media["CDROM"] != image {
			t.Fatalf("%v, drives %v", err, d.media)
		}
	}
	if len(d.writes) != 2 {
		t.Errorf("writes: %v", d.writes)
	}
	list, err := r.Media(t.Context(), n)
	if err != nil || len(list) != 2 || !list[0].Inserted || list[0].Image != image || list[1].Inserted {
		t.Errorf("%+v, %v", list, err)
	}
	if err := r.EjectImage(t.Context(), f, n, "cdrom", func(i string) bool { return i != image }); err != nil || d.media["CDROM"] != image {
		t.Errorf("another image is meant: %v, drives %v", err, d.media)
	}
	if err := r.DetachMedia(t.Context(), f, n, nil); err != nil || len(d.media) > 0 {
		t.Errorf("%v, drives %v", err, d.media)
	}
	d.license = false
	if err := r.AttachMedia(t.Context(), f, n, "cdrom", image); !errors.Is(err, driver.ErrUnsupported) || !strings.Contains(err.Error(), "requires an installed license key") {
		t.Errorf("without a licence: %v", err)
	}
}

// The health of an ML110 G7, as its iLO 3 1.70 has told it (proliantutils), in part.
const healthG7 = `<GET_EMBEDDED_HEALTH_DATA>
<PROCESSORS><PROCESSOR><LABEL VALUE = "Proc 1"/><SPEED VALUE = "3300 MHz"/><EXECUTION_TECHNOLOGY VALUE = "4/4 cores; 8 threads"/><MEMORY_TECHNOLOGY VALUE = "64-bit Capable"/></PROCESSOR></PROCESSORS>
<MEMORY><MEMORY_COMPONENTS><MEMORY_COMPONENT><MEMORY_LOCATION VALUE = "DIMM  1 "/><MEMORY_SIZE VALUE = "Not Installed"/></MEMORY_COMPONENT>
<MEMORY_COMPONENT><MEMORY_SIZE VALUE = "4096 MB"/></MEMORY_COMPONENT><MEMORY_COMPONENT><MEMORY_SIZE VALUE = "4096 MB"/></MEMORY_COMPONENT></MEMORY_COMPONENTS></MEMORY>
<NIC_INFOMATION><NIC><NETWORK_PORT VALUE = "Port 1"/><MAC_ADDRESS VALUE = "e4:11:5b:a9:ae:70"/></NIC><NIC><NETWORK_PORT VALUE = "Port 2"/><MAC_ADDRESS VALUE = "e4:11:5b:a9:ae:71"/></NIC>
<iLO><NETWORK_PORT VALUE = "iLO Dedicated Network Port"/><MAC_ADDRESS VALUE = "e4:11:5b:a9:ae:73"/></iLO></NIC_INFOMATION>
<FIRMWARE_INFORMATION><INDEX_1><FIRMWARE_NAME VALUE = "HP ProLiant System ROM"/><FIRMWARE_VERSION VALUE = "07/01/2013"/></INDEX_1>
<INDEX_2><FIRMWARE_NAME VALUE = "HP ProLiant System ROM - Backup"/><FIRMWARE_VERSION VALUE = "12/04/2012"/></INDEX_2>
<INDEX_4><FIRMWARE_NAME VALUE = "iLO"/><FIRMWARE_VERSION VALUE = "1.70 Pass 25 Jan 09 2014"/></INDEX_4></FIRMWARE_INFORMATION>
<STORAGE><CONTROLLER><LOGICAL_DRIVE><CAPACITY VALUE="99 GB"/></LOGICAL_DRIVE></CONTROLLER></STORAGE>
</GET_EMBEDDED_HEALTH_DATA>`

// Of an iLO that tells no volume, another is asked for the size.
func TestSizeThatTheILODoesNotTell(t *testing.T) {
	d, r := newDouble(t), newDriver(t)
	d.health = strings.ReplaceAll(healthG7, "LOGICAL_DRIVE", "OTHER")
	rig := drivertest.NewRig()
	rig.Node.DriverInfo = d.info(password)
	size := func(context.Context, *driver.Task) (int64, error) { return 279, nil }
	_, err := r.Inspect(t.Context(), rig.Task(networkboot.IPXE()), size)
	if err != nil || !strings.Contains(string(rig.Inv.PluginData), `"local_gb":279`) {
		t.Errorf("%s, %v", rig.Inv.PluginData, err)
	}
	rig.Inv = nil
	silent := func(context.Context, *driver.Task) (int64, error) { return 0, driver.ErrUnreachable }
	if _, err := r.Inspect(t.Context(), rig.Task(networkboot.IPXE()), silent); !errors.Is(err, driver.ErrUnreachable) || rig.Inv != nil {
		t.Errorf("%v, %v", rig.Inv, err)
	}
}

func TestInspection(t *testing.T) {
	d, r := newDouble(t), newDriver(t)
	d.health = healthG7
	rig := drivertest.NewRig()
	rig.Node.DriverInfo = d.info(password)
	told := func(context.Context, *driver.Task) (int64, error) {
		t.Error("another is asked for the size that the iLO tells")
		return 0, nil
	}
	if _, err := r.Inspect(t.Context(), rig.Task(networkboot.IPXE()), told); err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(rig.Inv.Sent, &got); err != nil {
		t.Fatal(err)
	}
	for want, is := range map[string]any{
		"map[physical_mb:8192]": got["memory"], "map[architecture:x86_64 count:8]": got["cpu"],
		"[map[mac_address:e4:11:5b:a9:ae:70 name:Port 1] map[mac_address:e4:11:5b:a9:ae:71 name:Port 2]]":                               got["interfaces"],
		"map[manufacturer:HP product_name:ProLiant ML110 G7 serial_number:2M220102JA system_uuid:37363536-3636-4D32-3232-303130324A41]": got["system_vendor"],
	} {
		if fmt.Sprint(is) != want {
			t.Errorf("got %v, want %s", is, want)
		}
	}
	if s := string(rig.Inv.PluginData); s != `{"capabilities":{"server_model":"ProLiant ML110 G7"},"local_gb":98}` {
		t.Error(s)
	}
	list, err := r.Components(t.Context(), rig.Node)
	if err != nil || len(list) != 3 || list[0].Name != "bios" || list[2].Name != "bmc" {
		t.Errorf("%+v, %v", list, err)
	}
	id, err := r.Identity(t.Context(), rig.Node)
	if err != nil || id.Serial != "2M220102JA" || id.Model != "ProLiant ML110 G7" {
		t.Errorf("%+v, %v", id, err)
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add(answer(healthG7))
	f.Add(refusal(0x5f, "Login failed."))
	f.Add("<?xml version='1.0'?><RIBCL><RESPONSE STATUS='0x' MESSAGE=''/>")
	f.Fuzz(func(t *testing.T, text string) {
		if parts, err := parse(text); err == nil && len(parts) == 0 {
			t.Error("no part, and no error")
		}
	})
}
