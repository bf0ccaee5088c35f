package api

import (
	"fmt"
	"sync"
	"testing"
)

// What a request writes may be undone for the fault of another whose commit it shares, and is
// then done again: it must begin again with what was asked for, not with what the first
// attempt has made of it.
func TestUndoneRequestsBeginAnew(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.addNode()
	cfg := b.server.Config
	cfg.routed = nil // it is for one request at a time
	b.server = New(cfg)
	var all sync.WaitGroup
	unused := *b // the log of the one that serves is written meanwhile
	post := func(path, body string, statuses ...int) {
		other := unused // for what it keeps of the last request
		all.Go(func() {
			a := other.do("POST", path, "1.115", body)
			for _, status := range statuses {
				if a.StatusCode == status {
					return
				}
			}
			t.Errorf("POST %s: status %d, want one of %v: %s", path, a.StatusCode, statuses, a.body)
		})
	}
	for i := range 50 {
		post("/v1/nodes", `{"name":"n1","driver":"fake-hardware"}`, 409) // which shows when others have been run, too
		post("/v1/nodes", fmt.Sprintf(`{"name":"drive-%d","driver":"fake-hardware","instance_info":{"configdrive":"SDRzaWFB"}}`, i), 201)
		post("/v1/volume/targets", fmt.Sprintf(`{"node_uuid":"%s","boot_index":%d,"volume_id":"%d","volume_type":"iscsi","properties":{"auth_password":"tell nobody"}}`, nodeID, i, i), 201)
	}
	all.Wait()
	if drives := b.strings("SELECT drive FROM config_drives"); len(drives) != 50 {
		t.Errorf("%d config drives are kept, want 50", len(drives))
	}
}
