package api

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/inspection"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/central/store/storetest"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/seal"
)

const sendData = "/v1/continue_inspection"

// strange is what the ramdisk of a machine with two interfaces sends.
func strange(mac1, mac2, more string) string {
	return `{"inventory":{"interfaces":[{"name":"eth0","mac_address":"` + mac1 + `"},{"name":"eth1","mac_address":"` + mac2 + `"}],
		"cpu":{"architecture":"x86_64"},"boot":{"pxe_interface":"` + mac1 + `"},"bmc_address":"192.0.2.1"}` + more + `}`
}

// discoveryBench discovers machines, and has an otherwise usual node n1 with a port 52:54:00:00:00:01.
func discoveryBench(t *testing.T, d Discovery) *bench {
	t.Helper()
	b := newBench(t)
	b.addNode()
	b.want(201, "POST", "/v1/ports", "1.115", `{"node_uuid":"`+nodeID+`","address":"52:54:00:00:00:01"}`)
	cfg := b.server.Config
	cfg.Discovery, cfg.Nodes = d, NodeSettings{DefaultResourceClass: "unsorted", DefaultConductorGroup: "East"}
	b.server = New(cfg)
	return b
}

func (b *bench) rule(actions string) {
	b.t.Helper()
	b.want(201, "POST", "/v1/inspection_rules", "1.96", `{"actions":[`+actions+`],"conditions":[{"op":"is-true","args":["{plugin_data[auto_discovered]}"]},
		{"op":"in-net","args":["{inventory[bmc_address]}","192.0.2.0/24"]}]}`)
}

// A machine that nobody has enrolled becomes a node, once, with what hooks and rules make of it.
func TestDiscovery(t *testing.T) {
	called := make(chan string, 16)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { called <- r.URL.Path }))
	t.Cleanup(hook.Close)
	b := discoveryBench(t, Discovery{Driver: "fake-hardware"})
	b.server.Calls = new(inspection.Caller)
	t.Cleanup(b.server.Calls.Open(t.Context(), b.server.Log))
	b.rule(`{"op":"set-attribute","args":["driver_info/redfish_address","https://{inventory[bmc_address]}"]},{"op":"set-attribute","args":["driver_info/redfish_password","open sesame"]},
		{"op":"add-trait","args":["CUSTOM_NEW"]},{"op":"api-call","args":["` + hook.URL + `/{node.uuid}"]}`)
	const mac1, mac2 = "52:54:00:00:01:01", "52:54:00:00:01:02"
	var told []*store.Outbox
	defer b.store.WatchOutbox(func(entries []*store.Outbox) { told = append(told, entries...) })()
	id := b.want(202, "POST", sendData, "", strange(strings.ToUpper(mac1), mac2, `,"rack":"r7","logs":"AAAA"`)).object(t)["uuid"].(string)
	if len(told) != 1 || told[0].Node != id || told[0].Group != "east" || told[0].Left != nil {
		t.Errorf("its rack is told %+v, want what the database holds of it: its ports too", told)
	}
	n := b.want(200, "GET", "/v1/nodes/"+id, "1.115", "").object(t)
	for field, want := range map[string]any{"provision_state": "enroll", "driver": "fake-hardware", "resource_class": "unsorted", "conductor_group": "east", "owner": nil, "name": nil,
		"last_error": nil, "properties": map[string]any{"cpu_arch": "x86_64"}, "inspection_finished_at": nil, "traits": []any{"CUSTOM_NEW"}, "inspect_interface": "fake",
		"driver_info": map[string]any{"redfish_address": "https://192.0.2.1", "redfish_password": "******"}} {
		if fmt.Sprint(n[field]) != fmt.Sprint(want) {
			t.Errorf("%s is %v, want %v", field, n[field], want)
		}
	}
	if stored := b.strings("SELECT driver_info FROM nodes WHERE uuid = '" + id + "'"); strings.Contains(stored[0], "sesame") {
		t.Errorf("a rule's secret is stored as it is: %s", stored)
	}
	if ports := b.strings("SELECT address FROM ports WHERE node = '" + id + "'"); !slices.Equal(ports, []string{mac1}) {
		t.Errorf("ports %v, want the one that it booted from", ports)
	}
	found := b.want(200, "GET", "/v1/nodes/"+id+"/inventory", "1.115", "").object(t)
	plugin := found["plugin_data"].(map[string]any)
	if plugin["auto_discovered"] != true || plugin["rack"] != "r7" || plugin["valid_interfaces"] == nil || plugin["logs"] != nil || found["inventory"].(map[string]any)["bmc_address"] != "192.0.2.1" {
		t.Errorf("inventory %v", found)
	}
	select {
	case path := <-called:
		if path != "/"+id {
			t.Errorf("called %s", path)
		}
	case <-time.After(30 * time.Second):
		t.Error("the rule's call was not made")
	}
	history := b.want(200, "GET", "/v1/nodes/"+id+"/history?detail=true", "1.115", "").body
	if !strings.Contains(history, mac1) || !strings.Contains(history, `"user":null`) || strings.Contains(history, "ERROR") {
		t.Errorf("history %s", history)
	}
	if lines := b.strings("SELECT action || ' ' || node || ' ' || result || ' ' || user_name || '.' FROM audit WHERE path = 'v1/continue_inspection'"); len(lines) != 1 ||
		lines[0] != "baremetal:driver:ipa_continue_inspection "+id+" accepted ." {
		t.Errorf("audit %v", lines)
	}
	if changes := b.strings("SELECT resource || ' ' || event FROM changes WHERE node = '" + id + "' AND resource = 'node'"); !slices.Equal(changes, []string{"node create"}) {
		t.Errorf("changes %v", changes)
	}

	// Again, in another order, by its UUID, and without an answer to the first: it is the same node, with the data of today.
	golden(t, "discovered@1.84", b.want(202, "POST", sendData, "1.84", strings.Replace(strange(mac2, mac1, `,"rack":"r8"`), `"pxe_interface":"`+mac2, `"pxe_interface":"`+mac1, 1)).body)
	b.want(202, "POST", sendData+"?node_uuid="+id, "1.84", strange(mac1, mac2, `,"rack":"r8"`))
	if all := b.strings("SELECT uuid FROM nodes"); len(all) != 2 {
		t.Errorf("nodes %v", all)
	}
	if again := b.want(200, "GET", "/v1/nodes/"+id+"/inventory", "1.115", "").body; !strings.Contains(again, `"rack":"r8"`) {
		t.Errorf("the inventory stays the first: %s", again)
	}
	// It is like any other node now: what it sends is taken when it is inspected, and at no other time.
	b.move(id, provision.Available, provision.NoState, nil)
	b.want(404, "POST", sendData, "1.84", strange(mac1, mac2, ""))
	b.want(204, "DELETE", "/v1/nodes/"+id, "1.115", "")
	b.want(202, "POST", sendData, "1.84", strange(mac1, mac2, ""))
}

// What is refused gets one answer, whoever is meant, changes nothing, and says nothing of what there is.
func TestDiscoveryLeavesNodesAlone(t *testing.T) {
	b := discoveryBench(t, Discovery{Driver: "fake-hardware"})
	b.want(201, "POST", "/v1/nodes", "1.115", `{"name":"n2","driver":"fake-hardware"}`)
	b.want(201, "POST", "/v1/ports", "1.115", `{"node_uuid":"`+b.node("n2").UUID+`","address":"52:54:00:00:00:02"}`)
	before := b.snapshot()
	const stranger = "52:54:00:00:00:77"
	for name, c := range map[string]struct{ version, query, body string }{
		"one that somebody has enrolled":         {"1.84", "", strange("52:54:00:00:00:01", stranger, "")},
		"the same, by its UUID":                  {"1.84", "?node_uuid=" + nodeID, strange("52:54:00:00:00:01", stranger, "")},
		"one that somebody enrolled, by UUID":    {"1.84", "?node_uuid=" + nodeID, strange(stranger, stranger, "")},
		"two nodes":                              {"1.84", "", strange("52:54:00:00:00:01", "52:54:00:00:00:02", "")},
		"a UUID that nobody has":                 {"1.84", "?node_uuid=99999999-2222-4333-8444-555555555555", strange(stranger, stranger, "")},
		"one without an address that means much": {"1.84", "", `{"inventory":{"interfaces":[{"mac_address":"nonsense"}],"bmc_address":"0.0.0.0"}}`},
	} {
		if a := b.want(404, "POST", sendData+c.query, c.version, c.body); a.fault(t) != "Resource could not be found." {
			t.Errorf("%s: %s", name, a.body)
		}
	}
	b.want(404, "POST", sendData, "1.83", strange(stranger, stranger, ""))
	b.want(400, "POST", sendData, "1.84", `{"inventory":{}}`)
	if b.snapshot() != before {
		t.Error("what was refused has changed something")
	}
	b.server.Discovery.Driver = ""
	b.want(404, "POST", sendData, "1.84", strange(stranger, stranger, ""))
	if b.snapshot() != before {
		t.Error("what is not discovered has become something")
	}
}

// What hooks or rules refuse stays one node in enroll, which says why until they do not any more.
func TestDiscoveryThatIsRefused(t *testing.T) {
	b := discoveryBench(t, Discovery{Driver: "fake-hardware"})
	b.rule(`{"op":"set-attribute","args":["resource_class","large"]},{"op":"fail","args":["not on my watch"]}`)
	send := func() string {
		return b.want(202, "POST", sendData, "", strange("52:54:00:00:02:01", "52:54:00:00:02:02", "")).object(t)["uuid"].(string)
	}
	id := send()
	if again := send(); again != id {
		t.Errorf("sent twice, it is %s and %s", id, again)
	}
	n := b.node(id)
	if n.ProvisionState != provision.Enroll || n.LastError != "Failed to inspect hardware. Reason: not on my watch" || n.ResourceClass != "unsorted" || len(n.Properties) != 0 ||
		len(b.strings("SELECT uuid FROM ports WHERE node = '"+id+"'")) != 0 {
		t.Errorf("node %+v", n)
	}
	if history := b.want(200, "GET", "/v1/nodes/"+id+"/history", "1.115", "").body; strings.Count(history, `"ERROR"`) != 2 || !strings.Contains(history, "not on my watch") {
		t.Errorf("history %s", history)
	}
	if a := b.want(200, "GET", "/v1/nodes/"+id+"/inventory", "1.115", ""); !strings.Contains(a.body, "52:54:00:00:02:01") {
		t.Errorf("what it sent is not kept: %s", a.body)
	}
	b.want(204, "DELETE", "/v1/inspection_rules", "1.96", "")
	send()
	if n := b.node(id); n.LastError != "" || n.Properties["cpu_arch"] != "x86_64" {
		t.Errorf("accepted at last: error %q, properties %v", n.LastError, n.Properties)
	}
}

// A machine whose driver inspects by the BMC is processed by what its ramdisk said, which the BMC's
// inspection would not be content with.
func TestDiscoveryIsTheRamdisksWord(t *testing.T) {
	b := discoveryBench(t, Discovery{Driver: "redfish"})
	cfg := b.server.Config
	members := slices.Clone(cfg.Roster.(fakeRoster))
	members[1].Drivers = map[string]map[string][]string{"redfish": {"inspect": {"redfish", "agent"}, "power": {"redfish"}}}
	cfg.Roster = members
	b.server = New(cfg)
	id := b.want(202, "POST", sendData, "", strange("52:54:00:00:03:01", "52:54:00:00:03:02", "")).object(t)["uuid"].(string)
	if n := b.node(id); n.Interfaces["inspect"] != "redfish" || n.LastError != "" || n.Properties["cpu_arch"] != "x86_64" {
		t.Errorf("interfaces %v, error %q, properties %v", n.Interfaces, n.LastError, n.Properties)
	}
}

// When no more can be enrolled the machine is told to come back, and the log says what to do.
func TestDiscoveryHasItsLimits(t *testing.T) {
	for name, c := range map[string]struct {
		set  Discovery
		says string
	}{
		"nodes wait already": {Discovery{Driver: "fake-hardware", Most: 1}, "--discovery-limit"},
		"nobody has that":    {Discovery{Driver: "iron-horse"}, "supports driver iron-horse"},
	} {
		t.Run(name, func(t *testing.T) {
			b := discoveryBench(t, c.set)
			before := b.snapshot()
			a := b.want(503, "POST", sendData, "1.84", strange("52:54:00:00:04:01", "52:54:00:00:04:02", ""))
			if a.fault(t) != "Central cannot take the data at this moment; please retry later." || !strings.Contains(b.log.String(), c.says) {
				t.Errorf("answer %s, log %s", a.body, b.log.String())
			}
			if b.snapshot() != before {
				t.Error("what was refused has changed something")
			}
		})
	}
	for _, wrong := range []Discovery{{Most: -1}, {Driver: "fake hardware"}, {Driver: strings.Repeat("x", 256)}} {
		if wrong.Check() == nil {
			t.Errorf("%+v passes", wrong)
		}
	}
}

// However many replicas a machine's data reaches at once, it becomes one node.
func TestDiscoveryAtSeveralReplicas(t *testing.T) {
	t.Parallel()
	postgres := ownPostgres(t)
	key, err := seal.NewKey(bytes.Repeat([]byte{7}, 32))
	if err != nil {
		t.Fatal(err)
	}
	for engine, address := range map[string]string{"postgresql": postgres.Database(t), "sqlite": storetest.SQLite(t)} {
		for form, apart := range map[string]bool{"in turn": false, "apart": true} {
			t.Run(engine+" "+form, func(t *testing.T) {
				var replicas []*Server
				for range 3 {
					db, err := store.Open(t.Context(), address, store.Options{Apart: apart})
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { db.Close() })
					replicas = append(replicas, New(Config{Store: db, Key: key, Log: slog.New(slog.DiscardHandler), Discovery: Discovery{Driver: "fake-hardware"},
						Roster: fakeRoster{{Name: "rack-1", Drivers: map[string]map[string][]string{"fake-hardware": fakeDriver}}}}))
				}
				discoverAtOnce(t, replicas, form)
			})
		}
	}
}

func discoverAtOnce(t *testing.T, replicas []*Server, form string) {
	const machines, times = 8, 6
	byte5 := len(form) // other addresses than those of the other form, which has the same database
	var senders sync.WaitGroup
	var mu sync.Mutex
	ids := map[int]map[string]bool{}
	for i := range machines * times {
		senders.Go(func() {
			machine := i % machines
			body := strange(fmt.Sprintf("52:54:00:%02x:%02x:01", byte5, machine), fmt.Sprintf("52:54:00:%02x:%02x:02", byte5, machine), "")
			r := httptest.NewRequestWithContext(context.Background(), "POST", sendData, strings.NewReader(body))
			w := httptest.NewRecorder()
			replicas[i%len(replicas)].ServeHTTP(w, r)
			if w.Code != 202 {
				t.Errorf("status %d: %s", w.Code, w.Body)
			}
			mu.Lock()
			defer mu.Unlock()
			if ids[machine] == nil {
				ids[machine] = map[string]bool{}
			}
			ids[machine][w.Body.String()] = true
		})
	}
	senders.Wait()
	for machine, said := range ids {
		if len(said) != 1 {
			t.Errorf("machine %d has become %v", machine, said)
		}
	}
	for machine := range machines {
		ports, err := replicas[0].Store.Ports(t.Context(), store.PortQuery{Address: fmt.Sprintf("52:54:00:%02x:%02x:01", byte5, machine)})
		if err != nil || len(ports) != 1 || !ids[machine][`{"uuid":"`+ports[0].Node+`"}`] {
			t.Errorf("machine %d: ports %v, error %v, told %v", machine, ports, err, ids[machine])
		}
	}
}
