package api

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/central/api/fields"
	"github.com/ironyard/ironyard/central/api/microversion"
)

// sortable calls the server for each field of a whole item.
func sortable[T any](b *bench, table *fields.Table[T], list string, item map[string]any) {
	b.t.Helper()
	for name := range item {
		f, isField := table.Lookup(name)
		if !isField {
			continue
		}
		want := 400
		if f.SortKey {
			want = 200
		}
		b.want(want, "GET", list+"?sort_key="+name, "1.115", "")
		b.want(want, "GET", list+"?sort_dir=desc&sort_key="+name, "1.115", "")
	}
}

// TestSortKeys holds that the store can sort by whatever a table calls sortable.
func TestSortKeys(t *testing.T) {
	b := newBench(t)
	b.addNode()
	port := b.want(201, "POST", "/v1/ports", "1.115", `{"node_ident":"n1","address":"aa:bb:cc:dd:ee:01"}`).object(t)
	sortable(b, nodeTable, "/v1/nodes", b.want(200, "GET", "/v1/nodes/n1", "1.115", "").object(t))
	sortable(b, portTable, "/v1/ports", port)
	group := b.want(201, "POST", "/v1/portgroups", "1.115", `{"node_uuid":"`+nodeID+`"}`).object(t)
	sortable(b, portgroupTable, "/v1/portgroups", group)
	sortable(b, chassisTable, "/v1/chassis", b.want(201, "POST", "/v1/chassis", "1.115", `{}`).object(t))
	connector := b.want(201, "POST", "/v1/volume/connectors", "1.115", `{"node_uuid":"`+nodeID+`","type":"iqn","connector_id":"i"}`).object(t)
	sortable(b, connectorTable, "/v1/volume/connectors", connector)
	target := b.want(201, "POST", "/v1/volume/targets", "1.115", `{"node_uuid":"`+nodeID+`","volume_type":"iscsi","volume_id":"v","boot_index":0}`).object(t)
	sortable(b, targetTable, "/v1/volume/targets", target)
	sortable(b, conductorTable, "/v1/conductors", b.want(200, "GET", "/v1/conductors/rack-1", "1.115", "").object(t))
}

// gated calls the server about each field of the item at path, in its collection, at
// the version before it came and at that which brought it. Fields as old as the
// resource itself (since) have no version before.
func gated[T any](b *bench, table *fields.Table[T], list, path string, since microversion.Version) {
	t := b.t
	t.Helper()
	all := b.want(200, "GET", path, "1.115", "").object(t)
	for name := range all {
		f, isField := table.Lookup(name)
		if !isField || f.Since <= since {
			continue
		}
		old, now := (f.Since - 1).String(), f.Since.String()
		if _, shown := b.want(200, "GET", path, old, "").object(t)[name]; shown {
			t.Errorf("%s shows at %s", name, old)
		}
		if _, shown := b.want(200, "GET", path, now, "").object(t)[name]; !shown {
			t.Errorf("%s does not show at %s", name, now)
		}
		refused := func(use fields.Use) int {
			if f.Admits(use) {
				return 200
			}
			return 406
		}
		asked := list
		if name == "conductor" {
			asked = path // a list refuses it
		}
		b.want(refused(fields.Asking), "GET", asked+"?fields="+name, old, "")
		b.want(200, "GET", asked+"?fields="+name, now, "")
		if f.CanPatch && !f.Solid {
			b.want(refused(fields.Patching), "PATCH", path, old, `[{"op":"add","path":"/`+name+`","value":null}]`)
		}
		if f.SortKey {
			b.want(refused(fields.Sorting), "GET", list+"?sort_key="+name, old, "")
		}
	}
}

// TestVersions holds that a field is shown, may be asked for, sorted by and set from
// the same version on.
func TestVersions(t *testing.T) {
	b := newBench(t)
	b.addNode()
	gated(b, nodeTable, "/v1/nodes", "/v1/nodes/"+nodeID, 8)
	b.addPort(portID, "aa:bb:cc:dd:ee:01", "")
	gated(b, portTable, "/v1/ports", "/v1/ports/"+portID, 8)
	b.want(201, "POST", "/v1/portgroups", "1.115", `{"uuid":"`+groupID+`","node_uuid":"`+nodeID+`"}`)
	gated(b, portgroupTable, "/v1/portgroups", "/v1/portgroups/"+groupID, portgroupsSince)
}

// TestArguments holds that arguments that filter a list are refused before the version
// that brought them.
func TestArguments(t *testing.T) {
	b := newBench(t)
	b.addNode()
	for list, filters := range map[string]map[string]microversion.Version{"/v1/nodes": nodeFilters, "/v1/ports": portFilters} {
		for name, since := range filters {
			if since > 1 {
				b.want(406, "GET", list+"?"+name+"=true", (since - 1).String(), "")
			}
		}
		b.want(400, "GET", list+"?colour=red", "1.115", "")
	}
}

// Lists are sorted by what Ironic's tables have besides the fields that answers show, and by
// what is not there for most nodes.
func TestSortsByWhatIronicHas(t *testing.T) {
	b := newBench(t)
	b.want(201, "POST", "/v1/chassis", "1.115", `{"uuid":"cccccccc-2222-4333-8444-555555555555"}`)
	for i, more := range []string{`"automated_clean":true`, `"automated_clean":false,"chassis_uuid":"cccccccc-2222-4333-8444-555555555555"`, `"owner":"x","network_interface":"noop"`} {
		b.want(201, "POST", "/v1/nodes", "1.115", fmt.Sprintf(`{"name":"s%d","driver":"fake-hardware",%s}`, i, more))
		b.want(201, "POST", "/v1/ports", "1.115", fmt.Sprintf(`{"node_ident":"s%d","address":"52:54:00:00:77:0%d"}`, i, i))
	}
	// What the order ends with; nodes that are alike come in that of their UUIDs here.
	for sort, want := range map[string]string{"automated_clean": "s2 s1 s0", "chassis_id": "s1", "owner": "s2", "version": "", "reservation": "", "conductor_affinity": "", "secure_boot": "",
		"network_interface": "s2", "deploy_interface": ""} {
		for _, dir := range []string{"asc", "desc"} {
			var got []string
			for next := "/v1/nodes?limit=1&fields=name&sort_dir=" + dir + "&sort_key=" + sort; next != ""; {
				page := b.want(200, "GET", next, "1.115", "").object(t)
				for _, n := range page["nodes"].([]any) {
					got = append(got, n.(map[string]any)["name"].(string))
				}
				next, _ = page["next"].(string)
				next = strings.TrimPrefix(next, "http://ironyard.example:6385")
			}
			if dir == "desc" {
				slices.Reverse(got)
			}
			if len(got) != 3 || !strings.HasSuffix(strings.Join(got, " "), want) {
				t.Errorf("sorted by %s, %s: %q, want %s", sort, dir, got, want)
			}
		}
	}
	for _, list := range []string{"ports?sort_key=node_id", "ports?sort_key=portgroup_id", "portgroups?sort_key=node_id", "volume/connectors?sort_key=node_id",
		"volume/targets?sort_key=node_id", "allocations?sort_key=node_id", "allocations?sort_key=conductor_affinity", "inspection_rules?sort_key=scope"} {
		b.want(200, "GET", "/v1/"+list, "1.115", "")
		b.want(200, "GET", "/v1/"+list+"&sort_dir=desc", "1.115", "")
	}
	for _, list := range []string{"nodes?sort_key=node_id", "nodes?sort_key=chassis_uuid", "chassis?sort_key=node_id", "ports?sort_key=node_uuid"} {
		b.want(400, "GET", "/v1/"+list, "1.115", "")
	}
}
