package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/seal"
)

// pair are two replicas of central on one database.
type pair struct {
	t        *testing.T
	replicas [2]*Server
	store    *store.Store
}

// newPair opens a database twice. apart: each transaction by itself, as on CockroachDB.
func newPair(t *testing.T, address string, apart bool) *pair {
	t.Helper()
	key, err := seal.NewKey(bytes.Repeat([]byte{7}, 32))
	if err != nil {
		t.Fatal(err)
	}
	p := &pair{t: t}
	for i := range p.replicas {
		db, err := store.Open(t.Context(), address, store.Options{Apart: apart})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		p.store = db
		p.replicas[i] = New(Config{Store: db, Key: key, Log: slog.New(slog.DiscardHandler), PublicEndpoint: "http://ironyard.example:6385/",
			Ask: fakeAsker{ask.Validate: `{"power":{"result":true},"deploy":{"result":true},"boot":{"result":true}}`},
			Roster: fakeRoster{{Name: "rack-1", Drivers: map[string]map[string][]string{"fake-hardware": fakeDriver}},
				{Name: "rack-2", Group: "east", Drivers: map[string]map[string][]string{"fake-hardware": fakeDriver}}}})
	}
	return p
}

// call is a request.
type call struct{ method, path, body string }

// do sends a request to a replica.
func (p *pair) do(replica int, c call) (int, string) {
	r := httptest.NewRequestWithContext(context.Background(), c.method, "http://ironyard.example:6385"+c.path, strings.NewReader(c.body))
	r.Header.Set("X-OpenStack-Ironic-API-Version", "1.101")
	w := httptest.NewRecorder()
	p.replicas[replica].ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func (p *pair) made(c call) {
	p.t.Helper()
	if code, body := p.do(0, c); code != 201 && code != 204 && code != 200 {
		p.t.Fatalf("%s %s: %d %s", c.method, c.path, code, body)
	}
}

// object is what a GET shows; nil: it is not there.
func (p *pair) object(path string) (m map[string]any) {
	p.t.Helper()
	code, body := p.do(1, call{"GET", path, ""})
	if code == 404 {
		return nil
	}
	if code != 200 || json.Unmarshal([]byte(body), &m) != nil {
		p.t.Fatalf("GET %s: %d %s", path, code, body)
	}
	return m
}

// uuidIn is that of a thing of a kind in a round.
func uuidIn(kind string, round int) string {
	return fmt.Sprintf("%s-0000-4000-8000-%012d", kind, round)
}

const (
	raceNode, raceOther, racePort = "aaaaaaaa", "aaaaaaab", "bbbbbbbb"
	raceGroup, raceTarget         = "cccccccc", "dddddddd"
	raceAllocation, raceVIF       = "eeeeeeee", "ffffffff"
)

// enrolled enrols a node.
func (p *pair) enrolled(kind string, round int) string {
	p.t.Helper()
	id := uuidIn(kind, round)
	p.made(call{"POST", "/v1/nodes", `{"uuid":"` + id + `","driver":"fake-hardware","resource_class":"class-` + fmt.Sprint(round) + `",
		"instance_info":{"image_source":"http://images/i.raw","image_os_hash_algo":"sha256","image_os_hash_value":"` + strings.Repeat("0", 64) + `"}}`})
	return id
}

// available enrols a node and makes it available.
func (p *pair) available(kind string, round int) string {
	p.t.Helper()
	id := p.enrolled(kind, round)
	err := p.store.Update(p.t.Context(), func(ctx context.Context, tx *store.Tx) error {
		n, err := tx.Node(ctx, id)
		if err != nil {
			return err
		}
		n.Accept(provision.Available, provision.NoState, noon)
		if err := tx.UpdateNode(ctx, n); err != nil {
			return err
		}
		if n, err = tx.Node(ctx, id); err != nil {
			return err
		}
		n.PowerState = "power off"
		return tx.UpdateObservation(ctx, n)
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return id
}

// Two requests about the same come at the same time, to two replicas on one PostgreSQL. Each is done or refused with the reason, as if one
// had come after the other, and what is left fits together.
func TestRequestsThatRace(t *testing.T) {
	t.Parallel()
	postgres := ownPostgres(t)
	const rounds = 12
	node := func(i int) string { return "/v1/nodes/" + uuidIn(raceNode, i) }
	port := func(i int) string { return "/v1/ports/" + uuidIn(racePort, i) }
	deploy := func(i int) call {
		return call{"PUT", node(i) + "/states/provision", `{"target":"active"}`}
	}
	addPort := func(p *pair, i int) {
		p.made(call{"POST", "/v1/ports", `{"uuid":"` + uuidIn(racePort, i) + `","node_uuid":"` + uuidIn(raceNode, i) + `",
			"address":"52:54:00:00:00:` + fmt.Sprintf("%02x", i) + `"}`})
	}
	withPort := func(p *pair, i int) {
		p.available(raceNode, i)
		addPort(p, i)
	}
	withGroup := func(p *pair, i int) {
		p.enrolled(raceNode, i)
		addPort(p, i)
		p.made(call{"POST", "/v1/portgroups", `{"uuid":"` + uuidIn(raceGroup, i) + `","node_uuid":"` + uuidIn(raceNode, i) + `"}`})
	}
	ok := func(code int) bool { return code/100 == 2 }
	for name, c := range map[string]struct {
		begin func(p *pair, i int)
		calls func(i int) []call
		// wrong says what does not fit together; codes are of the calls.
		wrong func(p *pair, i int, codes []int) string
	}{
		"delete a port, attach a VIF": {withPort, func(i int) []call {
			return []call{{"DELETE", port(i), ""}, {"POST", node(i) + "/vifs", `{"id":"` + uuidIn(raceVIF, i) + `"}`}}
		}, func(p *pair, i int, codes []int) string {
			left, vifs := p.object(port(i)), p.object(node(i) + "/vifs")["vifs"].([]any)
			if ok(codes[0]) == ok(codes[1]) || ok(codes[0]) != (left == nil) || ok(codes[1]) != (len(vifs) == 1) {
				return fmt.Sprint("port ", left, ", VIFs ", vifs)
			}
			return ""
		}},
		"two VIFs for one port": {withPort, func(i int) []call {
			return []call{{"POST", node(i) + "/vifs", `{"id":"` + uuidIn(raceVIF, i) + `"}`}, {"POST", node(i) + "/vifs", `{"id":"` + uuidIn(raceVIF, i+100) + `"}`}}
		}, func(p *pair, i int, codes []int) string {
			if vifs := p.object(node(i) + "/vifs")["vifs"].([]any); ok(codes[0]) == ok(codes[1]) || len(vifs) != 1 {
				return fmt.Sprint("VIFs ", vifs)
			}
			return ""
		}},
		"change a node, deploy it": {withPort, func(i int) []call {
			return []call{{"PATCH", node(i), `[{"op":"add","path":"/driver_info/a","value":"b"}]`}, deploy(i)}
		}, func(p *pair, i int, codes []int) string {
			n := p.object(node(i))
			if _, there := n["driver_info"].(map[string]any)["a"]; there != ok(codes[0]) || !ok(codes[1]) || n["provision_state"] != "deploying" {
				return fmt.Sprint("node ", n)
			}
			return ""
		}},
		"delete a node, deploy it": {withPort, func(i int) []call { return []call{{"DELETE", node(i), ""}, deploy(i)} },
			func(p *pair, i int, codes []int) string {
				n, left := p.object(node(i)), p.object(port(i))
				if ok(codes[0]) == ok(codes[1]) || ok(codes[0]) != (n == nil) || (n == nil) != (left == nil) {
					return fmt.Sprint("node ", n, ", port ", left)
				}
				return ""
			}},
		"deploy a node twice": {withPort, func(i int) []call { return []call{deploy(i), deploy(i)} }, func(_ *pair, _ int, codes []int) string {
			if ok(codes[0]) == ok(codes[1]) {
				return "both or none"
			}
			return ""
		}},
		"delete a port, deploy": {withPort, func(i int) []call { return []call{{"DELETE", port(i), ""}, deploy(i)} }, func(p *pair, i int, codes []int) string {
			if left := p.object(port(i)); ok(codes[0]) != (left == nil) || !ok(codes[1]) && !ok(codes[0]) {
				return fmt.Sprint("port ", left)
			}
			return ""
		}},
		"change a target, deploy": {func(p *pair, i int) {
			withPort(p, i)
			p.made(call{"POST", "/v1/volume/targets", `{"uuid":"` + uuidIn(raceTarget, i) + `","node_uuid":"` + uuidIn(raceNode, i) + `",
				"volume_type":"iscsi","volume_id":"v1","boot_index":1,"properties":{}}`})
		}, func(i int) []call {
			return []call{{"PATCH", "/v1/volume/targets/" + uuidIn(raceTarget, i), `[{"op":"replace","path":"/volume_id","value":"v2"}]`}, deploy(i)}
		}, func(p *pair, i int, codes []int) string {
			if got := p.object("/v1/volume/targets/" + uuidIn(raceTarget, i)); ok(codes[0]) != (got["volume_id"] == "v2") || !ok(codes[1]) {
				return fmt.Sprint("target ", got)
			}
			return ""
		}},
		"allocate a node, delete it": {withPort, func(i int) []call {
			return []call{{"POST", "/v1/allocations", `{"uuid":"` + uuidIn(raceAllocation, i) + `","resource_class":"class-` + fmt.Sprint(i) + `"}`}, {"DELETE", node(i), ""}}
		}, func(p *pair, i int, codes []int) string {
			n, a := p.object(node(i)), p.object("/v1/allocations/"+uuidIn(raceAllocation, i))
			taken := a != nil && a["state"] == "active"
			if !ok(codes[0]) || taken == (n == nil) || ok(codes[1]) != (n == nil) || taken && (a["node_uuid"] != n["uuid"] || n["allocation_uuid"] != a["uuid"]) {
				return fmt.Sprint("node ", n, ", allocation ", a)
			}
			return ""
		}},
		"two allocations of one node": {withPort, func(i int) []call {
			of := func(n int) call {
				return call{"POST", "/v1/allocations", `{"uuid":"` + uuidIn(raceAllocation, n) + `","resource_class":"class-` + fmt.Sprint(i) + `"}`}
			}
			return []call{of(i), of(i + 100)}
		}, func(p *pair, i int, _ []int) string {
			a, b := p.object("/v1/allocations/"+uuidIn(raceAllocation, i)), p.object("/v1/allocations/"+uuidIn(raceAllocation, i+100))
			if states := []any{a["state"], b["state"]}; !slices.Contains(states, any("active")) || !slices.Contains(states, any("error")) {
				return fmt.Sprint(a, b)
			}
			return ""
		}},
		"join a portgroup, delete it": {withGroup, func(i int) []call {
			return []call{{"PATCH", port(i), `[{"op":"add","path":"/portgroup_uuid","value":"` + uuidIn(raceGroup, i) + `"}]`}, {"DELETE", "/v1/portgroups/" + uuidIn(raceGroup, i), ""}}
		}, func(p *pair, i int, codes []int) string {
			left, g := p.object(port(i)), p.object("/v1/portgroups/"+uuidIn(raceGroup, i))
			if ok(codes[0]) == ok(codes[1]) || (g != nil) != (left["portgroup_uuid"] != nil) {
				return fmt.Sprint("port ", left, ", portgroup ", g)
			}
			return ""
		}},
		"join a portgroup, go to another node": {func(p *pair, i int) { withGroup(p, i); p.enrolled(raceOther, i) }, func(i int) []call {
			return []call{{"PATCH", port(i), `[{"op":"add","path":"/portgroup_uuid","value":"` + uuidIn(raceGroup, i) + `"}]`},
				{"PATCH", port(i), `[{"op":"replace","path":"/node_uuid","value":"` + uuidIn(raceOther, i) + `"}]`}}
		}, func(p *pair, i int, _ []int) string {
			left, g := p.object(port(i)), p.object("/v1/portgroups/"+uuidIn(raceGroup, i))
			if left["portgroup_uuid"] != nil && left["node_uuid"] != g["node_uuid"] {
				return fmt.Sprint("port ", left, ", portgroup ", g)
			}
			return ""
		}},
		"move a port to a node, delete that": {func(p *pair, i int) { p.enrolled(raceNode, i); addPort(p, i); p.enrolled(raceOther, i) }, func(i int) []call {
			return []call{{"PATCH", port(i), `[{"op":"replace","path":"/node_uuid","value":"` + uuidIn(raceOther, i) + `"}]`}, {"DELETE", "/v1/nodes/" + uuidIn(raceOther, i), ""}}
		}, func(p *pair, i int, codes []int) string {
			left, other := p.object(port(i)), p.object("/v1/nodes/"+uuidIn(raceOther, i))
			if !ok(codes[1]) || other != nil || ok(codes[0]) != (left == nil) {
				return fmt.Sprint("port ", left, ", node ", other)
			}
			return ""
		}},
	} {
		for form, apart := range map[string]bool{"in turn": false, "apart": true} {
			t.Run(name+", "+form, func(t *testing.T) {
				t.Parallel()
				p := newPair(t, postgres.Database(t), apart)
				outcomes := map[string]int{}
				for i := range rounds {
					c.begin(p, i)
					calls := c.calls(i)
					codes, bodies := make([]int, len(calls)), make([]string, len(calls))
					var at sync.WaitGroup
					for k := range calls {
						at.Go(func() { codes[k], bodies[k] = p.do((i+k)%2, calls[k]) })
					}
					at.Wait()
					outcomes[fmt.Sprint(codes)]++
					for k, code := range codes {
						if code >= 500 || code == 401 || code/100 == 4 && !strings.Contains(bodies[k], "error_message") {
							t.Errorf("round %d: %s %s: %d %s", i, calls[k].method, calls[k].path, code, bodies[k])
						}
					}
					if why := c.wrong(p, i, codes); why != "" {
						t.Errorf("round %d: %v %s: %s", i, codes, bodies, why)
					}
				}
				t.Log(outcomes)
			})
		}
	}
}
