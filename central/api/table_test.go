package api

import (
	"testing"

	"github.com/ironyard/ironyard/central/api/fields"
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
	sortable(b, conductorTable, "/v1/conductors", b.want(200, "GET", "/v1/conductors/rack-1", "1.115", "").object(t))
}

// TestVersions holds that a field is shown, may be asked for and may be set from
// the same version on.
func TestVersions(t *testing.T) {
	b := newBench(t)
	b.addNode()
	all := b.want(200, "GET", "/v1/nodes/n1", "1.115", "").object(t)
	for name := range all {
		f, isField := nodeTable.Lookup(name)
		if !isField || f.Since <= 8 {
			continue
		}
		old, now := (f.Since - 1).String(), f.Since.String()
		if _, shown := b.want(200, "GET", "/v1/nodes/"+nodeID, old, "").object(t)[name]; shown {
			t.Errorf("%s shows at %s", name, old)
		}
		if _, shown := b.want(200, "GET", "/v1/nodes/"+nodeID, now, "").object(t)[name]; !shown {
			t.Errorf("%s does not show at %s", name, now)
		}
		b.want(406, "GET", "/v1/nodes?fields="+name, old, "")
		b.want(200, "GET", "/v1/nodes?fields="+name, now, "")
		if f.CanPatch {
			b.want(406, "PATCH", "/v1/nodes/"+nodeID, old, `[{"op":"remove","path":"/`+name+`"}]`)
		}
	}
}

// BenchmarkListNodes lists a page of 100 nodes in detail.
func BenchmarkListNodes(b *testing.B) {
	s := newBench(b)
	for range 100 {
		s.want(201, "POST", "/v1/nodes", "1.115", `{"driver":"fake-hardware","extra":{"a":[1,2]}}`)
	}
	for b.Loop() {
		s.want(200, "GET", "/v1/nodes?detail=true", "1.115", "")
	}
}
