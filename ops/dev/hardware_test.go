package dev_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/provision"
)

// caller speaks the API itself, at the newest version.
type caller struct {
	t    *testing.T
	base string
}

// do sends a request and returns the answer; body nil for none.
func (c caller) do(method, path string, body any) (status int, location, text string) {
	c.t.Helper()
	var sent io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			c.t.Fatal(err)
		}
		sent = bytes.NewReader(raw)
	}
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.base+path, sent)
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("X-OpenStack-Ironic-API-Version", "1.115")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.StatusCode, resp.Header.Get("Location"), string(raw)
}

// want sends a request, fails the test unless it gets the status, and returns the
// answer's JSON.
func (c caller) want(status int, method, path string, body any) any {
	c.t.Helper()
	got, _, text := c.do(method, path, body)
	if got != status {
		c.t.Fatalf("%s %s: status %d, want %d: %s", method, path, got, status, text)
	}
	var v any
	if text != "" && json.Unmarshal([]byte(text), &v) != nil {
		c.t.Fatalf("%s %s: %q", method, path, text)
	}
	return v
}

// shows waits until what path answers says so.
func (c caller) shows(path, what string, is func(map[string]any) bool) map[string]any {
	c.t.Helper()
	for end := time.Now().Add(20 * time.Second); ; {
		m, _ := c.want(200, "GET", path, nil).(map[string]any)
		if is(m) {
			return m
		}
		if time.Now().After(end) {
			c.t.Fatalf("%s: not %s within 20 s: %v", path, what, m)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// field waits until a field of the node has a value.
func (c caller) field(node, name string, value any) {
	c.t.Helper()
	c.shows(node, fmt.Sprintf("%s %v", name, value), func(m map[string]any) bool { return reflect.DeepEqual(m[name], value) })
}

// Everything behind a hardware interface that a request asks for at once, on fake
// hardware: it is done, it shows, and it is still so after a restart.
func TestHardware(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o, s, stop := startStack(t, dir, 0)
	id := fakeNode(t, o, "one", map[string]any{"fake_health": "Warning"})
	c, node := caller{t, s.Endpoint}, "/v1/nodes/"+id
	defer func() { http.DefaultClient.CloseIdleConnections() }()

	c.field(node, "boot_mode", "uefi")
	c.field(node, "health", "Warning")
	if status, location, _ := c.do("PUT", node+"/states/boot_mode", map[string]any{"target": "bios"}); status != 202 || !strings.HasSuffix(location, node+"/states") {
		t.Fatalf("boot mode: %d, Location %q", status, location)
	}
	c.field(node, "boot_mode", "bios")
	c.field(node, "reservation", nil)
	c.want(202, "PUT", node+"/states/secure_boot", map[string]any{"target": true})
	c.field(node, "secure_boot", true)
	c.field(node, "reservation", nil)

	if console := c.want(200, "GET", node+"/states/console", nil).(map[string]any); console["console_enabled"] != false || console["console_info"] != nil {
		t.Errorf("console %v", console)
	}
	c.want(202, "PUT", node+"/states/console", map[string]any{"enabled": true})
	c.shows(node+"/states/console", "enabled", func(m map[string]any) bool {
		info, _ := m["console_info"].(map[string]any)
		return m["console_enabled"] == true && info["type"] == "websocket"
	})
	c.field(node, "reservation", nil)

	c.want(204, "PUT", node+"/management/indicators/led@system", map[string]any{"state": "blinking"})
	c.want(400, "PUT", node+"/management/indicators/led@power", map[string]any{"state": "on"})
	c.want(204, "PUT", node+"/management/boot_device", map[string]any{"boot_device": "cdrom", "persistent": true})
	c.want(204, "PUT", node+"/management/inject_nmi", map[string]any{})
	c.want(204, "POST", node+"/vmedia", map[string]any{"device_type": "cdrom", "image_url": "https://images.example/a.iso"})

	testVendor(t, c, node) // which waits for the end of that
	testSteps(t, c, node, id)

	stop()
	_, s, stop = startStack(t, dir, 0)
	defer stop()
	c.base = s.Endpoint
	c.shows("/v1/conductors/"+conductorOf(c, node), "alive", func(m map[string]any) bool { return m["alive"] == true })
	if led := c.want(200, "GET", node+"/management/indicators/led@system", nil); !reflect.DeepEqual(led, map[string]any{"state": "blinking"}) {
		t.Errorf("indicator after a restart: %v", led)
	}
	if d := c.want(200, "GET", node+"/management/boot_device", nil); !reflect.DeepEqual(d, map[string]any{"boot_device": "cdrom", "persistent": true}) {
		t.Errorf("boot device after a restart: %v", d)
	}
	cdrom := func() map[string]any {
		drives := c.want(200, "GET", node+"/vmedia", nil).([]any)
		i := slices.IndexFunc(drives, func(d any) bool {
			return reflect.DeepEqual(d.(map[string]any)["media_types"], []any{"cdrom"})
		})
		if i < 0 {
			t.Fatalf("no drive for CDs: %v", drives)
		}
		return drives[i].(map[string]any)
	}
	if m := cdrom(); m["inserted"] != true || m["image"] != "https://images.example/a.iso" {
		t.Errorf("virtual media after a restart: %v", m)
	}
	c.want(204, "DELETE", node+"/vmedia?device_types=cdrom,disk", nil)
	c.field(node, "reservation", nil)
	if m := cdrom(); m["inserted"] != false {
		t.Errorf("virtual media after detaching: %v", m)
	}
}

func conductorOf(c caller, node string) string {
	name, _ := c.shows(node, "owned", func(m map[string]any) bool { return m["conductor"] != nil })["conductor"].(string)
	return name
}

func testVendor(t *testing.T, c caller, node string) {
	methods := c.want(200, "GET", node+"/vendor_passthru/methods", nil).(map[string]any)
	if m, _ := methods["third_method_sync"].(map[string]any); m["async"] != false || m["require_exclusive_lock"] != true {
		t.Errorf("methods %v", methods)
	}
	if said := c.want(200, "POST", node+"/vendor_passthru?method=third_method_sync", map[string]any{"bar": "meow"}); said != true {
		t.Errorf("third_method_sync said %v", said)
	}
	if status, _, body := c.do("POST", node+"/vendor_passthru/second_method", map[string]any{"bar": "kazoo"}); status != 202 || body != "" {
		t.Fatalf("second_method: %d %q", status, body)
	}
	c.shows(node, "called", func(m map[string]any) bool {
		state, _ := m["driver_internal_info"].(map[string]any)["driver_state"].(map[string]any)
		calls, _ := state["vendor_calls"].(map[string]any)
		return calls["second_method"] == 1.0 && m["reservation"] == nil
	})
	c.want(400, "POST", node+"/vendor_passthru/second_method", map[string]any{})
	c.want(400, "GET", node+"/vendor_passthru/second_method", nil)
	c.want(400, "POST", node+"/vendor_passthru/no_such_method", map[string]any{})
	if drivers := c.want(200, "GET", "/v1/drivers/fake-hardware/vendor_passthru/methods", nil).(map[string]any); drivers["ipxe_config"] == nil {
		t.Errorf("driver methods %v", drivers)
	}
	if p := c.want(200, "GET", "/v1/drivers/fake-hardware/raid/logical_disk_properties", nil).(map[string]any); p["raid_level"] == nil {
		t.Errorf("properties of logical disks: %v", p)
	}
}

func testSteps(t *testing.T, c caller, node, id string) {
	raid := map[string]any{"logical_disks": []any{map[string]any{"size_gb": 50.0, "raid_level": "1", "is_root_volume": true}}}
	c.want(400, "PUT", node+"/states/raid", map[string]any{"logical_disks": []any{map[string]any{"size_gb": 50}}})
	c.want(204, "PUT", node+"/states/raid", raid)
	c.field(node, "target_raid_config", raid)
	bios := c.want(200, "GET", node+"/bios", nil).(map[string]any)["bios"].([]any)
	if len(bios) != 5 {
		t.Fatalf("BIOS settings %v", bios)
	}
	c.want(202, "PUT", node+"/states/provision", map[string]any{"target": "manage"})
	c.field(node, "provision_state", string(provision.Manageable))
	c.want(202, "PUT", node+"/states/provision", map[string]any{"target": "clean", "clean_steps": steps{
		namedStep("bios", "apply_configuration", map[string]any{"args": map[string]any{"settings": []any{map[string]any{"name": "BootRetries", "value": "7"}}}}),
		namedStep("raid", "create_configuration", nil),
		namedStep("firmware", "update", map[string]any{"args": map[string]any{"settings": []any{map[string]any{"component": "bmc", "url": "http://files.example/bmc-2.5.bin"}}}}),
	}})
	c.shows(node, "cleaned", func(m map[string]any) bool { return m["provision_state"] == "manageable" && m["reservation"] == nil })
	setting := c.want(200, "GET", node+"/bios/BootRetries", nil).(map[string]any)["BootRetries"].(map[string]any)
	if setting["value"] != "7" || setting["upper_bound"] != 10.0 || setting["updated_at"] == nil {
		t.Errorf("setting %v", setting)
	}
	m := c.want(200, "GET", node, nil).(map[string]any)
	if disks, _ := m["raid_config"].(map[string]any)["logical_disks"].([]any); len(disks) != 1 || m["last_error"] != nil {
		t.Errorf("raid_config %v, last_error %v", m["raid_config"], m["last_error"])
	}
	firmware := c.want(200, "GET", node+"/firmware", nil).(map[string]any)["firmware"].([]any)
	bmc := firmware[1].(map[string]any)
	if bmc["component"] != "bmc" || bmc["initial_version"] != "1.0.0" || bmc["current_version"] != "bmc-2.5" || bmc["last_version_flashed"] != "bmc-2.5" {
		t.Errorf("firmware %v", firmware)
	}
	if id != m["uuid"] {
		t.Errorf("node %v", m["uuid"])
	}
}
