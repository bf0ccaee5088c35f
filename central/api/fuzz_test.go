package api

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/central/store"
)

// harmless fails the test when an answer is a server's failure, or a refusal
// that changed something.
func (b *bench) harmless(t *testing.T, a answer, before string) {
	t.Helper()
	if a.StatusCode >= 500 {
		t.Fatalf("status %d: %s\n%s", a.StatusCode, a.body, b.log.String())
	}
	if a.body != "" && !json.Valid([]byte(a.body)) {
		t.Fatalf("body is no JSON: %s", a.body)
	}
	if a.StatusCode >= 400 && before != "" && b.snapshot() != before {
		t.Fatalf("a request refused with %d changed something", a.StatusCode)
	}
}

func FuzzPatchNode(f *testing.F) {
	for _, seed := range []string{`[{"op":"add","path":"/extra/a","value":{"b":[1]}}]`, `[{"op":"remove","path":"/driver_info/redfish_password"}]`,
		`[{"op":"replace","path":"/extra/a/0","value":null},{"op":"add","path":"/extra/a/-","value":"x"}]`, `[{"op":"add","path":"/name","value":"ü"}]`,
		`[{"op":"replace","path":"/driver","value":"redfish"}]`, `[{"op":"add","path":"/maintenance","value":"on"}]`, `{}`, `[`, `[null]`,
		`[{"op":"replace","path":"/conductor_group","value":"EAST"}]`, `[{"op":"remove","path":"/boot_interface"}]`} {
		f.Add(seed, 115)
	}
	b := newFuzzBench(f)
	f.Fuzz(func(t *testing.T, body string, version int) {
		before := b.fresh(t)
		b.harmless(t, b.do("PATCH", "/v1/nodes/"+nodeID, "1."+itoa(version), body), before)
	})
}

func FuzzCreateNode(f *testing.F) {
	for _, seed := range []string{`{"driver":"fake-hardware","name":"a"}`, `{"driver":"fake-hardware","extra":{"a":1e400}}`,
		`{"driver":"redfish","driver_info":{"password":["x"]},"uuid":"11111111222243338444555555555555"}`, `{"driver":"fake-hardware","parent_node":"n1"}`,
		`{"driver":"fake-hardware","instance_info":{"a":"\ud800"},"maintenance":"y","automated_clean":null}`} {
		f.Add(seed, 115)
	}
	b := newFuzzBench(f)
	f.Fuzz(func(t *testing.T, body string, version int) {
		before := b.fresh(t)
		b.harmless(t, b.do("POST", "/v1/nodes", "1."+itoa(version), body), before)
	})
}

func FuzzProvision(f *testing.F) {
	for _, seed := range []string{`{"target":"manage"}`, `{"target":"active","configdrive":"aGk="}`, `{"target":"active","configdrive":{"user_data":[1]}}`,
		`{"target":"clean","clean_steps":[{"interface":"deploy","step":"a","args":{}}]}`, `{"target":"rebuild","configdrive":"http://h/x"}`,
		`{"target":"active","deploy_steps":[{"interface":"deploy","step":"a","priority":1}]}`, `{"target":"service","service_steps":[]}`} {
		f.Add(seed, 115)
	}
	b := newFuzzBench(f)
	f.Fuzz(func(t *testing.T, body string, version int) {
		before := b.fresh(t)
		b.harmless(t, b.do("PUT", "/v1/nodes/n1/states/provision", "1."+itoa(version), body), before)
	})
}

func FuzzPath(f *testing.F) {
	f.Add("nodes", "limit=1&sort_key=name", "1.115")
	f.Add("nodes/n1/traits/CUSTOM_A", "", "latest")
	f.Add("nodes/detail", "marker=11111111-2222-4333-8444-555555555555&sort_dir=desc", "1.20")
	f.Add("ports/x", "fields=uuid,links", "1.90")
	f.Add("nodes", "shard=a,b&description_contains=%25&provision_state=enroll", "1.115")
	f.Add("drivers/fake-hardware/properties", "type=dynamic", "1.115")
	f.Add("conductors", "marker=rack-1&sort_key=hostname", "1.115")
	b := newFuzzBench(f)
	f.Fuzz(func(t *testing.T, path, query, version string) {
		u := url.URL{Path: "/v1/" + path, RawQuery: strings.Map(printable, query)}
		before := b.fresh(t)
		target := u.RequestURI()
		if _, err := url.ParseRequestURI(target); err != nil || !strings.HasPrefix(target, "/") {
			return
		}
		for _, method := range []string{"GET", "DELETE"} {
			a := b.do(method, target, strings.Map(printable, version), "")
			if method == "DELETE" && a.StatusCode < 300 {
				before = ""
			}
			b.harmless(t, a, before)
		}
	})
}

// printable drops what no client library lets into a header or a query.
func printable(r rune) rune {
	if r <= ' ' || r >= 0x7f || r == '#' {
		return -1
	}
	return r
}

func itoa(n int) string {
	b, _ := json.Marshal(n)
	return string(b)
}

// newFuzzBench is a bench for many inputs: fresh puts the usual node back where an
// accepted input has changed it.
func newFuzzBench(f *testing.F) *fuzzBench { return &fuzzBench{bench: newBench(f)} }

type fuzzBench struct {
	*bench
	clean string // snapshot with nothing but the usual node
}

func (b *fuzzBench) fresh(t *testing.T) string {
	b.t = t
	b.log.Reset()
	if b.clean != "" && b.snapshot() == b.clean {
		return b.clean
	}
	all, err := b.store.Nodes(t.Context(), store.NodeQuery{IncludeChildren: true})
	if err != nil {
		t.Fatal(err)
	}
	err = b.store.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		for _, n := range all {
			if err := tx.DeleteNode(ctx, n.UUID); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	b.addNode()
	b.clean = b.snapshot()
	return b.clean
}

// FuzzBodies sends any body to every route that takes one.
func FuzzBodies(f *testing.F) {
	for i, seed := range []string{`{"node_uuid":"` + nodeID + `","address":"aa:bb:cc:dd:ee:02"}`, `{"description":"d","extra":{"a":{}}}`,
		`{"name":"CUSTOM_T","steps":[{"interface":"deploy","step":"x","args":{},"priority":1}]}`, `{"resource_class":"c","traits":["CUSTOM_A"]}`,
		`{"target":"power on","timeout":1}`, `{"boot_device":"pxe","persistent":true}`, `{"traits":["CUSTOM_A"]}`, `{"reason":"r"}`, `[]`, `null`, `{`,
		`[{"op":"add","path":"/extra/a","value":1}]`, `{"id":"x"}`, `{"events":[{"event":"network.bind_port"}]}`, `{"enabled":"true"}`,
		`{"device_type":"cdrom","image_url":"http://h/x.iso"}`, `{"callback_url":"http://h","agent_token":"t","agent_version":"1"}`} {
		f.Add(i, seed, 115)
	}
	b := newFuzzBench(f)
	var routes []*Route
	for _, resource := range b.server.resources {
		for i := range resource.Routes {
			if r := &resource.Routes[i]; r.Method == "POST" || r.Method == "PUT" || r.Method == "PATCH" {
				routes = append(routes, r)
			}
		}
	}
	f.Fuzz(func(t *testing.T, route int, body string, version int) {
		before := b.fresh(t)
		r := routes[uint(route)%uint(len(routes))]
		path := strings.NewReplacer("{node}", "n1", "{trait}", "CUSTOM_A", "{driver}", "fake-hardware", "{indicator}", "power@system").Replace(r.Path)
		a := b.do(r.Method, "/v1/"+path, "1."+itoa(version), body)
		if a.StatusCode == 503 && strings.Contains(a.body, "did not answer") {
			return // the bench's rack answers few questions
		}
		b.harmless(t, a, before)
	})
}

// FuzzVersion sends any version, in either header.
func FuzzVersion(f *testing.F) {
	for _, seed := range []string{"1.1", "latest", "1.115", "1.116", "baremetal 1.50", "baremetal latest, compute 2.1", "1.", ".1", "1.1.1", "1.00000000000000000001", "-1.5", "LATEST"} {
		f.Add(seed, seed)
	}
	b := newFuzzBench(f)
	f.Fuzz(func(t *testing.T, ours, standard string) {
		b.fresh(t)
		a := b.do("GET", "/v1/nodes/"+nodeID, strings.Map(printable, ours), "", "OpenStack-API-Version", strings.Map(printable, standard))
		b.harmless(t, a, "")
		if a.StatusCode != 200 && a.StatusCode != 406 {
			t.Fatalf("status %d: %s", a.StatusCode, a.body)
		}
	})
}

// FuzzName gives a node any name, by POST and by PATCH, and finds it by that.
func FuzzName(f *testing.F) {
	for _, seed := range []string{"a", "a.b~c_d", "ü", "ports", "11111111-2222-4333-8444-555555555556", "a b", "", ".", "..", "x.json", "%2F", "a/b"} {
		f.Add(seed)
	}
	b := newFuzzBench(f)
	f.Fuzz(func(t *testing.T, name string) {
		before := b.fresh(t)
		quoted, err := json.Marshal(name)
		if err != nil {
			t.Skip()
		}
		a := b.do("PATCH", "/v1/nodes/"+nodeID, "1.115", `[{"op":"replace","path":"/name","value":`+string(quoted)+`}]`)
		b.harmless(t, a, before)
		if a.StatusCode == 200 && name != "" {
			if found := b.do("GET", "/v1/nodes/"+url.PathEscape(name), "1.115", ""); found.StatusCode != 200 {
				t.Fatalf("a node that is called %q is not found by its name: %d %s", name, found.StatusCode, found.body)
			}
		}
	})
}
