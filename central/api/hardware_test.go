package api

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/central/askclient"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/work"
)

// knowsHardware makes the rack answer what is asked of a machine.
func (b *bench) knowsHardware() {
	for method, body := range map[ask.Method]string{
		ask.CheckChange:         `{}`,
		ask.CheckRAID:           `{}`,
		ask.Console:             `{"type":"fake","url":"fake://n1"}`,
		ask.Indicators:          `[{"name":"led","component":"system","readonly":false,"states":["on","off"]}]`,
		ask.GetIndicator:        `{"component":"system","name":"led","state":"on"}`,
		ask.SetIndicator:        `{}`,
		ask.VirtualMedia:        `[{"media_types":["cdrom"],"inserted":true,"image":"http://i/a.iso"}]`,
		ask.VendorMethods:       `{"bmc_reset":{"http_methods":["POST"],"async":true,"description":"Resets the BMC.","attach":false,"require_exclusive_lock":true}}`,
		ask.DriverVendorMethods: `{}`,
		ask.RAIDProperties:      `{"raid_level":"The level."}`,
	} {
		b.ask[method] = body
	}
}

func (b *bench) setHardware(kind store.HardwareKind, items ...any) {
	b.t.Helper()
	var list []*store.HardwareItem
	for _, item := range items {
		data, err := json.Marshal(item)
		if err != nil {
			b.t.Fatal(err)
		}
		row := &store.HardwareItem{Data: string(data)}
		switch v := item.(type) {
		case hardware.Setting:
			row.Name = v.Name
		case hardware.Component:
			row.Name, row.Initial = v.Name, v.Current
		}
		list = append(list, row)
	}
	err := b.store.Update(b.t.Context(), func(ctx context.Context, tx *store.Tx) error { return tx.SetHardware(ctx, nodeID, kind, list) })
	if err != nil {
		b.t.Fatal(err)
	}
}

func at[T any](v T) *T { return &v }

func TestHardwareGoldens(t *testing.T) {
	b := newBench(t)
	b.knowsHardware()
	b.addNode()
	b.setHardware(store.BIOSSetting, hardware.Setting{Name: "Proc.1", Value: at("Enabled"), Type: at("Enumeration"), Allowed: []string{"Enabled", "Disabled"},
		ReadOnly: at(false), ResetRequired: at(true), Unique: at(false)}, hardware.Setting{Name: "Tag", Value: at("")})
	b.setHardware(store.FirmwareComponent, hardware.Component{Name: "bmc", Current: "1.2", Flashed: "1.2", Vendor: "Maker", Model: "M1", Serial: "S1"},
		hardware.Component{Name: "bios", Current: "7"})
	node := "/v1/nodes/" + nodeID
	for name, c := range map[string]struct {
		path     string
		versions []string
	}{
		"bios":                {node + "/bios", []string{"1.1", "1.39", "1.40", "1.89", "1.115"}},
		"bios-detail":         {node + "/bios?detail=True", []string{"1.74"}},
		"bios-fields":         {node + "/bios?fields=name,unique", []string{"1.74"}},
		"bios-setting":        {node + "/bios/Proc.1", []string{"1.39", "1.40", "1.74", "1.115"}},
		"firmware":            {node + "/firmware", []string{"1.1", "1.85", "1.86", "1.89", "1.115"}},
		"firmware-fields":     {node + "/firmware?fields=component,model", []string{"1.114"}},
		"indicators":          {node + "/management/indicators", []string{"1.1", "1.62", "1.63", "1.89", "1.115"}},
		"indicator":           {node + "/management/indicators/led@system", []string{"1.62", "1.63"}},
		"vmedia":              {node + "/vmedia", []string{"1.1", "1.92", "1.93", "1.115"}},
		"console":             {node + "/states/console", []string{"1.1", "1.115"}},
		"vendor-methods":      {node + "/vendor_passthru/methods", []string{"1.1", "1.115"}},
		"driver-methods":      {"/v1/drivers/fake-hardware/vendor_passthru/methods", []string{"1.1", "1.115"}},
		"driver-raid":         {"/v1/drivers/fake-hardware/raid/logical_disk_properties", []string{"1.11", "1.12", "1.115"}},
		"driver-raid-unknown": {"/v1/drivers/nobody/raid/logical_disk_properties", []string{"1.115"}},
	} {
		b.goldens(t, "hw-"+name, c.path, c.versions...)
	}
	for _, path := range []string{"/bios", "/bios/Proc.1"} {
		if b.do("GET", node+path, "1.39", "").StatusCode != 404 {
			t.Errorf("%s is there before its version", path)
		}
	}
}

// Who may see what is in a machine's drives may not read it: the address of a medium that a rackd serves holds the only credential for it.
// A node's owner lends it; the lessee's config drive is none of theirs.
func TestCodesOfMediaAreNotShown(t *testing.T) {
	b := newBMC(t)
	const code = "Zm9vYmFyYmF6LXRoZS1jb2RlLW9mLXRoZS1kcml2ZS0x"
	b.ask[ask.VirtualMedia] = `[{"media_types":["USBStick"],"inserted":true,"image":"http://192.0.2.1:8080/media/` + nodeID + "/" + code + `/configdrive.img"}]`
	for _, who := range []string{ownerProject + " reader", ownerProject + " " + adminRoles, "system " + adminRoles} {
		if a := b.wantAs(200, who, "GET", "/v1/nodes/n1/vmedia", ""); strings.Contains(a.body, code) || !strings.Contains(a.body, "/configdrive.img") {
			t.Errorf("%s is shown %s", who, a.body)
		}
	}
}

func TestAdjustmentsBecomeWork(t *testing.T) {
	for path, c := range map[string]struct {
		body, location string
		is             func(work.Change) bool
	}{
		"boot_mode":   {`{"target":"uefi"}`, "/v1/nodes/n1/states", func(ch work.Change) bool { return ch.BootMode == "uefi" }},
		"secure_boot": {`{"target":0}`, "/v1/nodes/n1/states", func(ch work.Change) bool { return ch.SecureBoot != nil && !*ch.SecureBoot }},
		"console":     {`{"enabled":true}`, "/v1/nodes/n1/states/console", func(ch work.Change) bool { return ch.Console != nil && *ch.Console }},
	} {
		b := newBench(t)
		b.knowsHardware()
		b.addNode()
		a := b.want(202, "PUT", "/v1/nodes/n1/states/"+path, "1.115", c.body)
		if a.body != "" || a.Header.Get("Location") != "http://ironyard.example:6385"+c.location {
			t.Errorf("%s: body %q, Location %q", path, a.body, a.Header.Get("Location"))
		}
		w := b.work("n1")
		if w.Verb != work.Adjust || w.Args.Change == nil || !c.is(*w.Args.Change) || w.Entry != provision.Enroll {
			t.Errorf("%s: work %+v", path, w)
		}
		b.want(409, "PUT", "/v1/nodes/n1/states/"+path, "1.115", c.body)
		b.want(202, "PUT", "/v1/nodes/n1/states/console", "1.115", `{"enabled":false}`) // as it is
		if now := b.work("n1"); now.ID != w.ID {
			t.Errorf("%s: a console that is off was switched off by work %+v", path, now)
		}
		b.want(409, "POST", "/v1/nodes/n1/vmedia", "1.115", `{"device_type":"cdrom","image_url":"http://i/a"}`)
		b.want(409, "PUT", "/v1/nodes/n1/states/raid", "1.115", `{}`)
	}
}

func TestConsoleOfANodeThatHasOne(t *testing.T) {
	b := newBench(t)
	b.knowsHardware()
	b.addNode()
	err := b.store.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		n, err := tx.Node(ctx, nodeID)
		if err != nil {
			return err
		}
		n.ConsoleEnabled = true
		return tx.UpdateObservation(ctx, n)
	})
	if err != nil {
		t.Fatal(err)
	}
	if a := b.want(200, "GET", "/v1/nodes/n1/states/console", "1.10", ""); a.body != `{"console_enabled":true,"console_info":{"type":"fake","url":"fake://n1"}}` {
		t.Errorf("console %s", a.body)
	}
	b.refuse([]string{"/v1/nodes/n1"},
		refusal{"PATCH", "/v1/nodes/n1", "1.115", `[{"op":"replace","path":"/driver","value":"redfish"}]`, 409, "can not update the driver while the console is enabled"},
		refusal{"PATCH", "/v1/nodes/n1", "1.115", `[{"op":"replace","path":"/driver","value":"nope"}]`, 400, "No valid host was found"})
}

func TestTargetRAID(t *testing.T) {
	b := newBench(t)
	b.knowsHardware()
	b.addNode()
	a := b.want(204, "PUT", "/v1/nodes/n1/states/raid", "1.12", `{"logical_disks":[{"size_gb":100,"raid_level":"1"}]}`)
	if a.body != "" {
		t.Errorf("body %q", a.body)
	}
	states := b.want(200, "GET", "/v1/nodes/n1/states", "1.115", "")
	if !strings.Contains(states.body, `"target_raid_config":{"logical_disks":[{"raid_level":"1","size_gb":100}]}`) {
		t.Errorf("states %s", states.body)
	}
	delete(b.ask, ask.CheckRAID) // nothing is asked about no configuration
	b.want(204, "PUT", "/v1/nodes/n1/states/raid", "1.115", `{}`)
	if m := b.node("n1").TargetRAIDConfig; len(m) != 0 {
		t.Errorf("after unsetting: %v", m)
	}
	b.server.Ask = refusing{ask.Error{Status: 400, Message: "Driver fake-hardware does not support raid (disabled or not implemented).", Unsupported: true}}
	if a := b.want(404, "PUT", "/v1/nodes/n1/states/raid", "1.115", `{"logical_disks":[]}`); !strings.Contains(a.fault(t), "does not support raid") {
		t.Errorf("said %s", a.body)
	}
	b.want(404, "GET", "/v1/drivers/fake-hardware/raid/logical_disk_properties", "1.115", "")
}

// A target is no part of what a node's work does while it waits.
func TestTargetRAIDOfANodeThatWaits(t *testing.T) {
	b := newBench(t)
	b.knowsHardware()
	b.addNode()
	b.want(202, "PUT", "/v1/nodes/n1/states/provision", "1.115", `{"target":"manage"}`)
	b.want(409, "PUT", "/v1/nodes/n1/states/raid", "1.115", `{}`)
	err := b.store.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		n, err := tx.Node(ctx, nodeID)
		if err != nil {
			return err
		}
		n.Accept(provision.CleanWait, provision.Available, noon)
		return tx.UpdateNode(ctx, n)
	})
	if err != nil {
		t.Fatal(err)
	}
	b.want(204, "PUT", "/v1/nodes/n1/states/raid", "1.115", `{"logical_disks":[{"size_gb":100,"raid_level":"1"}]}`)
	if n := b.node("n1"); len(n.TargetRAIDConfig) != 1 || n.WorkID == "" {
		t.Errorf("target %v, work %q", n.TargetRAIDConfig, n.WorkID)
	}
	b.want(204, "PUT", "/v1/nodes/n1/management/boot_device", "1.115", `{"boot_device":"disk"}`)
}

// refusing is a rack that refuses everything.
type refusing struct{ said ask.Error }

func (r refusing) Ask(context.Context, bus.Member, ask.Request) (json.RawMessage, error) {
	return nil, &askclient.AnswerError{Conductor: "rack-1", Answer: r.said}
}

// Virtual media are changed after the answer, as a piece of work: nothing of it is lost when
// central or the rack dies, and the image's URL, which may hold a password, is sealed.
func TestVirtualMedia(t *testing.T) {
	t.Parallel()
	const url = "https://user:hush@i/a.iso"
	for name, c := range map[string]struct {
		method, path, body string
		types              []string
		image              string
	}{
		"attach":       {"POST", "", `{"device_type":"cdrom","image_url":"` + url + `"}`, []string{"cdrom"}, url},
		"from a share": {"POST", "", `{"device_type":"disk","image_url":"nfs://i/a","image_download_source":"http"}`, []string{"disk"}, "nfs://i/a"},
		"detach all":   {"DELETE", "", "", nil, ""},
		"detach some":  {"DELETE", "?device_types=cdrom,floppy", "", []string{"cdrom", "floppy"}, ""},
		"detach two":   {"DELETE", "?device_types=cdrom&device_types=disk", "", []string{"cdrom", "disk"}, ""},
		"detach one":   {"DELETE", "/cdrom", "", []string{"cdrom"}, ""},
		// as openstacksdk asks for it
		"detach by a body":  {"DELETE", "", `{"device_types":"cdrom,floppy"}`, []string{"cdrom", "floppy"}, ""},
		"detach by a list":  {"DELETE", "", `{"device_types":["disk"]}`, []string{"disk"}, ""},
		"detach by nothing": {"DELETE", "", `{"device_types":null}`, nil, ""},
	} {
		b := newBench(t)
		b.knowsHardware()
		b.addNode()
		if a := b.want(204, c.method, "/v1/nodes/n1/vmedia"+c.path, "1.89", c.body); a.body != "" || a.Header.Get("Location") != "" {
			t.Errorf("%s: body %q, Location %q", name, a.body, a.Header.Get("Location"))
		}
		w := b.work("n1")
		m := w.Args.Change.Media
		if w.Verb != work.Adjust || m == nil || !slices.Equal(m.Types, c.types) || strings.Contains(m.Image, "i/a") || (m.Image == "") != (c.image == "") {
			t.Fatalf("%s: work %+v, media %+v", name, w, m)
		}
		if m.Image != "" {
			key, err := b.server.Key.ForGroup("")
			if err != nil {
				t.Fatal(err)
			}
			if image, err := key.Open(seal.Label{Kind: seal.MediaImage, Of: nodeID, Work: w.ID}, m.Image); image != c.image || err != nil {
				t.Errorf("%s: the image opens as %q, %v", name, image, err)
			}
		}
		b.want(409, c.method, "/v1/nodes/n1/vmedia"+c.path, "1.89", c.body)
	}
	b := newBench(t)
	b.addNode()
	b.server.dispatch.Ask = refusing{ask.Error{Status: 400, Message: "Driver x does not support attach_virtual_media.", Unsupported: true}}
	b.want(400, "POST", "/v1/nodes/n1/vmedia", "1.89", `{"device_type":"cdrom","image_url":"`+url+`"}`)
	if b.node("n1").WorkID != "" {
		t.Error("what the hardware cannot do was accepted")
	}
}

func TestVendorMethods(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.knowsHardware()
	b.addNode()
	for reply, want := range map[string]struct {
		status     int
		body, kind string
	}{
		`{"async":false,"return":{"a":[1]}}`:             {200, `{"a":[1]}`, "application/json"},
		`{"async":false,"return":true}`:                  {200, "true", "application/json"},
		`{"async":false}`:                                {200, "", ""},
		`{"async":false,"attach":true,"return":"#!x\n"}`: {200, "#!x\n", plainText},
		`{"async":true}`:                                 {202, "", ""},
	} {
		b.ask[ask.CallVendor], b.ask[ask.CallDriver] = reply, reply
		for _, path := range []string{"/v1/nodes/n1/vendor_passthru/x", "/v1/nodes/n1/vendor_passthru?method=x",
			"/v1/drivers/fake-hardware/vendor_passthru/x", "/v1/drivers/fake-hardware/vendor_passthru?method=x"} {
			for _, verb := range vendorVerbs {
				a := b.want(want.status, verb, path, "1.10", `{"k":1}`)
				if a.body != want.body || a.Header.Get("Content-Type") != want.kind {
					t.Errorf("%s %s to %s: %q as %q", verb, path, reply, a.body, a.Header.Get("Content-Type"))
				}
			}
		}
	}
	if b.node("n1").WorkID != "" {
		t.Error("work was begun where the rack has done it")
	}
	b.ask[ask.CallVendor] = `{"async":true,"work":true}`
	b.want(202, "POST", "/v1/nodes/n1/vendor_passthru/bmc_reset", "1.115", `{"password":"hush"}`)
	w := b.work("n1")
	call := w.Args.Change.Vendor
	key, err := b.server.Key.ForGroup("")
	if err != nil {
		t.Fatal(err)
	}
	if plain, err := key.Open(seal.Label{Kind: seal.VendorData, Of: nodeID, Work: w.ID}, call.Data); call.Method != "bmc_reset" || call.HTTPMethod != http.MethodPost || plain != `{"password":"hush"}` || err != nil {
		t.Errorf("call %+v, arguments %q, %v", call, plain, err)
	}
}

// A call that a rackd may have done, which has died since, is not answered with the 503
// after which clients repeat it by themselves; one that reads is.
func TestVendorMethodInDoubt(t *testing.T) {
	b := newBench(t)
	b.addNode()
	b.ask[ask.CallVendor], b.ask[ask.CallDriver] = diesAnswering, diesAnswering
	for _, path := range []string{"/v1/nodes/n1/vendor_passthru/x", "/v1/drivers/fake-hardware/vendor_passthru/x"} {
		for _, verb := range vendorVerbs {
			want := http.StatusGatewayTimeout
			if verb == http.MethodGet {
				want = http.StatusServiceUnavailable
			}
			a := b.want(want, verb, path, "1.115", "")
			if strings.Contains(a.body, "look at the machine") != (want == http.StatusGatewayTimeout) {
				t.Errorf("%s %s: %s", verb, path, a.body)
			}
		}
	}
	if b.node("n1").WorkID != "" {
		t.Error("it has become work")
	}
}

// Firmware has no credentials: none is asked for, whichever way it names the method. Any other method wants them.
func TestBootScriptNeedsNoAccount(t *testing.T) {
	b := newGuarded(t)
	b.ask[ask.GetBootScript] = `"#!ipxe\nexit 1\n"`
	const path = "/v1/drivers/fake-hardware/vendor_passthru"
	for _, query := range []string{path + "/ipxe_config?node_uuid=" + nodeID, path + "?method=ipxe_config&node_uuid=" + nodeID,
		path[len("/v1"):] + "?node_uuid=" + nodeID + "&method=ipxe_config"} {
		if a := b.do("GET", query, "", ""); a.StatusCode != 200 || a.body != "#!ipxe\nexit 1\n" {
			t.Errorf("%s: %d: %q", query, a.StatusCode, a.body)
		}
	}
	for _, call := range []string{"POST " + path + "?method=ipxe_config", "GET " + path + "?method=ipxe_config2", "GET " + path, "GET " + path + "/methods?method=ipxe_config",
		"GET /v1/nodes/" + nodeID + "/vendor_passthru?method=ipxe_config"} {
		verb, query, _ := strings.Cut(call, " ")
		if a := b.do(verb, query, "1.1", ""); a.StatusCode != 401 {
			t.Errorf("%s: %d: %q", call, a.StatusCode, a.body)
		}
	}
	if a := b.do("GET", path+"?method=ipxe_config&method=x&node_uuid="+nodeID, "1.1", ""); a.StatusCode != 400 {
		t.Errorf("of two methods: %d: %q", a.StatusCode, a.body)
	}
}

func TestBootScript(t *testing.T) {
	b := newBench(t)
	b.addNode()
	b.addPort("aaaaaaaa-2222-4333-8444-555555555555", "aa:bb:cc:dd:ee:01", "")
	b.ask[ask.GetBootScript] = `"#!ipxe\nexit 1\n"`
	const path, other = "/v1/drivers/fake-hardware/vendor_passthru", "/v1/drivers/redfish/vendor_passthru"
	// One script of a DHCP server is for machines of all drivers.
	for _, query := range []string{path + "/ipxe_config?node_uuid=" + nodeID, path + "/ipxe_config?port_address=AA:BB:CC:DD:EE:01", path + "?method=ipxe_config&port_address=aa-bb-cc-dd-ee-01",
		other + "/ipxe_config?node_uuid=" + nodeID, other + "/ipxe_config?port_address=aa:bb:cc:dd:ee:01", other + "?method=ipxe_config&port_address=aa:bb:cc:dd:ee:01"} {
		a := b.want(200, "GET", query, "", "")
		if a.body != "#!ipxe\nexit 1\n" || a.Header.Get("Content-Type") != plainText {
			t.Errorf("%s: %q as %q", query, a.body, a.Header.Get("Content-Type"))
		}
	}
	// A machine that is no node is told so on its console.
	for _, query := range []string{path + "/ipxe_config?port_address=aa:bb:cc:dd:ee:09", other + "/ipxe_config?node_uuid=aaaaaaaa-2222-4333-8444-555555555555"} {
		if a := b.want(200, "GET", query, "", ""); !strings.HasPrefix(a.body, "#!ipxe\n") || !strings.Contains(a.body, "echo Reason: no node has that UUID or a port with that address") {
			t.Errorf("%s: %q", query, a.body)
		}
	}
	// Operators read of it, once a minute for an address however often it asks.
	if log := b.log.String(); strings.Count(log, "machine that is no node") != 1 || !strings.Contains(log, "level=WARN") {
		t.Errorf("of two requests the log says %s", log)
	}
	b.log.Reset()
	for range 20 {
		b.from("192.0.2.7", "GET", path+"/ipxe_config?port_address=aa:bb:cc:dd:ee:09", "")
	}
	if log := b.log.String(); strings.Count(log, "\n") != 1 || !strings.Contains(log, "mac=aa:bb:cc:dd:ee:09 from=192.0.2.7") {
		t.Errorf("of 20 requests of another address the log says %s", log)
	}
	b.refuse([]string{"/v1/nodes/detail"},
		refusal{"GET", path + "/ipxe_config", "1.1", "", 400, "either node_uuid or port_address"},
		refusal{"GET", path + "/ipxe_config?node_uuid=" + nodeID + "&port_address=aa:bb:cc:dd:ee:01", "1.1", "", 400, "either"},
		refusal{"GET", path + "/ipxe_config?port_address=aa", "1.1", "", 400, "MAC address"},
		refusal{"GET", "/v1/drivers/nobody/vendor_passthru/ipxe_config?node_uuid=" + nodeID, "1.1", "", 404, "The driver 'nobody' is unknown."},
		refusal{"POST", path + "?method=ipxe_config", "1.1", "", 400, "does not support HTTP POST"})
}

// A machine whose rackd writes no script asks again, at the URL that it has asked at. An error would have its firmware boot something
// else. Its console names no node, and the log does.
func TestMachineAsksAgain(t *testing.T) {
	const path, mac = "/v1/drivers/fake-hardware/vendor_passthru", "aa:bb:cc:dd:ee:01"
	for name, change := range map[string]func(*bench){
		"its rackd is silent":        func(b *bench) { b.ask[ask.GetBootScript] = diesAnswering },
		"its rackd answers no text":  func(b *bench) { b.ask[ask.GetBootScript] = `7` },
		"no rackd is alive any more": func(b *bench) { b.rackds(nil) },
		"none of its driver is alive": func(b *bench) {
			b.rackds(fakeRoster{{Name: "other", Drivers: map[string]map[string][]string{"redfish": redfishDriver}}})
		},
		"none serves its group any more": func(b *bench) {
			b.rackds(fakeRoster{{Name: "rack-2", Group: "east", Drivers: map[string]map[string][]string{"fake-hardware": fakeDriver}}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.addNode()
			b.addPort("aaaaaaaa-2222-4333-8444-555555555555", mac, "")
			err := b.store.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
				return tx.NoteConductor(ctx, &store.Conductor{Name: "rack-1", Drivers: []string{"fake-hardware", "ipmi"}, Created: noon, Updated: noon}, noon)
			})
			if err != nil {
				t.Fatal(err)
			}
			change(b)
			for query, again := range map[string]string{
				path + "/ipxe_config?port_address=AA-BB-CC-DD-EE-01":               "?port_address=aa%3Abb%3Acc%3Add%3Aee%3A01",
				path + "/ipxe_config?node_uuid=" + nodeID:                          "?node_uuid=" + nodeID,
				path + "?port_address=" + mac + "&method=ipxe_config":              "?method=ipxe_config&port_address=aa%3Abb%3Acc%3Add%3Aee%3A01",
				"/v1/drivers/ipmi/vendor_passthru/ipxe_config?node_uuid=" + nodeID: "?node_uuid=" + nodeID, // which a rackd had that is gone
			} {
				a := b.want(200, "GET", query, "", "")
				if want := "sleep 5\nchain --replace " + again + " || reboot\n"; !strings.HasPrefix(a.body, "#!ipxe\n") || !strings.HasSuffix(a.body, want) || a.Header.Get("Content-Type") != plainText {
					t.Errorf("%s: %q as %q; want the end %q", query, a.body, a.Header.Get("Content-Type"), want)
				}
				if said := strings.Split(a.body, "chain ")[0]; strings.Contains(said, nodeID) || strings.Contains(said, "rack-") || !strings.Contains(said, "the rackd of this machine writes no boot script now") {
					t.Errorf("the console says %q", said)
				}
			}
			if log := b.log.String(); strings.Count(log, "no boot script for a machine") != 1 || !strings.Contains(log, "level=WARN") || !strings.Contains(log, "node="+nodeID) {
				t.Errorf("of four requests of an address the log says %s", log)
			}
			b.want(404, "GET", "/v1/drivers/nobody/vendor_passthru/ipxe_config?node_uuid="+nodeID, "1.1", "")
		})
	}
}

// rackds has these rackds alive, and no others.
func (b *bench) rackds(alive fakeRoster) {
	cfg := b.server.Config
	cfg.Roster, cfg.routed = alive, nil
	b.server = New(cfg)
}

func TestHardwareRefusals(t *testing.T) {
	b := newBench(t)
	b.knowsHardware()
	b.addNode()
	n := "/v1/nodes/n1"
	b.refuse([]string{"/v1/nodes/" + nodeID, "/v1/nodes/" + nodeID + "/history"},
		refusal{"PUT", n + "/states/boot_mode", "1.75", `{"target":"uefi"}`, 404, ""},
		refusal{"PUT", n + "/states/boot_mode", "1.76", `{"target":"UEFI"}`, 400, "boot mode"},
		refusal{"PUT", n + "/states/boot_mode", "1.76", `{}`, 400, "target"},
		refusal{"PUT", n + "/states/boot_mode", "1.76", `{"target":"uefi","x":1}`, 400, "x"},
		refusal{"PUT", "/v1/nodes/none/states/boot_mode", "1.76", `{"target":"uefi"}`, 404, "none"},
		refusal{"PUT", n + "/states/secure_boot", "1.75", `{"target":true}`, 404, ""},
		refusal{"PUT", n + "/states/secure_boot", "1.76", `{"target":"maybe"}`, 400, "target"},
		refusal{"PUT", n + "/states/console", "1.115", `{}`, 400, "enabled"},
		refusal{"PUT", n + "/states/console", "1.115", `{"enabled":"perhaps"}`, 400, "enabled"},
		refusal{"PUT", n + "/states/raid", "1.11", `{}`, 406, ""},
		refusal{"PUT", n + "/states/raid", "1.12", `[]`, 400, ""},
		refusal{"GET", "/v1/drivers/fake-hardware/raid/logical_disk_properties", "1.11", ``, 406, ""},
		refusal{"GET", n + "/management/indicators/led", "1.63", ``, 400, "Malformed"},
		refusal{"PUT", n + "/management/indicators/led@system", "1.63", `{"state":"purple"}`, 400, "purple"},
		refusal{"PUT", n + "/management/indicators/led@system", "1.63", `{}`, 400, "state"},
		refusal{"POST", n + "/vmedia", "1.88", `{"device_type":"cdrom","image_url":"http://i/a"}`, 404, ""},
		refusal{"POST", n + "/vmedia", "1.89", `{"device_type":"tape","image_url":"http://i/a"}`, 400, "Schema error for vmedia: 'tape' is not one of"},
		refusal{"POST", n + "/vmedia", "1.89", `{"device_type":"cdrom"}`, 400, "'image_url' is a required property"},
		refusal{"POST", n + "/vmedia", "1.89", `{"device_type":"cdrom","image_url":"ftp://i/a"}`, 400, "Unsupported or missing URL scheme: 'ftp://i/a'"},
		refusal{"POST", n + "/vmedia", "1.89", `{"device_type":"cdrom","image_url":"http://i/a","image_download_source":"mail"}`, 400, "mail"},
		refusal{"POST", n + "/vmedia", "1.89", `{"device_type":"cdrom","image_url":"http://i/a","other":1}`, 400, "other"},
		refusal{"DELETE", n + "/vmedia?device_types=tape", "1.89", ``, 400, "tape"},
		refusal{"DELETE", n + "/vmedia/tape", "1.89", ``, 400, "tape"},
		refusal{"DELETE", n + "/vmedia/cdrom?device_types=disk", "1.89", ``, 404, ""},
		refusal{"DELETE", n + "/vmedia", "1.89", `{"device_types":"cdrom,tape"}`, 400, "Invalid device type(s) tape (valid are disk, cdrom, floppy)"},
		refusal{"DELETE", n + "/vmedia", "1.89", `{"device_types":7}`, 400, "Expected string for device_types: 7"},
		refusal{"DELETE", n + "/vmedia", "1.89", `{"device_types":[1]}`, 400, "Expected string for device_types: 1"},
		refusal{"DELETE", n + "/vmedia", "1.89", `{"device":"cdrom"}`, 400, "Unexpected arguments: device"},
		refusal{"PUT", n + "/states/secure_boot", "1.76", `{"target":2}`, 400, "target"},
		refusal{"GET", n + "/vmedia", "1.88", ``, 404, ""},
		refusal{"GET", n + "/bios?fields=name", "1.73", ``, 400, "fields"},
		refusal{"GET", n + "/bios?detail=True", "1.73", ``, 400, "detail"},
		refusal{"GET", n + "/bios?detail=True&fields=name", "1.74", ``, 400, "fields"},
		refusal{"GET", n + "/bios?fields=colour", "1.74", ``, 400, "colour"},
		refusal{"GET", n + "/bios/None", "1.115", ``, 404, "doesn't have a BIOS setting 'None'"},
		refusal{"GET", n + "/firmware", "1.85", ``, 404, ""},
		refusal{"GET", n + "/firmware?fields=vendor", "1.113", ``, 400, "vendor"},
		refusal{"GET", n + "/firmware?fields=colour", "1.86", ``, 400, "colour"},
		refusal{"POST", n + "/vendor_passthru", "1.10", `{}`, 400, "Missing mandatory parameter: method"},
		refusal{"POST", n + "/vendor_passthru/x", "1.10", `[]`, 400, "object"},
		refusal{"POST", n + "/vendor_passthru/x?y=1", "1.10", `{}`, 400, "y"},
		refusal{"POST", n + "/vendor_passthru/x", "1.115", `{}`, 503, "did not answer"},
		refusal{"GET", "/v1/drivers/nobody/vendor_passthru/methods", "1.1", ``, 404, "nobody"},
		refusal{"GET", "/v1/nodes/none/vendor_passthru/methods", "1.115", ``, 404, "none"})
	b.ask[ask.CheckChange] = `{}`
	b.move("n1", provision.CleanWait, provision.Available, nil)
	before := b.node("n1").Revision
	for _, path := range []string{"boot_mode", "secure_boot"} {
		body := map[string]string{"boot_mode": `{"target":"bios"}`, "secure_boot": `{"target":true}`}[path]
		if a := b.want(409, "PUT", n+"/states/"+path, "1.115", body); !strings.Contains(a.fault(t), "transitional state") {
			t.Errorf("%s in clean wait: %s", path, a.body)
		}
	}
	if b.node("n1").Revision != before {
		t.Error("a refusal changed the node")
	}
	b.server.dispatch.Ask = refusing{ask.Error{Status: 400, Message: "Driver fake-hardware does not support console (disabled or not implemented).", Unsupported: true}}
	b.move("n1", provision.Available, provision.NoState, nil)
	if a := b.want(400, "PUT", n+"/states/console", "1.115", `{"enabled":true}`); !strings.Contains(a.fault(t), "does not support console") {
		t.Errorf("said %s", a.body)
	}
	if b.node("n1").WorkID != "" {
		t.Error("what the hardware cannot do was accepted")
	}
	if a := b.want(200, "GET", n+"/states/console", "1.115", ""); a.body != `{"console_enabled":false,"console_info":null}` {
		t.Errorf("the console of a node that can have none: %s", a.body)
	}
}
