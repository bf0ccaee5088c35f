package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/ironyard/ironyard/central/store"
)

// Pages that are put together while they are written say their length before, whether
// their nodes have been encoded before, all of them or some, or not; whatever their
// version; and also when they are longer than a piece.
func TestPagesAreAsLongAsTheySay(t *testing.T) {
	b := newBench(t)
	get := func(path, version string) (page struct {
		Nodes []struct {
			UUID  string
			Links []any
		}
		Next string
	}) {
		t.Helper()
		r := httptest.NewRequest("GET", path, nil)
		r.Header.Set("X-OpenStack-Ironic-API-Version", version)
		w := httptest.NewRecorder()
		b.server.ServeHTTP(w, r)
		if told := w.Header().Get("Content-Length"); w.Code != http.StatusOK || told != fmt.Sprint(w.Body.Len()) {
			t.Errorf("GET %s at %s: status %d, %d bytes, of which the header says %s", path, version, w.Code, w.Body.Len(), told)
		}
		if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil {
			t.Errorf("GET %s at %s: %v", path, version, err)
		}
		return page
	}
	const detail = "/v1/nodes/detail"
	if page := get(detail, "1.115"); len(page.Nodes) != 0 || page.Next != "" {
		t.Errorf("of no nodes: %+v", page)
	}
	have := 0
	for _, add := range []int{1, 1, 100} {
		err := b.store.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
			for range add {
				if err := tx.InsertNode(ctx, ordinaryNode(have)); err != nil {
					return err
				}
				have++
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, version := range []string{"1.1", "1.80", "1.115", "1.115"} {
			seen := map[string]bool{}
			page := get(detail, version)
			for _, n := range page.Nodes {
				seen[n.UUID] = len(n.Links) == 2
			}
			if len(seen) != have || !seen[ordinaryUUID(have-1)] || page.Next != "" {
				t.Errorf("at %s: %d nodes of %d, next %q", version, len(seen), have, page.Next)
			}
		}
		if have > 40 {
			for range 2 {
				if page := get(detail+"?limit=40", "1.115"); len(page.Nodes) != 40 || page.Next == "" {
					t.Errorf("%d nodes of 40, next %q", len(page.Nodes), page.Next)
				}
			}
		}
	}
}
