package redfish

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
)

const (
	eventsAt = "/redfish/v1/EventService"
	destsAt  = eventsAt + "/Subscriptions"
	ours     = "https://192.0.2.2:6386/bmc-events/n/c0de"
)

// posting is a BMC that keeps subscriptions: those that are there, by their destinations. odd may say how it is odd.
func posting(t *testing.T, odd func(m *model, r *http.Request, body map[string]any) (status int), there ...string) (*drivertest.Rig, *Driver, *model) {
	t.Helper()
	m := newModel("Contoso")
	m.at["/redfish/v1"]["EventService"] = link(eventsAt)
	m.put(map[string]map[string]any{eventsAt: {"@odata.id": eventsAt, "ServiceEnabled": true, "EventTypesForSubscription": []string{"StatusChange", "ResourceAdded", "Alert"},
		"Subscriptions": link(destsAt)}})
	all := []string{}
	list := func() {
		m.at[destsAt] = links(all...)
	}
	last := 0
	add := func(body map[string]any) string {
		last++
		path := fmt.Sprintf("%s/%d", destsAt, last)
		body["@odata.id"] = path
		m.at[path] = body
		all = append(all, path)
		list()
		return path
	}
	list()
	for _, to := range there {
		add(map[string]any{"Destination": to})
	}
	m.before = func(m *model, w http.ResponseWriter, r *http.Request, body map[string]any) bool {
		if !strings.HasPrefix(r.URL.Path, destsAt) || r.Method == http.MethodPatch {
			return false
		}
		status := 0
		if odd != nil {
			status = odd(m, r, body)
		}
		if status >= 400 {
			refuse(w, status, fmt.Sprint("not with ", body["Destination"]))
			return true
		}
		if r.Method == http.MethodDelete {
			all = slices.DeleteFunc(all, func(p string) bool { return p == r.URL.Path })
			delete(m.at, r.URL.Path)
			list()
			w.WriteHeader(http.StatusNoContent)
			return true
		}
		path := add(body)
		if status < 0 {
			panic(http.ErrAbortHandler) // done, and the answer is lost
		}
		if status != http.StatusAccepted {
			w.Header().Set("Location", path)
		}
		w.WriteHeader(http.StatusCreated)
		return true
	}
	r, d := modelRig(t, m)
	return r, d, m
}

// shown are the destinations that a BMC has.
func (m *model) shown() (list []string) {
	m.set(func() {
		for _, member := range m.at[destsAt]["Members"].([]any) {
			list = append(list, m.at[member.(map[string]any)["@odata.id"].(string)]["Destination"].(string))
		}
	})
	return list
}

func TestSendEvents(t *testing.T) {
	stranger, stale := "https://other.example/hook", "https://192.0.2.1:6386/bmc-events/n/c0de"
	r, d, m := posting(t, nil, stranger, stale)
	fence := r.Task(networkboot.IPXE()).Fence
	isStale := func(to string) bool { return to == stale }
	if err := d.SendEvents(t.Context(), fence, r.Node, ours, isStale); err != nil {
		t.Fatal(err)
	}
	if got := m.shown(); !slices.Equal(got, []string{stranger, ours}) {
		t.Fatalf("destinations %q", got)
	}
	writes := m.written()
	if len(writes) != 2 || !strings.HasPrefix(writes[0], "DELETE /EventService/Subscriptions/2") || !strings.Contains(writes[1], `"EventTypes":["StatusChange","Alert"]`) ||
		!strings.Contains(writes[1], `"Protocol":"Redfish"`) {
		t.Errorf("writes %q", writes)
	}
	if err := d.SendEvents(t.Context(), fence, r.Node, ours, isStale); err != nil || len(m.written()) != 2 {
		t.Errorf("what is already so was written: %q, %v", m.written()[2:], err)
	}
	if err := d.SendEvents(t.Context(), fence, r.Node, "", func(to string) bool { return to == ours }); err != nil || !slices.Equal(m.shown(), []string{stranger}) {
		t.Errorf("after the end: %q, %v", m.shown(), err)
	}
	r, d, m = posting(t, nil, ours, ours)
	if err := d.SendEvents(t.Context(), r.Task(networkboot.IPXE()).Fence, r.Node, ours, isStale); err != nil || !slices.Equal(m.shown(), []string{ours}) {
		t.Errorf("of two subscriptions %q are left, %v", m.shown(), err)
	}
}

// Firmwares that refuse, that lose their answer, that do not say where the subscription is, and those that look at certificates.
func TestSendEventsOfFirmwares(t *testing.T) {
	never := func(string) bool { return false }
	for name, c := range map[string]struct {
		odd    func(m *model, r *http.Request, body map[string]any) int
		writes int
		want   error
		said   string
	}{
		"it refuses what it has listed": {func(_ *model, _ *http.Request, body map[string]any) int {
			if types, _ := body["EventTypes"].([]any); len(types) != 1 || types[0] != "Alert" {
				return http.StatusBadRequest
			}
			return 0
		}, 2, nil, ""},
		"it has no room":            {func(*model, *http.Request, map[string]any) int { return http.StatusServiceUnavailable }, 1, driver.ErrUnreachable, "that address"},
		"it refuses all":            {func(*model, *http.Request, map[string]any) int { return http.StatusBadRequest }, 2, nil, "that address"},
		"its answer is lost":        {func(*model, *http.Request, map[string]any) int { return -1 }, 1, driver.ErrUnknown, ""},
		"it does not say where":     {func(*model, *http.Request, map[string]any) int { return http.StatusAccepted }, 1, nil, ""},
		"it verifies a certificate": {func(_ *model, _ *http.Request, body map[string]any) int { body["VerifyCertificate"] = true; return 0 }, 2, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r, d, m := posting(t, c.odd)
			fence := r.Task(networkboot.IPXE()).Fence
			err := d.SendEvents(t.Context(), fence, r.Node, ours, never)
			if c.want != nil && !errors.Is(err, c.want) || c.want == nil && c.said == "" && err != nil || c.said != "" && (err == nil || !strings.Contains(err.Error(), c.said)) {
				t.Errorf("%v", err)
			}
			if err != nil && strings.Contains(err.Error(), ours) {
				t.Errorf("the address is told: %v", err)
			}
			if got := m.written(); len(got) != c.writes {
				t.Errorf("writes %q", got)
			}
			if !errors.Is(err, driver.ErrUnknown) {
				return
			}
			if err := d.SendEvents(t.Context(), fence, r.Node, ours, never); err != nil || len(m.written()) != c.writes {
				t.Errorf("read back: %v, writes %q", err, m.written())
			}
		})
	}
	r, d, m := posting(t, func(_ *model, _ *http.Request, body map[string]any) int { body["VerifyCertificate"] = true; return 0 })
	m.after = func(m *model, r *http.Request, _ map[string]any) {
		if r.Method == http.MethodPatch { // it says so, and goes on
			m.at[r.URL.Path]["VerifyCertificate"] = true
		}
	}
	if err := d.SendEvents(t.Context(), r.Task(networkboot.IPXE()).Fence, r.Node, ours, never); err == nil || !strings.Contains(err.Error(), "verify") {
		t.Errorf("it goes on to verify: %v", err)
	}
	r, d, m = posting(t, nil)
	m.at[eventsAt]["ServiceEnabled"] = false
	if err := d.SendEvents(t.Context(), r.Task(networkboot.IPXE()).Fence, r.Node, ours, never); !errors.Is(err, driver.ErrUnsupported) || len(m.written()) != 0 {
		t.Errorf("a service that is switched off: %v", err)
	}
}

// Each write asks the fence.
func TestSendEventsIsFenced(t *testing.T) {
	r, d, m := posting(t, nil, "https://192.0.2.1:6386/bmc-events/n/c0de")
	fence := new(drivertest.Fence)
	fence.Lose()
	err := d.SendEvents(t.Context(), fence, r.Node, ours, func(string) bool { return true })
	if !errors.Is(err, driver.ErrFenced) || len(m.written()) != 0 {
		t.Errorf("%v, writes %q", err, m.written())
	}
}
