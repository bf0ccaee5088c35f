package api

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/provision"
)

// interrupting is a rack that answers as others do. The first time that it is asked, another request is carried out before.
type interrupting struct {
	fakeAsker
	asked atomic.Bool
	other func()
}

func (i *interrupting) Ask(ctx context.Context, m bus.Member, q ask.Request) (json.RawMessage, error) {
	if !i.asked.Swap(true) {
		i.other()
	}
	return i.fakeAsker.Ask(ctx, m, q)
}

// ownIDs are what differs between two runs of the same requests: ids but those that the test gives, and what is sealed.
var ownIDs = regexp.MustCompile(`[02-9b-f][0-9a-f]{7}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[1a][0-9a-f]{7}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[A-Za-z0-9+/_-]{40,}=*`)

func hideOwn(text string) string {
	return ownIDs.ReplaceAllStringFunc(text, func(id string) string {
		if strings.HasPrefix(id, "11111111-") || strings.HasPrefix(id, "aaaaaaaa-") {
			return id
		}
		return "*"
	})
}

// unlike are the lines of a that b lacks.
func unlike(a, b string) string {
	var out []string
	has := strings.Split(b, "\n")
	for line := range strings.SplitSeq(a, "\n") {
		if !slices.Contains(has, line) {
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n")
}

// sameEachTime is a snapshot without what differs between two runs.
func (b *bench) sameEachTime() string {
	b.t.Helper()
	lines := strings.Split(hideOwn(b.snapshot()), "\n")
	var out, table []string
	for _, l := range append(lines, "end:") {
		if strings.HasSuffix(l, ":") && !strings.Contains(l, "|") {
			slices.Sort(table)
			out, table = append(append(out, table...), l), nil
			continue
		}
		table = append(table, l)
	}
	return strings.Join(out, "\n")
}

type oneRequest struct{ method, path, body string }

func (q oneRequest) String() string { return q.method + " " + q.path + " " + q.body }

const (
	besidePort   = "aaaaaaaa-5555-4333-8444-555555555555"
	besideTarget = "aaaaaaaa-6666-4333-8444-555555555555"
	besideAlloc  = "aaaaaaaa-7777-4333-8444-555555555555"
)

// asking are requests about which the rack is asked, with the state of the node.
var asking = map[provision.State][]oneRequest{
	provision.Available: {
		{"PUT", "/v1/nodes/" + nodeID + "/states/provision", `{"target":"active","configdrive":"SDRzaWFB"}`},
	},
	provision.Active: {
		{"PUT", "/v1/nodes/" + nodeID + "/states/provision", `{"target":"rebuild"}`},
		{"PUT", "/v1/nodes/" + nodeID + "/states/power", `{"target":"rebooting"}`},
	},
	provision.Manageable: {
		{"PUT", "/v1/nodes/" + nodeID + "/states/provision", `{"target":"clean","clean_steps":[{"interface":"deploy","step":"a"}]}`},
		{"PUT", "/v1/nodes/" + nodeID + "/states/provision", `{"target":"inspect"}`},
	},
}

// besides are requests that come while the rack is asked.
var besides = []oneRequest{
	{"PUT", "/v1/nodes/" + nodeID + "/states/provision", `{"target":"active"}`},
	{"PUT", "/v1/nodes/" + nodeID + "/states/provision", `{"target":"deleted"}`},
	{"PUT", "/v1/nodes/" + nodeID + "/states/provision", `{"target":"manage"}`},
	{"PUT", "/v1/nodes/" + nodeID + "/states/provision", `{"target":"provide"}`},
	{"PUT", "/v1/nodes/" + nodeID + "/states/provision", `{"target":"inspect"}`},
	{"PUT", "/v1/nodes/" + nodeID + "/states/provision", `{"target":"rebuild"}`},
	{"PUT", "/v1/nodes/" + nodeID + "/states/power", `{"target":"power on"}`},
	{"PUT", "/v1/nodes/" + nodeID + "/maintenance", `{"reason":"a technician"}`},
	{"PATCH", "/v1/nodes/" + nodeID, `[{"op":"add","path":"/retired","value":true}]`},
	{"PATCH", "/v1/nodes/" + nodeID, `[{"op":"add","path":"/protected","value":true}]`},
	{"PATCH", "/v1/nodes/" + nodeID, `[{"op":"add","path":"/instance_info/image_source","value":"http://other"}]`},
	{"PATCH", "/v1/nodes/" + nodeID, `[{"op":"add","path":"/boot_interface","value":"ipxe"}]`},
	{"PATCH", "/v1/nodes/" + nodeID, `[{"op":"add","path":"/driver_info/redfish_address","value":"https://other"}]`},
	{"PATCH", "/v1/nodes/" + nodeID, `[{"op":"add","path":"/conductor_group","value":"east"}]`},
	{"PATCH", "/v1/nodes/" + nodeID, `[{"op":"add","path":"/instance_uuid","value":"` + nodeID + `"}]`},
	{"PATCH", "/v1/nodes/" + nodeID, `[{"op":"add","path":"/name","value":"other"}]`},
	{"DELETE", "/v1/nodes/" + nodeID, ""},
	{"POST", "/v1/allocations", `{"uuid":"` + besideAlloc + `","resource_class":"small"}`},
	{"POST", "/v1/allocations", `{"uuid":"` + besideAlloc + `","node":"` + nodeID + `"}`},
	{"POST", "/v1/volume/targets", `{"node_uuid":"` + nodeID + `","boot_index":1,"volume_id":"2","volume_type":"iscsi"}`},
	{"PATCH", "/v1/volume/targets/" + besideTarget, `[{"op":"replace","path":"/volume_id","value":"3"}]`},
	{"DELETE", "/v1/volume/targets/" + besideTarget, ""},
	{"DELETE", "/v1/ports/" + besidePort, ""},
	{"PATCH", "/v1/ports/" + besidePort, `[{"op":"replace","path":"/address","value":"52:54:00:00:0f:02"}]`},
	{"POST", "/v1/nodes/" + nodeID + "/vifs", `{"id":"a-vif"}`},
	{"PUT", "/v1/nodes/" + nodeID + "/traits", `{"traits":["CUSTOM_B"]}`},
	{"PUT", "/v1/nodes/" + nodeID + "/management/boot_device", `{"boot_device":"pxe"}`},
	{"PUT", "/v1/nodes/" + nodeID + "/states/raid", `{"logical_disks":[]}`},
}

// besideBench is a bench whose node is in a state, with all that requests may be about.
func besideBench(t *testing.T, state provision.State) *bench {
	t.Helper()
	b := newBench(t)
	b.addFree()
	b.want(201, "POST", "/v1/ports", "1.115", `{"uuid":"`+besidePort+`","node_uuid":"`+nodeID+`","address":"52:54:00:00:0f:01"}`)
	b.want(201, "POST", "/v1/volume/targets", "1.115", `{"uuid":"`+besideTarget+`","node_uuid":"`+nodeID+`","boot_index":0,"volume_id":"1","volume_type":"iscsi"}`)
	b.move(nodeID, state, provision.NoState, nil)
	b.observe(nodeID, func(n *store.Node) { n.PowerState = "power off" })
	cfg := b.server.Config
	cfg.routed = nil // it is for one request at a time
	b.server = New(cfg)
	return b
}

// A request is accepted or refused by how the node is when it is accepted. While the rack was asked about it, another request may have
// changed that. Then all is as if the first had come when the other was done, or the first is refused and nothing of it is there.
func TestWhatChangesWhileTheRackIsAsked(t *testing.T) {
	for state, list := range asking {
		for _, first := range list {
			for _, other := range besides {
				t.Run(fmt.Sprint(state, " ", first, " beside ", other), func(t *testing.T) {
					t.Parallel()
					alone, before, beside := besideBench(t, state), besideBench(t, state), besideBench(t, state)
					send := func(b *bench, q oneRequest) answer { return b.do(q.method, q.path, "1.115", q.body) }
					only := send(alone, other)
					otherFirst := send(before, other)
					firstLater := send(before, first)
					var otherBeside answer
					asked := &interrupting{fakeAsker: beside.ask, other: func() { otherBeside = send(beside, other) }}
					beside.server.Ask, beside.server.dispatch.Ask = asked, asked
					firstBeside := send(beside, first)
					if otherBeside.Response == nil {
						t.Fatalf("the rack was not asked: status %d %s", firstBeside.StatusCode, firstBeside.body)
					}
					if only.StatusCode != otherFirst.StatusCode || otherBeside.StatusCode != only.StatusCode {
						t.Errorf("the one that came while the rack was asked: status %d, want %d: %s", otherBeside.StatusCode, only.StatusCode, otherBeside.body)
					}
					is := beside.sameEachTime()
					switch {
					case firstBeside.StatusCode >= 400:
						if is != alone.sameEachTime() {
							t.Errorf("refused (%d %s), and there is\n%s", firstBeside.StatusCode, firstBeside.body, unlike(is, alone.sameEachTime()))
						}
						if firstBeside.StatusCode >= 500 {
							t.Errorf("status %d: %s", firstBeside.StatusCode, firstBeside.body)
						}
					case firstLater.StatusCode != firstBeside.StatusCode:
						t.Errorf("status %d, and %d when the other one has been done: %s", firstBeside.StatusCode, firstLater.StatusCode, firstLater.body)
					case is != before.sameEachTime():
						t.Errorf("it is\n%s\nand not\n%s", unlike(is, before.sameEachTime()), unlike(before.sameEachTime(), is))
					}
				})
			}
		}
	}
}

// The node changes while its rack is asked, and the rack objects to how it is now. A node that changes each time is not accepted at all.
func TestTheRackIsAskedAgainAboutANodeThatChanged(t *testing.T) {
	for changes, status := range map[int]int{1: 400, 100: 409} {
		b := besideBench(t, provision.Available)
		asked := 0
		b.server.dispatch.Ask = askerFunc(func(q ask.Request) (json.RawMessage, error) {
			if asked++; asked <= changes {
				b.want(200, "PATCH", "/v1/nodes/"+nodeID, "1.115", fmt.Sprintf(`[{"op":"add","path":"/driver_info/redfish_address","value":"https://bmc-%d"}]`, asked))
				return b.ask.Ask(t.Context(), bus.Member{}, q)
			}
			return json.RawMessage(`{"power":{"result":false,"reason":"there is no BMC"}}`), nil
		})
		a := b.do("PUT", "/v1/nodes/"+nodeID+"/states/provision", "1.115", `{"target":"active"}`)
		if n := b.node(nodeID); a.StatusCode != status || n.WorkID != "" || n.ProvisionState != provision.Available {
			t.Errorf("%d changes: status %d, want %d; the node is %s with work %q: %s", changes, a.StatusCode, status, n.ProvisionState, n.WorkID, a.body)
		}
	}
}

// The node goes to another conductor group while a rackd of the former one is asked about a change, which is sealed for that group.
func TestTheNodeGoesToAnotherGroupWhileARackIsAskedAboutAChange(t *testing.T) {
	b := besideBench(t, provision.Manageable)
	b.ask[ask.CheckChange] = `null`
	asked := &interrupting{fakeAsker: b.ask, other: func() {
		b.want(200, "PATCH", "/v1/nodes/"+nodeID, "1.115", `[{"op":"add","path":"/conductor_group","value":"east"}]`)
	}}
	b.server.Ask, b.server.dispatch.Ask = asked, asked
	const path, body = "/v1/nodes/" + nodeID + "/vmedia", `{"device_type":"cdrom","image_url":"http://images.example/a.iso"}`
	a := b.want(409, "POST", path, "1.115", body)
	if n := b.node(nodeID); n.WorkID != "" || n.ConductorGroup != "east" {
		t.Errorf("work %q of group %q: %s", n.WorkID, n.ConductorGroup, a.body)
	}
	b.want(204, "POST", path, "1.115", body)
	if w := b.work(nodeID); w.Group != "east" || w.Owner != "rack-2" {
		t.Errorf("asked again: work of group %q, owner %q", w.Group, w.Owner)
	}
}
