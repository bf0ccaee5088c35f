package ribcl

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/rackd/driver"
)

// recordings are the answers of iLOs that proliantutils' authors recorded, by their names. Debian's package has them among its tests.
func recordings(t *testing.T) map[string]string {
	t.Helper()
	if os.Getenv("IRONYARD_E2E") == "" {
		t.Skip("NOT RUN: needs Debian's package python3-proliantutils; set IRONYARD_E2E=1")
	}
	p := exec.CommandContext(t.Context(), "/usr/bin/python3", "-W", "ignore", "-c", `
import json
from proliantutils.tests.ilo import ribcl_sample_outputs as said
print(json.dumps({k: v for k, v in vars(said).items() if k.isupper() and isinstance(v, str)}))`)
	p.Env = []string{"PATH=/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE=1"}
	out, err := p.Output()
	if err != nil {
		t.Fatalf("read the recordings of python3-proliantutils: %v", err)
	}
	all := map[string]string{}
	if err := json.Unmarshal(out, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// asXML writes an answer as an iLO does, which proliantutils keeps in its own form: a text there is an attribute here, and anything else
// an element. The summary comes first: in what order the iLO wrote the parts is lost.
func asXML(name string, value any) string {
	var attributes, children strings.Builder
	switch v := value.(type) {
	case []any:
		for _, one := range v {
			children.WriteString(asXML(name, one))
		}
		return children.String()
	case map[string]any:
		for _, key := range slices.SortedFunc(maps.Keys(v), func(a, b string) int { return strings.Compare(first(weight[a], a), first(weight[b], b)) }) {
			if s, is := v[key].(string); is {
				fmt.Fprintf(&attributes, " %s=\"%s\"", key, strings.NewReplacer("&", "&amp;", "<", "&lt;", `"`, "&quot;").Replace(s))
			} else {
				children.WriteString(asXML(key, v[key]))
			}
		}
	}
	return "<" + name + attributes.String() + ">" + children.String() + "</" + name + ">"
}

var weight = map[string]string{"HEALTH_AT_A_GLANCE": " "}

// healthSaid is a recorded answer to GET_EMBEDDED_HEALTH.
func healthSaid(t *testing.T, text string) string {
	t.Helper()
	if strings.Contains(text, "<?xml") {
		return text
	}
	var form map[string]any
	if err := json.Unmarshal([]byte(text), &form); err != nil {
		t.Fatal(err)
	}
	body := ""
	for name, value := range form {
		body += asXML(name, value)
	}
	return answer(body)
}

// What iLOs told of their machines is read as it stands in their recorded answers.
func TestHealthOfRecordedILOs(t *testing.T) {
	all := recordings(t)
	d := newDouble(t)
	r, n := newDriver(t), d.node(password)
	for name, want := range map[string]string{
		// iLO 3 of a ProLiant ML110 G7.
		"GET_HOST_HEALTH_DATA": `health "OK"; sensors Fan 3, Power 1, Temperature 12; BIOS 07/01/2013 of BMC 1.70 Pass 25 Jan 09 2014, 6 in all; ` +
			`8 CPUs x86_64, 8192 MB, 0 GB; 2 ports`,
		// iLO 4 of a ProLiant with two Xeon E7-4820 v2, two power supplies and a volume of 99 GB.
		"GET_EMBEDDED_HEALTH_OUTPUT": `health "OK"; sensors Fan 4, Power 2, Temperature 31; BIOS 11/26/2014 of BMC 2.02 Sep 05 2014, 9 in all; ` +
			`32 CPUs x86_64, 32768 MB, 98 GB; 4 ports`,
		// The same with a newer firmware of the iLO.
		"GET_EMBEDDED_HEALTH_OUTPUT_GT_SUGGESTED": `health "OK"; sensors Fan 4, Power 2, Temperature 31; BIOS 11/26/2014 of BMC 2.54 Sep 05 2014, 9 in all; ` +
			`32 CPUs x86_64, 32768 MB, 98 GB; 4 ports`,
		// Parts of answers: memory and adapters in the words of a G7's iLO, volumes of two controllers, and no controller at all.
		"GET_EMBEDDED_HEALTH_OUTPUT_GEN7":          `health ""; sensors ; BIOS  of BMC , 0 in all; 0 CPUs , 32768 MB, 0 GB; 4 ports`,
		"GET_EMBEDDED_HEALTH_OUTPUT_LIST_STORAGE":  `health ""; sensors ; BIOS  of BMC , 0 in all; 0 CPUs , 0 MB, 98 GB; 0 ports`,
		"GET_EMBEDDED_HEALTH_OUTPUT_NO_CONTROLLER": `health ""; sensors ; BIOS  of BMC , 0 in all; 0 CPUs , 0 MB, 0 GB; 0 ports`,
	} {
		d.do(func() { d.recorded = map[string]string{"GET_EMBEDDED_HEALTH": healthSaid(t, all[name])} })
		health, err := r.Health(t.Context(), n)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		sensors, err := r.Sensors(t.Context(), n)
		if err != nil && !errors.Is(err, driver.ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
		var counts []string
		for _, kind := range slices.Sorted(maps.Keys(sensors)) {
			counts = append(counts, fmt.Sprint(kind, " ", len(sensors[kind])))
		}
		firmware, err := r.Components(t.Context(), n)
		if err != nil && !errors.Is(err, driver.ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
		version := map[string]string{}
		for _, c := range firmware {
			version[c.Name] = c.Current
		}
		var found struct {
			Interfaces []struct {
				MAC string `json:"mac_address"`
			}
			CPU struct {
				Count        int
				Architecture string
			}
			Memory struct {
				MB int `json:"physical_mb"`
			}
		}
		var size int64
		err = r.with(t.Context(), nil, n, "inspect the machine", func(at *turn) error {
			e, err := at.health()
			if err != nil {
				return err
			}
			inventory, smallest := inventory(element{}, e)
			size = smallest
			raw, err := json.Marshal(inventory)
			return errors.Join(err, json.Unmarshal(raw, &found))
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		macs := map[string]bool{}
		for _, i := range found.Interfaces {
			macs[i.MAC] = true
		}
		got := fmt.Sprintf("health %q; sensors %s; BIOS %s of BMC %s, %d in all; %d CPUs %s, %d MB, %d GB; %d ports", health, strings.Join(counts, ", "), version["bios"],
			version["bmc"], len(firmware), found.CPU.Count, found.CPU.Architecture, found.Memory.MB, size, len(macs))
		if got != want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
	}
}

// What iLOs told of power, boot and media is read as it stands in their recorded answers.
func TestStatesOfRecordedILOs(t *testing.T) {
	all := recordings(t)
	d := newDouble(t)
	r, n := newDriver(t), d.node(password)
	say := func(answers map[string]string) { d.do(func() { d.recorded = answers }) }
	say(map[string]string{"GET_HOST_POWER_STATUS": all["GET_HOST_POWER_STATUS_XML"]})
	if state, err := r.PowerState(t.Context(), n); state != driver.PowerOn || err != nil {
		t.Errorf("power %q, %v", state, err)
	}
	lasting := true
	for name, want := range map[string]string{
		"GET_PERSISTENT_BOOT_DEVICE_HDD_UEFI_XML":   "disk",
		"GET_PERSISTENT_BOOT_DEVICE_NIC_UEFI_XML":   "pxe",
		"GET_PERSISTENT_BOOT_DEVICE_CDROM_UEFI_XML": "cdrom",
		"GET_PERSISTENT_BOOT_DEVICE_BIOS_XML":       "cdrom",
	} {
		say(map[string]string{"GET_ONE_TIME_BOOT": all["GET_ONE_TIME_BOOT_XML"], "GET_PERSISTENT_BOOT": all[name]})
		got, err := r.BootDevice(t.Context(), n)
		if err != nil || got.Device != want || got.Persistent == nil || *got.Persistent != lasting {
			t.Errorf("%s: boot device %+v, %v, want %s for all starts", name, got, err, want)
		}
	}
	say(map[string]string{"GET_PENDING_BOOT_MODE": all["BOOT_MODE_NOT_SUPPORTED"]})
	if mode, err := r.BootMode(t.Context(), n); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("the boot mode of an iLO that has none to tell: %q, %v", mode, err)
	}
	say(map[string]string{"GET_VM_STATUS": all["GET_VM_STATUS_CDROM_XML"]})
	list, err := r.Media(t.Context(), n)
	if err != nil || len(list) == 0 || list[0].Inserted {
		t.Errorf("media %+v, %v, want an empty drive", list, err)
	}
	say(map[string]string{"GET_VM_STATUS": all["GET_VM_STATUS_XML"]})
	if list, err = r.Media(t.Context(), n); err != nil || len(list) == 0 || list[0].Image != "http://1.2.3.4/floppy.img" {
		t.Errorf("media %+v, %v, want the image that is in", list, err)
	}
	say(map[string]string{"GET_VM_STATUS": all["GET_VM_STATUS_ERROR_XML"]})
	if list, err = r.Media(t.Context(), n); err == nil || !strings.Contains(err.Error(), "An invalid Virtual Media option has been given") {
		t.Errorf("media %+v, %v, want the iLO's words", list, err)
	}
	// A login that was refused is not repeated: it comes last.
	say(map[string]string{"GET_HOST_POWER_STATUS": all["LOGIN_FAIL_XML"]})
	if state, err := r.PowerState(t.Context(), n); !errors.Is(err, driver.ErrDenied) {
		t.Errorf("a refused login: power %q, %v", state, err)
	}
}
