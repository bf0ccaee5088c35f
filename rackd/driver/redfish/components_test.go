package redfish

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
)

// cards are the parts of a rack: two adapters alike, a drive and two power supplies.
type cards struct {
	rack     *rack
	versions map[string]string // by id; what is not in it is not shown
	serials  map[string]string
	hides    func() bool // the adapters are not shown now
}

const adaptersAt = chassisAt + "/NetworkAdapters"

// withCards gives a rack parts. A file is for the part that it is named after; both is for both adapters.
func withCards(k *rack) *cards {
	c := &cards{rack: k, hides: func() bool { return false },
		versions: map[string]string{"NIC.1": "1.0", "NIC.2": "1.0", "0": "1.0", "PS0": "1.0", "PS1": "1.0"},
		serials:  map[string]string{"NIC.1": "N1", "NIC.2": "N2", "0": "D0", "PS0": "P0", "PS1": "P1"}}
	k.flash = func(file string) {
		for _, id := range map[string][]string{"one": {"NIC.1"}, "two": {"NIC.2"}, "both": {"NIC.1", "NIC.2"}, "drive": {"0"}, "psu": {"PS0"}}[strings.TrimPrefix(file, "http://files/")] {
			c.versions[id] = "2.0"
		}
	}
	card := func(id string) func() any {
		return func() any {
			if v, there := c.versions[id]; there && !c.hides() {
				return map[string]any{"@odata.id": adaptersAt + "/" + id, "Id": id, "Manufacturer": "Cards", "Model": "25G", "SerialNumber": c.serials[id],
					"Controllers": []any{map[string]any{"FirmwarePackageVersion": v}}}
			}
			return nil
		}
	}
	k.more = map[string]func() any{
		chassisAt: func() any {
			return map[string]any{"@odata.id": chassisAt, "Id": "1", "NetworkAdapters": link(adaptersAt), "Power": link(chassisAt + "/Power")}
		},
		adaptersAt:            func() any { return links(adaptersAt+"/NIC.1", adaptersAt+"/NIC.2") },
		adaptersAt + "/NIC.1": card("NIC.1"), adaptersAt + "/NIC.2": card("NIC.2"),
		chassisAt + "/Power": func() any {
			var list []any
			for _, id := range []string{"PS0", "PS1"} {
				if v, there := c.versions[id]; there {
					list = append(list, map[string]any{"MemberId": id[2:], "Manufacturer": "Volts", "Model": "800W", "SerialNumber": c.serials[id], "FirmwareVersion": v})
				}
			}
			return map[string]any{"PowerSupplies": list}
		},
		storageAt + "/A/Drives/0": func() any {
			return map[string]any{"@odata.id": storageAt + "/A/Drives/0", "Id": "0", "Manufacturer": "Disks", "Model": "SSD", "SerialNumber": c.serials["0"], "Revision": c.versions["0"]}
		},
	}
	return c
}

// updatesOf are the step's arguments, of components with their files.
func updatesOf(pairs ...string) map[string]any {
	list := []any{}
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, map[string]any{"component": pairs[i], "url": "http://files/" + pairs[i+1]})
	}
	return map[string]any{"settings": list}
}

// flashedOf are the components that were told as flashed, with their versions.
func flashedOf(r *drivertest.Rig) string {
	var list []string
	for _, o := range r.Observed.Firmware {
		if o.Flashed != "" {
			list = append(list, o.Name+"="+o.Flashed)
		}
	}
	return strings.Join(list, " ")
}

// Adapters, drives and power supplies are listed with what the BMC tells of them.
func TestFirmwareOfParts(t *testing.T) {
	k := newRack()
	withCards(k)
	r, d := rigOn(t, k)
	list, err := (Firmware{Driver: d}).Components(t.Context(), r.Node)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range list[2:] {
		got = append(got, strings.Join([]string{c.Name, c.Current, c.Vendor, c.Model, c.Serial}, " "))
	}
	if want := []string{"nic:N1 1.0 Cards 25G N1", "nic:N2 1.0 Cards 25G N2", "psu:0 1.0 Volts 800W P0", "psu:1 1.0 Volts 800W P1", "drive:0 1.0 Disks SSD D0"}; !slices.Equal(got, want) {
		t.Errorf("listed %q, want %q", got, want)
	}
}

// What BMCs write in ways of their own.
func TestFirmwareOfOddParts(t *testing.T) {
	const enclosure, other, mezz = "/redfish/v1/Chassis/E", "/redfish/v1/Chassis/O", "/redfish/v1/Chassis/M"
	body := func(v map[string]any) func() any { return func() any { return v } }
	controllers := func(versions ...any) []any {
		var list []any
		for _, v := range versions {
			list = append(list, map[string]any{"FirmwarePackageVersion": v})
		}
		return list
	}
	chassis := func(adapters ...map[string]any) map[string]any {
		var members []any
		for _, a := range adapters {
			members = append(members, a)
		}
		return map[string]any{"Members": members}
	}
	for name, c := range map[string]struct {
		more map[string]func() any
		want string
	}{
		"two of one name": {map[string]func() any{
			chassisAt:                 body(map[string]any{"Id": "1", "NetworkAdapters": link(adaptersAt), "Links": map[string]any{"Contains": []any{link(mezz)}}}),
			mezz:                      body(map[string]any{"Id": "M", "NetworkAdapters": link(mezz + "/NetworkAdapters")}),
			adaptersAt:                body(chassis(map[string]any{"@odata.id": adaptersAt + "/1", "Id": "1", "Controllers": controllers("a")}, map[string]any{"@odata.id": adaptersAt + "/2", "Id": "2", "Controllers": controllers("b")})),
			mezz + "/NetworkAdapters": body(chassis(map[string]any{"@odata.id": mezz + "/NetworkAdapters/1", "Id": "1", "Controllers": controllers("c")})),
		}, "nic:1/1=a nic:2=b nic:M/1=c"},
		"adapters of one serial number, and of none": {map[string]func() any{
			chassisAt: body(map[string]any{"Id": "1", "NetworkAdapters": link(adaptersAt)}),
			adaptersAt: body(chassis(map[string]any{"@odata.id": adaptersAt + "/1", "SerialNumber": "S", "Controllers": controllers("a")}, map[string]any{"@odata.id": adaptersAt + "/2", "SerialNumber": "S", "Controllers": controllers("b")},
				map[string]any{"@odata.id": adaptersAt + "/3", "SerialNumber": "N/A", "Controllers": controllers("c")}, map[string]any{"@odata.id": adaptersAt + "/4", "SerialNumber": "T", "Controllers": controllers("d")})),
		}, "nic:1=a nic:2=b nic:3=c nic:T=d"},
		"two of one name in one chassis": {map[string]func() any{
			chassisAt:  body(map[string]any{"Id": "1", "NetworkAdapters": link(adaptersAt)}),
			adaptersAt: body(chassis(map[string]any{"@odata.id": adaptersAt + "/x", "Id": "1", "Controllers": controllers("a")}, map[string]any{"@odata.id": adaptersAt + "/y", "Id": "1", "Controllers": controllers("b")})),
		}, "nic:Chassis/1/NetworkAdapters/x=a nic:Chassis/1/NetworkAdapters/y=b"},
		"one that is linked twice": {map[string]func() any{
			chassisAt:         body(map[string]any{"Id": "1", "NetworkAdapters": link(adaptersAt)}),
			adaptersAt:        body(links(adaptersAt+"/1", adaptersAt+"/1/")),
			adaptersAt + "/1": body(map[string]any{"Id": "1", "Controllers": controllers("a")}),
		}, "nic:1=a"},
		"no version, in all words": {map[string]func() any{
			chassisAt: body(map[string]any{"Id": "1", "NetworkAdapters": link(adaptersAt)}),
			adaptersAt: body(chassis(map[string]any{"@odata.id": adaptersAt + "/1", "Controllers": controllers("")}, map[string]any{"@odata.id": adaptersAt + "/2", "Controllers": controllers("nil")},
				map[string]any{"@odata.id": adaptersAt + "/3", "Controllers": controllers(nil)}, map[string]any{"@odata.id": adaptersAt + "/4"}, map[string]any{"@odata.id": adaptersAt + "/5", "Controllers": controllers("0.0.0")},
				map[string]any{"@odata.id": adaptersAt + "/6", "Controllers": controllers(7)}, map[string]any{"@odata.id": adaptersAt + "/7", "Controllers": "none"})),
		}, ""},
		"controllers of two versions": {map[string]func() any{
			chassisAt:  body(map[string]any{"Id": "1", "NetworkAdapters": link(adaptersAt)}),
			adaptersAt: body(chassis(map[string]any{"@odata.id": adaptersAt + "/1", "Controllers": controllers("a", "a", "b")}, map[string]any{"@odata.id": adaptersAt + "/2", "Controllers": controllers("a", "a"), "SerialNumber": 5})),
		}, "nic:1=a + b nic:2=a"},
		"an empty bay": {map[string]func() any{
			chassisAt:                 body(map[string]any{"Id": "1", "Power": link(chassisAt + "/Power")}),
			chassisAt + "/Power":      body(map[string]any{"PowerSupplies": []any{map[string]any{"MemberId": "0", "FirmwareVersion": "1", "Status": map[string]any{"State": "Absent"}}, map[string]any{"MemberId": "1", "FirmwareVersion": "2"}}}),
			storageAt + "/A/Drives/1": body(map[string]any{"Id": "1", "FirmwareVersion": "3", "Status": map[string]any{"State": "Absent"}}),
		}, "psu:1=2"},
		"the newer form of supplies": {map[string]func() any{
			chassisAt:                                        body(map[string]any{"Id": "1", "Power": link(chassisAt + "/Power"), "PowerSubsystem": link(chassisAt + "/PowerSubsystem")}),
			chassisAt + "/Power":                             body(map[string]any{}),
			chassisAt + "/PowerSubsystem":                    body(map[string]any{"PowerSupplies": link(chassisAt + "/PowerSubsystem/PowerSupplies")}),
			chassisAt + "/PowerSubsystem/PowerSupplies":      body(links(chassisAt + "/PowerSubsystem/PowerSupplies/Bay1")),
			chassisAt + "/PowerSubsystem/PowerSupplies/Bay1": body(map[string]any{"Id": "Bay1", "FirmwareVersion": "4"}),
		}, "psu:Bay1=4"},
		"around the system, and of another": {map[string]func() any{
			chassisAt:            body(map[string]any{"Id": "1", "Links": map[string]any{"ContainedBy": link(enclosure)}}),
			enclosure:            body(map[string]any{"Id": "E", "NetworkAdapters": link(enclosure + "/N"), "Power": link(enclosure + "/Power"), "Links": map[string]any{"Contains": []any{link(other), link(chassisAt)}, "ContainedBy": link(enclosure)}}),
			enclosure + "/N":     body(chassis(map[string]any{"@odata.id": enclosure + "/N/1", "Controllers": controllers("a")})),
			enclosure + "/Power": body(map[string]any{"PowerSupplies": []any{map[string]any{"MemberId": "0", "FirmwareVersion": "1"}}}),
			other:                body(map[string]any{"Id": "O", "NetworkAdapters": link(other + "/N"), "Links": map[string]any{"ComputerSystems": []any{link("/redfish/v1/Systems/2")}}}),
			other + "/N":         body(chassis(map[string]any{"@odata.id": other + "/N/9", "Controllers": controllers("b")})),
		}, "nic:1=a"},
		"the list of firmware tells it": {map[string]func() any{
			chassisAt:  body(map[string]any{"Id": "1", "NetworkAdapters": link(adaptersAt)}),
			adaptersAt: body(chassis(map[string]any{"@odata.id": adaptersAt + "/1", "Id": "1"}, map[string]any{"@odata.id": adaptersAt + "/2", "Id": "2"}, map[string]any{"@odata.id": adaptersAt + "/3", "Controllers": controllers("c")})),
			updateAt:   body(map[string]any{"FirmwareInventory": link(updateAt + "/F")}),
			updateAt + "/F": body(chassis(map[string]any{"@odata.id": updateAt + "/F/1", "Version": "a", "RelatedItem": []any{link(adaptersAt + "/1/")}},
				map[string]any{"@odata.id": updateAt + "/F/2", "Version": "a", "RelatedItem": []any{link(adaptersAt + "/2")}}, map[string]any{"@odata.id": updateAt + "/F/3", "Version": "b", "RelatedItem": []any{link(adaptersAt + "/2")}},
				map[string]any{"@odata.id": updateAt + "/F/4", "Version": "d", "RelatedItem": []any{link(adaptersAt + "/3")}})),
		}, "nic:1=a nic:3=c"},
		"ids with dots and colons": {map[string]func() any{
			chassisAt:  body(map[string]any{"Id": "System.Embedded.1", "NetworkAdapters": link(adaptersAt), "Power": link(chassisAt + "/Power")}),
			adaptersAt: body(chassis(map[string]any{"@odata.id": adaptersAt + "/NIC.Integrated.1", "Id": "NIC.Integrated.1", "Controllers": controllers("22.31.13.70")})),
			chassisAt + "/Power": body(map[string]any{"PowerSupplies": []any{map[string]any{"MemberId": "PSU.Slot.1", "FirmwareVersion": "00.1B.53"},
				map[string]any{"MemberId": "PSU.Slot.2"}}}),
			storageAt + "/A/Drives/0": body(map[string]any{"Id": "Disk.Bay.0:Enclosure.Internal.0-1:RAID.Integrated.1-1", "Revision": "C109"}),
			updateAt:                  body(map[string]any{"FirmwareInventory": link(updateAt + "/F")}),
			updateAt + "/F": body(chassis(map[string]any{"@odata.id": updateAt + "/F/1", "Version": "00.1B.54",
				"RelatedItem": []any{link(chassisAt + "/Power#PowerSupplies/PSU.Slot.2")}})),
		}, "nic:NIC.Integrated.1=22.31.13.70 psu:PSU.Slot.1=00.1B.53 psu:PSU.Slot.2=00.1B.54 drive:Disk.Bay.0:Enclosure.Internal.0-1:RAID.Integrated.1-1=C109"},
		"a list on several pages": {map[string]func() any{
			chassisAt:            body(map[string]any{"Id": "1", "NetworkAdapters": link(adaptersAt)}),
			adaptersAt:           body(map[string]any{"Members": []any{map[string]any{"@odata.id": adaptersAt + "/1", "Controllers": controllers("a")}}, "Members@odata.nextLink": adaptersAt + "/more?skip=1"}),
			adaptersAt + "/more": body(chassis(map[string]any{"@odata.id": adaptersAt + "/2", "Controllers": controllers("b")})),
		}, "nic:1=a nic:2=b"},
		"a name that is too long": {map[string]func() any{
			chassisAt:  body(map[string]any{"Id": "1", "NetworkAdapters": link(adaptersAt)}),
			adaptersAt: body(chassis(map[string]any{"@odata.id": adaptersAt + "/1", "Id": strings.Repeat("x", 255), "Controllers": controllers("a")}, map[string]any{"@odata.id": adaptersAt + "/2", "Id": strings.Repeat("y", 251), "Controllers": controllers("a")})),
		}, "nic:" + strings.Repeat("y", 251) + "=a"},
		"what is refused": {map[string]func() any{
			chassisAt:            body(map[string]any{"Id": "1", "NetworkAdapters": link(adaptersAt), "Power": link(chassisAt + "/Power")}),
			adaptersAt:           body(map[string]any{"Members": "many"}),
			chassisAt + "/Power": body(map[string]any{"PowerSupplies": []any{map[string]any{"MemberId": "1", "FirmwareVersion": "2"}}}),
		}, "psu:1=2"},
	} {
		t.Run(name, func(t *testing.T) {
			k := newRack()
			k.more = c.more
			r, d := rigOn(t, k)
			list, err := (Firmware{Driver: d}).Components(t.Context(), r.Node)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, c := range list[2:] {
				got = append(got, c.Name+"="+c.Current)
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("listed %q, want %q", got, c.want)
			}
		})
	}
}

// What one reading asks of a BMC is bounded, and so is what it lists.
func TestPartsWithoutEnd(t *testing.T) {
	t.Parallel()
	k, asked := newRack(), 0
	withCards(k)
	many := []string{}
	for i := range 1000 {
		at := fmt.Sprintf("/redfish/v1/Chassis/X%d", i)
		many = append(many, at)
		k.more[at] = func() any {
			asked++
			return map[string]any{"Id": at[len(at)-1:], "NetworkAdapters": link(at + "/N"), "Power": link(at + "/P"), "PowerSubsystem": link(at + "/Q")}
		}
		k.more[at+"/P"] = func() any { asked++; return map[string]any{} }
		k.more[at+"/Q"] = func() any { asked++; return map[string]any{} }
		k.more[at+"/N"] = func() any {
			asked++
			var list []any
			for i := range 500 {
				list = append(list, map[string]any{"@odata.id": fmt.Sprintf("%s/N/%d", at, i), "Controllers": []any{map[string]any{"FirmwarePackageVersion": "1"}}})
			}
			return map[string]any{"Members": list, "Members@odata.nextLink": at + "/N"}
		}
	}
	k.more[chassisAt] = func() any {
		var list []any
		for _, m := range many {
			list = append(list, link(m))
		}
		return map[string]any{"Id": "1", "Links": map[string]any{"Contains": list}}
	}
	r, d := rigOn(t, k)
	list, err := (Firmware{Driver: d}).Components(t.Context(), r.Node)
	if err != nil || asked > mostQuestions || asked < mostChassis || len(list) > mostListed+2 || len(list) < mostParts {
		t.Errorf("%d components by %d requests, %v", len(list), asked, err)
	}
	err = runStep(t, r, stepNamed(t, Firmware{Driver: d}.NamedSteps(r.Node), "update"), updatesOf("nic:nonesuch", "one"))
	if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "more than rackd reads") || len(err.Error()) > 3000 {
		t.Errorf("%v", err)
	}
}

// Of each list so many parts are read, and no more.
func TestLongListsOfParts(t *testing.T) {
	k := newRack()
	withCards(k)
	many := func(of func(id string) any) (list []any) {
		for i := range 500 {
			list = append(list, of(fmt.Sprint(i)))
		}
		return list
	}
	k.more[adaptersAt] = func() any {
		return map[string]any{"Members": many(func(id string) any {
			return map[string]any{"@odata.id": adaptersAt + "/" + id, "Controllers": []any{map[string]any{"FirmwarePackageVersion": "1"}}}
		})}
	}
	k.more[chassisAt+"/Power"] = func() any {
		return map[string]any{"PowerSupplies": many(func(id string) any { return map[string]any{"MemberId": id, "FirmwareVersion": "1"} })}
	}
	k.more[storageAt+"/A"] = func() any {
		return map[string]any{"Id": "A", "Drives": many(func(id string) any {
			at := storageAt + "/A/Drives/" + id
			k.more[at] = func() any { return map[string]any{"Id": id, "FirmwareVersion": "1"} }
			return link(at)
		})}
	}
	r, d := rigOn(t, k)
	o, err := (Firmware{Driver: d}).found(t.Context(), r.Node)
	count := map[string]int{}
	for _, p := range o.parts {
		count[p.kind]++
	}
	if err != nil || !o.cut || count[kindNIC] != mostParts || count[kindPSU] != mostParts || count[kindDrive] != mostParts {
		t.Errorf("listed %v, cut %t, %v", count, o.cut, err)
	}
}

// A component that is not there, or whose version would not show, is refused before anything is ordered.
func TestFirmwareOfAPartThatIsNotThere(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(*cards)
		args map[string]any
		says []string
	}{
		"none of that name, in the second update": {nil, updatesOf("bios", "bios.bin", "nic:NIC.9", "one"), []string{"firmware update 2", `no component "nic:NIC.9"`, "It shows bios, bmc, nic:N1, nic:N2, psu:0, psu:1, drive:0", "power.power_on"}},
		"another kind":  {nil, updatesOf("drive:NIC.1", "one"), []string{`no component "drive:NIC.1"`}},
		"not shown now": {func(c *cards) { c.hides = func() bool { return true } }, updatesOf("nic:NIC.1", "one"), []string{`no component "nic:NIC.1"`, "It shows bios, bmc, psu:0"}},
		"no version":    {func(c *cards) { c.versions["NIC.1"] = "N/A" }, updatesOf("nic:NIC.1", "one"), []string{"tells no version of component", "nic:N2"}},
		"two of that name": {func(c *cards) {
			k := c.rack
			k.more[chassisAt] = func() any {
				return map[string]any{"Id": "1", "NetworkAdapters": link(adaptersAt), "Links": map[string]any{"Contains": []any{link("/redfish/v1/Chassis/M")}}}
			}
			k.more["/redfish/v1/Chassis/M"] = func() any { return map[string]any{"Id": "M", "NetworkAdapters": link("/redfish/v1/Chassis/M/N")} }
			k.more["/redfish/v1/Chassis/M/N"] = func() any { return links("/redfish/v1/Chassis/M/N/NIC.1") }
			k.more["/redfish/v1/Chassis/M/N/NIC.1"] = func() any {
				return map[string]any{"Id": "NIC.1", "Controllers": []any{map[string]any{"FirmwarePackageVersion": "7"}}}
			}
		}, updatesOf("nic:NIC.1", "one"), []string{`2 components "nic:NIC.1"`, "nic:N1, nic:N2, nic:M/NIC.1"}},
	} {
		t.Run(name, func(t *testing.T) {
			k := newRack()
			of := withCards(k)
			if c.set != nil {
				c.set(of)
			}
			r, d := rigOn(t, k)
			err := runStep(t, r, stepNamed(t, Firmware{Driver: d}.NamedSteps(r.Node), "update"), c.args)
			if !errors.Is(err, driver.ErrInvalid) || len(k.writes) > 0 || len(r.Writes("power")) > 0 {
				t.Fatalf("%v; the BMC was told %q, the machine's power %q", err, k.writes, r.Writes("power"))
			}
			for _, part := range c.says {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%v, want %q in it", err, part)
				}
			}
		})
	}
}

// A part's firmware is told as written once the part shows another version, and else the step fails by the part's name.
func TestFirmwareOfPartsIsReadBack(t *testing.T) {
	t.Parallel()
	const offOn = "power power on,power power off"
	restarted := func(c *cards) bool { return c.rack.restarts() > 0 }
	for name, c := range map[string]struct {
		set     func(*cards, *drivertest.Rig)
		args    map[string]any
		orders  int
		power   string
		flashed string
		says    string // of the error; empty: the step ends well
		history string
	}{
		"an adapter, written at once": {func(c *cards, _ *drivertest.Rig) { c.rack.stages = false }, updatesOf("nic:NIC.1", "one"), 1, "", "nic:N1=2.0", "", ""},
		"a drive":                     {func(c *cards, _ *drivertest.Rig) { c.rack.stages = false }, updatesOf("drive:0", "drive"), 1, "", "drive:0=2.0", "", ""},
		"a power supply":              {func(c *cards, _ *drivertest.Rig) { c.rack.stages = false }, updatesOf("psu:0", "psu"), 1, "", "psu:0=2.0", "", ""},
		"by its serial number":        {func(c *cards, _ *drivertest.Rig) { c.rack.stages = false }, updatesOf("nic:N2", "two"), 1, "", "nic:N2=2.0", "", ""},
		"by its longer name":          {func(c *cards, _ *drivertest.Rig) { c.rack.stages = false }, updatesOf("nic:1/NIC.2", "two"), 1, "", "nic:N2=2.0", "", ""},
		"staged, by a task that waits": {func(c *cards, _ *drivertest.Rig) { c.rack.unbegun = "Pending" }, updatesOf("nic:NIC.1", "one"), 1, offOn, "nic:N1=2.0", "",
			"when the machine restarts"},
		"staged, without a task": {nil, updatesOf("drive:0", "drive"), 1, offOn, "drive:0=2.0", "", "shows version 1.0, as before"},
		"staged, and not shown while the machine is off": {func(c *cards, r *drivertest.Rig) {
			c.rack.unbegun = "Pending"
			looked := 0
			r.SetPowerState(driver.PowerOn)
			c.hides = func() bool { // from the order on, and for a while after the restart
				looked++
				return len(c.rack.writes) > 0 && (!restarted(c) || looked < 60)
			}
		}, updatesOf("nic:NIC.1", "one"), 1, "power power off,power power on", "nic:N1=2.0", "", ""},
		"not shown once the machine is off again": {func(c *cards, r *drivertest.Rig) {
			c.rack.unbegun = "Pending"
			c.hides = func() bool { return restarted(c) && len(r.Writes("power power off")) > 0 }
		}, updatesOf("nic:NIC.1", "one"), 1, offOn, "nic:N1=2.0", "", ""},
		"two, the second not shown for a while after the first": {func(c *cards, _ *drivertest.Rig) {
			c.rack.unbegun = "Pending"
			looked := 0
			c.hides = func() bool { looked++; return restarted(c) && looked%50 < 30 }
		}, updatesOf("nic:NIC.1", "one", "nic:NIC.2", "two"), 2, "power power on,power power off,power power on,power power off", "nic:N1=2.0 nic:N2=2.0", "", ""},
		"two alike, of one file that writes both": {func(c *cards, _ *drivertest.Rig) { c.rack.unbegun = "Pending" }, updatesOf("nic:NIC.1", "both", "nic:NIC.2", "both"), 1,
			offOn, "nic:N1=2.0 nic:N2=2.0", "", "since the update of the nic:NIC.1 with the same file"},
		"two alike, and the file is for one": {func(c *cards, _ *drivertest.Rig) { c.rack.stages = false }, updatesOf("nic:NIC.1", "one", "nic:NIC.2", "one"), 2,
			"power power on", "", "update the firmware of the nic:NIC.2: the BMC said that it has ended, and the nic:NIC.2 shows version 1.0, also 15 minutes after the machine was restarted", ""},
		"it says that it has ended, and writes nothing": {func(c *cards, _ *drivertest.Rig) { c.rack.stages, c.rack.lies = false, true }, updatesOf("nic:NIC.1", "one"), 1, "power power on", "",
			"the nic:NIC.1 shows version 1.0, also 15 minutes after the machine was restarted; it was version 1.0", ""},
		"it writes another adapter": {func(c *cards, _ *drivertest.Rig) { c.rack.stages = false }, updatesOf("nic:NIC.1", "two"), 1, "power power on", "", "the nic:NIC.1 shows version 1.0", ""},
		"gone for good": {func(c *cards, _ *drivertest.Rig) { c.hides = func() bool { return restarted(c) } }, updatesOf("nic:NIC.1", "one"), 1, "power power on", "",
			"shows no version (the BMC shows nothing at " + adaptersAt + "/NIC.1)", ""},
		"gone before its order": {func(c *cards, _ *drivertest.Rig) {
			c.rack.stages = false
			was := c.rack.flash
			c.rack.flash = func(file string) { was(file); delete(c.versions, "NIC.2") }
		}, updatesOf("nic:NIC.1", "one", "nic:NIC.2", "two"), 1, "", "", "nothing was ordered, because the nic:NIC.2, which showed version 1.0 when the step began", ""},
		"another card in its place": {func(c *cards, _ *drivertest.Rig) {
			was := c.rack.flash
			c.rack.flash = func(file string) { was(file); c.serials["NIC.1"] = "N9" }
		}, updatesOf("nic:NIC.1", "one"), 1, "power power on", "", "serial number N9 is in the place of the one with N1", ""},
		"a version that is no version": {func(c *cards, _ *drivertest.Rig) { c.rack.flash = func(string) { c.versions["NIC.1"] = "0.0.0.0" } }, updatesOf("nic:NIC.1", "one"), 1,
			"power power on", "", "shows no version (the BMC tells none)", ""},
		"a task that fails": {func(c *cards, _ *drivertest.Rig) { c.rack.unbegun, c.rack.result = "Pending", "Exception" }, updatesOf("psu:0", "psu"), 1, "power power on", "", "worn out", ""},
		"a supply that is pulled": {func(c *cards, _ *drivertest.Rig) {
			was := c.rack.flash
			c.rack.flash = func(file string) { was(file); delete(c.versions, "PS0") }
		}, updatesOf("psu:0", "psu"), 1, "power power on", "", "#/PowerSupplies/0", ""},
	} {
		t.Run(name, func(t *testing.T) {
			k := newRack()
			of := withCards(k)
			r, d := stagedRig(t, k)
			if c.set != nil {
				c.set(of, r)
			}
			err := runStep(t, r, stepNamed(t, Firmware{Driver: d}.NamedSteps(r.Node), "update"), c.args)
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %q", err, c.says)
			}
			if got := strings.Join(r.Writes("power"), ","); got != c.power || len(k.writes) != c.orders {
				t.Errorf("power %q, want %q; orders %q, want %d", got, c.power, k.writes, c.orders)
			}
			if got := flashedOf(r); got != c.flashed {
				t.Errorf("flashed %q, want %q", got, c.flashed)
			}
			if told := strings.Join(r.Phases, "\n"); !strings.Contains(told, c.history) {
				t.Errorf("the node's history says %q, want %q", told, c.history)
			}
			if len(r.Busy) > 0 {
				t.Errorf("the BMC is said to be busy with %q", r.Busy)
			}
		})
	}
}

// An adapter whose controllers tell different versions is written when none tells its version of before, or all tell one.
func TestControllersOfAnAdapter(t *testing.T) {
	for _, c := range []struct {
		was, now string
		several  bool
		want     bool
	}{
		{"1", "2", false, true}, {"1", "1", false, false}, {"1", "", false, false}, {"", "1", false, true},
		{"1", "1 + 2", true, false}, {"1 + 2", "2", true, true}, {"1 + 2", "3 + 4", true, true}, {"1 + 2", "2 + 3", true, false}, {"a + c", "b + c", false, true},
	} {
		if got := (firmwareShown{version: c.now, several: c.several}).changed(c.was); got != c.want {
			t.Errorf("%q after %q counts as written: %t", c.now, c.was, got)
		}
	}
	k := newRack()
	withCards(k)
	one, two := "1.0", "1.0"
	k.more[adaptersAt+"/NIC.1"] = func() any {
		list := []any{map[string]any{"FirmwarePackageVersion": one}, map[string]any{"FirmwarePackageVersion": two}}
		if one == "2.0" && two == "" {
			list = list[:1]
		}
		return map[string]any{"Id": "NIC.1", "Controllers": list}
	}
	for name, c := range map[string]struct{ then, says string }{"the second keeps its version": {"1.0", "shows version 2.0 + 1.0"}, "the second does not show": {"", "1 of its 2 controllers show theirs"}} {
		one, two = "1.0", "1.0"
		k.flash = func(string) { one, two = "2.0", c.then }
		r, d := stagedRig(t, k)
		if err := runStep(t, r, stepNamed(t, Firmware{Driver: d}.NamedSteps(r.Node), "update"), updatesOf("nic:NIC.1", "one")); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}

// Where only the list of firmware tells a part's version, it tells whether the part was written.
func TestFirmwareThatOnlyTheListTells(t *testing.T) {
	for _, lies := range []bool{false, true} {
		k := newRack()
		of := withCards(k)
		tells := of.versions["NIC.1"]
		was := k.flash
		of.versions["NIC.1"] = ""
		k.flash = func(file string) { was(file); of.versions["NIC.1"], tells = "", "2.0" }
		simple := map[string]any{"#UpdateService.SimpleUpdate": map[string]any{"target": updateAt + "/Actions/Simple"}}
		k.more[updateAt] = func() any { return map[string]any{"Actions": simple, "FirmwareInventory": link(updateAt + "/F")} }
		k.more[updateAt+"/F"] = func() any { return links(updateAt + "/F/1") }
		k.more[updateAt+"/F/1"] = func() any {
			return map[string]any{"Id": "1", "Version": tells, "RelatedItem": []any{link(adaptersAt + "/NIC.1")}}
		}
		r, d := stagedRig(t, k)
		k.stages, k.lies = false, lies
		err := runStep(t, r, stepNamed(t, Firmware{Driver: d}.NamedSteps(r.Node), "update"), updatesOf("nic:NIC.1", "one"))
		if got := flashedOf(r); lies != (err != nil) || !lies && got != "nic:N1=2.0" {
			t.Errorf("lies %t: %v, flashed %q", lies, err, got)
		}
	}
}

// An order of a part's firmware whose answer is lost is looked for, and not given again.
func TestFirmwareOfAPartIsNotWrittenTwice(t *testing.T) {
	for _, c := range []struct {
		name    string
		bmc     doubtful
		orders  int
		says    string
		flashed string
	}{
		{"its answer is lost, and it lists the task", doubtful{before: 504, took: true, lists: true}, 1, "", "nic:N1=2.0"},
		{"its answer is lost, and it lists no tasks", doubtful{before: 504, took: true}, 1, "its nic:NIC.1 is of version 1.0 and it lists no tasks", ""},
		{"its answer is lost with the order", doubtful{before: 504, lists: true}, 1, "lists no new task", ""},
		{"busy, and taken all the same", doubtful{before: 503, took: true, lists: true}, 1, "", "nic:N1=2.0"},
		{"refused", doubtful{before: 400, lists: true}, 1, "HTTP 400", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := &c.bmc
			k.rack = newRack()
			withCards(k.rack)
			e, d, r := newEmulator(t), newDriver(t, Options{}), drivertest.NewRig()
			e.set(func() { e.hook = k.serve })
			r.Node.DriverInfo = e.node(nil).DriverInfo
			err := tried(t, r, stepNamed(t, Firmware{Driver: d}.NamedSteps(r.Node), "update"), updatesOf("nic:NIC.1", "one"))
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("the step ends with %v, want %q", err, c.says)
			}
			if got := flashedOf(r); k.orders != c.orders || got != c.flashed {
				t.Errorf("the BMC was asked %d times, want %d; flashed %q, want %q", k.orders, c.orders, got, c.flashed)
			}
		})
	}
}

// An adapter that does not show after an order that the BMC has refused is waited for, and ordered then.
func TestARefusedOrderOfAPartThatIsGoneForAWhile(t *testing.T) {
	k := &doubtful{rack: newRack(), before: 503, lists: true}
	looked := 0
	withCards(k.rack).hides = func() bool {
		if k.orders == 0 {
			return false
		}
		looked++
		k.before = 0
		return looked < 20
	}
	e, d, r := newEmulator(t), newDriver(t, Options{}), drivertest.NewRig()
	e.set(func() { e.hook = k.serve })
	r.Node.DriverInfo = e.node(nil).DriverInfo
	err := tried(t, r, stepNamed(t, Firmware{Driver: d}.NamedSteps(r.Node), "update"), updatesOf("nic:NIC.1", "one"))
	if got := flashedOf(r); err != nil || got != "nic:N1=2.0" || k.orders != 2 {
		t.Errorf("%v, flashed %q after %d orders, want one that was refused and one", err, got, k.orders)
	}
}

// Names of components are judged before the flow.
func TestNamesOfComponents(t *testing.T) {
	r, _ := rigOn(t, newRack())
	for name, good := range map[string]bool{"bios": true, "bmc": true, "nic:NIC.Slot.1": true, "drive:1/0": true, "psu:0": true, "nic:a:b": true, "nic:" + strings.Repeat("x", 251): true,
		"nic:": false, "nic": false, "fan:1": false, "bios:1": false, "NIC:1": false, ":1": false, "nic:" + strings.Repeat("x", 252): false} {
		_, err := updates(r.Node, updatesOf(name, "x")["settings"])
		if good != (err == nil) || !good && !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("component %.20s: %v", name, err)
		}
	}
}

// A BMC that is busy is asked again later; what it does not show then is not taken for gone.
func TestPartsOfABusyBMC(t *testing.T) {
	k := newRack()
	withCards(k)
	e, d := newEmulator(t), newDriver(t, Options{})
	e.set(func() {
		e.hook = func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == adaptersAt {
				w.WriteHeader(http.StatusServiceUnavailable)
				return true
			}
			return k.serve(w, r)
		}
	})
	if list, err := (Firmware{Driver: d}).Components(t.Context(), e.node(nil)); !errors.Is(err, driver.ErrUnreachable) {
		t.Errorf("%v, %v, want ErrUnreachable", list, err)
	}
}
