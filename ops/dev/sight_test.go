package dev_test

import (
	"net/http"
	"testing"
	"time"
)

// A rack that is asked about a node does not wait for changes that it is never told of, and
// has heard of those that it is.
func TestARackIsAskedAfterChangesThatItDoesNotSee(t *testing.T) {
	t.Parallel()
	o, s, stop := startStack(t, t.TempDir(), 0)
	defer stop()
	c, node := caller{t, s.Endpoint}, "/v1/nodes/"+fakeNode(t, o, "one", nil)
	defer http.DefaultClient.CloseIdleConnections()
	for _, change := range []struct {
		path  string
		value any
	}{{"/extra/a", 1}, {"/description", "d"}, {"/properties/cpus", 8}, {"/extra/a", 2}, {"/owner", "o"}, {"/driver_info/fake_health", "Warning"}} {
		c.want(200, "PATCH", node, []map[string]any{{"op": "add", "path": change.path, "value": change.value}})
		began := time.Now()
		c.want(200, "GET", node+"/management/boot_device", nil)
		c.want(200, "GET", node+"/validate", nil)
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("after a change of %s the answers took %v", change.path, took)
		}
	}
}
