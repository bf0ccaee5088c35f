package irmc

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
)

// A session that another has begun is not taken for that of an order that never came in.
func TestAttackSessionOfAnother(t *testing.T) {
	d, r, i := withBackup(t)
	d.store.lose = "-" + profilesAt + "set"
	begun := false
	err := insist(t, func() driver.StepSource {
		if strings.Contains(r.HandleText(), `"asked":true`) && !begun {
			begun = true
			d.do(func() { d.store.sessions["800"] = 3 })
		}
		return i
	}, r, restoreBIOS, nil)
	if err == nil || !strings.Contains(err.Error(), "it is not known whether session 800") || len(d.store.put) > 0 ||
		i.bios.Of(r.Node).Settings == "" || len(r.Busy) > 0 {
		t.Errorf("%v; %d orders, kept %s, busy %q", err, len(d.store.put), i.Kept(r.Node), r.Busy)
	}
}

// withBackup is a double whose machine's BIOS has a backup.
func withBackup(t *testing.T) (*double, *drivertest.Rig, Interface) {
	t.Helper()
	d := withStore(t)
	r, i := rigOf(d), newInterface(t, lan{d})
	r.Keeps = func() json.RawMessage { return i.Kept(r.Node) }
	if err := runStep(t, i, r, backupBIOS); err != nil {
		t.Fatal(err)
	}
	r.Node.Kept = i.Kept(r.Node)
	return d, r, i
}

// A list that was empty, or not there, in front of the order shows sessions of before later on.
func TestAttackSessionListWasEmpty(t *testing.T) {
	for _, code := range []int{http.StatusOK, http.StatusNotFound} {
		d, r, i := withBackup(t)
		d.store.sessions["900"] = 5
		d.store.lose = "-" + profilesAt + "set"
		serve, lists := d.Config.Handler, 0
		d.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if q.Method == http.MethodGet && q.URL.Path == sessionsAt {
				if lists++; lists == 1 {
					w.WriteHeader(code)
					fmt.Fprint(w, "{}")
					return
				}
			}
			serve.ServeHTTP(w, q)
		})
		err := insist(t, func() driver.StepSource { return i }, r, restoreBIOS, nil)
		if err == nil || i.bios.Of(r.Node).Settings == "" {
			t.Errorf("HTTP %d: %v; %d orders, kept %s", code, err, len(d.store.put), i.Kept(r.Node))
		}
	}
}

// Once the fence is lost, whichever check it is lost at, nothing more is written, and a successor ends the work.
func TestAttackFenceLostAtEachCheck(t *testing.T) {
	t.Parallel()
	old := fakeDrive{number: 239, size: 446, level: "0", name: "old", disks: []string{"0"}}
	for n := range 60 {
		d, r := withRAID(t, old)
		r.Node.TargetRAID = target(disk("1", 100.0))
		raid, lost := newRAID(t), -1
		r.LoseAfter(n)
		err := insist(t, func() driver.StepSource {
			if r.Fence.Checks.Load() > int64(n) {
				if lost < 0 {
					d.do(func() { lost = len(d.store.writes) })
				}
				r.Fence = drivertest.Fence{}
			}
			return raid
		}, r, "create_configuration", map[string]any{"delete_existing": true})
		if err != nil || len(d.store.adapters[0].drives) != 1 || len(d.store.put) != 2 || len(r.Busy) > 0 {
			t.Errorf("check %d: %v; drives %+v, %d orders, busy %q", n, err, d.store.adapters[0].drives, len(d.store.put), r.Busy)
		}
		if lost < 0 {
			return
		}
	}
}
