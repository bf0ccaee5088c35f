package fields

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/rackd/driver"
)

// Nothing that the API takes is without effect and unsaid: each field has a row, each row a field, and what rows say is so.
func TestEveryFieldIsReadRefusedOrKeptForClients(t *testing.T) {
	s, src := start(t), readSource(t)
	found, all := everything(t, s.document(), src), rows(t)
	for _, field := range slices.Sorted(maps.Keys(found)) {
		if _, has := all[field]; !has {
			t.Errorf("%s has no row: name what acts on it, how it is refused, or why it is kept for clients. It is mentioned by %v", field, src.mentioning(key(field)))
		}
	}
	for _, field := range slices.Sorted(maps.Keys(all)) {
		r := all[field]
		if !found[field] {
			t.Errorf("%s has a row, and no request takes it", field)
		}
		if r.by == nil && r.kept == "" && r.refused == nil {
			t.Errorf("%s: its row says nothing", field)
		}
		for _, reader := range r.by {
			name := r.name
			if name == "" {
				name = key(field)
			}
			if mentioned, there := src.mentions(reader, name); !there {
				t.Errorf("%s: there is no %s", field, reader)
			} else if !mentioned {
				t.Errorf("%s: %s does not mention %s; %v do", field, reader, name, src.mentioning(name))
			}
		}
	}
	if t.Failed() {
		return
	}
	s.prepare()
	for _, field := range slices.Sorted(maps.Keys(all)) {
		for _, r := range all[field].refused {
			s.refuses(field, r)
		}
		for _, say := range all[field].said {
			s.says(field, say)
		}
	}
}

// key is the last part of a field's name: what code calls it.
func key(field string) string {
	if query, is := strings.CutPrefix(field, "?"); is {
		name, _, _ := strings.Cut(query, " of ")
		return name
	}
	return field[strings.LastIndexAny(field, " .")+1:]
}

// What rackd tells clients of unread keys rests on what interfaces announce: they announce all that they read.
func TestInterfacesAnnounceWhatTheyRead(t *testing.T) {
	announced := announcedKeys(t)
	for _, r := range readSource(t).reads() {
		list := announced[r.object]
		if !strings.HasPrefix(r.where, "rackd/driver/") || r.key == "" || list == nil || r.key == "capabilities" || slices.Contains(list, r.key) {
			continue
		}
		t.Errorf("%s reads %s %s, and no interface announces it (Properties, InstanceFields): %v", r.where, r.object, r.key, slices.Compact(slices.Sorted(slices.Values(list))))
	}
	for name, impl := range implementations(t) {
		if _, reads := impl.(driver.InstanceReader); !reads && strings.Contains(name, " deploy ") {
			t.Errorf("the interface %s does not say what it reads of instance_info", name)
		}
	}
}

const (
	nodeID = "11111111-2222-4333-8444-555555555501"
	portID = "11111111-2222-4333-8444-555555555502"
)

// prepare makes the node that requests are about, with a port, and a runbook for it.
func (s *server) prepare() {
	s.t.Helper()
	s.want("POST", "/v1/nodes", fmt.Sprintf(`{"uuid":%q,"name":"n","driver":"fake-hardware"}`, nodeID))
	s.want("POST", "/v1/ports", fmt.Sprintf(`{"uuid":%q,"node_uuid":%q,"address":"52:54:00:00:00:01"}`, portID, nodeID))
	s.want("POST", "/v1/runbooks", `{"name":"CUSTOM_FIELDS","steps":[{"interface":"bios","step":"factory_reset","args":{},"order":1}]}`)
	s.want("PUT", "/v1/runbooks/CUSTOM_FIELDS/traits", `{"traits":["CUSTOM_FIELDS"]}`)
	s.want("PUT", "/v1/nodes/"+nodeID+"/traits/CUSTOM_FIELDS", "")
}

// reset makes the node as it was.
func (s *server) reset(in provision.State) {
	s.t.Helper()
	s.move(nodeID, provision.Available)
	var clean []object
	for _, name := range []string{"driver_info", "instance_info", "properties", "network_data"} {
		clean = append(clean, object{"op": "remove", "path": "/" + name})
	}
	clean = append(clean, object{"op": "replace", "path": "/protected", "value": false}, object{"op": "replace", "path": "/disable_power_off", "value": false},
		object{"op": "replace", "path": "/deploy_interface", "value": "fake"})
	body, err := json.Marshal(clean)
	if err != nil {
		s.t.Fatal(err)
	}
	s.want("PATCH", "/v1/nodes/"+nodeID, string(body))
	if in != "" {
		s.move(nodeID, in)
	}
}

// refuses sends the request.
func (s *server) refuses(field string, r refusal) {
	s.t.Helper()
	s.reset(r.in)
	if r.set != "" {
		s.want("PATCH", "/v1/nodes/"+nodeID, r.set)
	}
	here := strings.NewReplacer("{n}", nodeID, "{p}", portID)
	status, answer := s.do(r.method, here.Replace(r.path), strings.ReplaceAll(r.body, "{n}", nodeID))
	if status != r.status || !strings.Contains(plainText(answer), plainText(r.words)) {
		s.t.Errorf("%s: %s %s %s (after %q): status %d, want %d with %q\n%s", field, r.method, r.path, r.body, r.set, status, r.status, r.words, answer)
	}
}

// plainText is a text without the escapes of JSON in JSON.
func plainText(text string) string { return strings.ReplaceAll(text, `\`, "") }

// says asks for the node's validation. Some things are not the node's own fields.
func (s *server) says(field string, say saying) {
	s.t.Helper()
	s.reset("")
	switch say.set {
	case "smart":
		s.want("PATCH", "/v1/ports/"+portID, `[{"op":"replace","path":"/is_smartnic","value":true}]`)
	case "group":
		s.want("POST", "/v1/portgroups", fmt.Sprintf(`{"node_uuid":%q,"name":"bond"}`, nodeID))
	case "volume":
		s.want("POST", "/v1/volume/targets", fmt.Sprintf(`{"node_uuid":%q,"volume_type":"iscsi","boot_index":0,"volume_id":"x"}`, nodeID))
	default:
		s.want("PATCH", "/v1/nodes/"+nodeID, say.set)
	}
	var found map[string]struct {
		Result *bool
		Reason string
	}
	if err := json.Unmarshal([]byte(s.want("GET", "/v1/nodes/"+nodeID+"/validate", "")), &found); err != nil {
		s.t.Fatal(err)
	}
	if v := found[say.kind]; v.Result == nil || !*v.Result || !strings.Contains(v.Reason, say.words) {
		s.t.Errorf("%s: of %s the validation says %q, want %q and that it is in order", field, say.kind, v.Reason, say.words)
	}
}
