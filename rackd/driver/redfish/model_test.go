package redfish

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ironyard/ironyard/rackd/driver/drivertest"
)

// model is a BMC made of resources. A PATCH merges into them, in depth; what else a firmware does is said by its functions.
type model struct {
	mu     sync.Mutex
	at     map[string]map[string]any
	writes []string // each with its If-Match, where it has one
	// before may answer a write in place of the model, after may change what the model then shows.
	before func(m *model, w http.ResponseWriter, r *http.Request, body map[string]any) (done bool)
	after  func(m *model, r *http.Request, body map[string]any)
	// silent is for how many requests it does not answer.
	silent int
	// tags says what it wants of entity tags: "", counts (each read), wants (any).
	tags  string
	reads int
	allow string // of each resource, empty: not told
	// expansions counts the collections that were told with their members.
	expansions int
	// forgets makes it forget its sessions.
	forgets func()
	// ahead is by how much the BMC's clock is, once it was set.
	ahead *time.Duration
}

func link(path string) map[string]any { return map[string]any{"@odata.id": path} }

func links(paths ...string) map[string]any {
	list := []any{}
	for _, p := range paths {
		list = append(list, link(p))
	}
	return map[string]any{"Members": list, "Members@odata.count": len(list)}
}

// newModel is a machine with a system and its manager.
func newModel(vendor string) *model {
	const manager = "/redfish/v1/Managers/1"
	return &model{at: map[string]map[string]any{
		"/redfish/v1": {"@odata.id": "/redfish/v1", "Vendor": vendor, "Systems": link("/redfish/v1/Systems"), "Managers": link("/redfish/v1/Managers"),
			"Chassis": link("/redfish/v1/Chassis"), "Links": map[string]any{"Sessions": link("/redfish/v1/SessionService/Sessions")}},
		systemAt: {"@odata.id": systemAt, "Id": "1", "Manufacturer": "Maker", "Model": "M1", "PowerState": "Off",
			"Boot": map[string]any{"BootSourceOverrideEnabled": "Disabled", "BootSourceOverrideTarget": "None", "BootSourceOverrideMode": "UEFI",
				"BootSourceOverrideTarget@Redfish.AllowableValues": []any{"None", "Pxe", "Hdd", "Cd", "UefiHttp"}},
			"Actions": map[string]any{"#ComputerSystem.Reset": map[string]any{"target": systemAt + "/Actions/Reset"}},
			"Links":   map[string]any{"ManagedBy": []any{link(manager)}, "Chassis": []any{link("/redfish/v1/Chassis/1")}}},
		"/redfish/v1/Managers": links(manager),
		manager: {"@odata.id": manager, "Id": "1", "DateTime": "2020-01-01T00:00:00+00:00", "DateTimeLocalOffset": "+00:00", "LastResetTime": "2019",
			"Actions": map[string]any{"#Manager.Reset": map[string]any{"target": manager + "/Actions/Reset", "ResetType@Redfish.AllowableValues": []any{"ForceRestart"}}}},
	}}
}

func (m *model) serve(w http.ResponseWriter, r *http.Request) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	path := strings.TrimSuffix(r.URL.Path, "/")
	if strings.Contains(path, "/Sessions") {
		return false
	}
	if m.silent > 0 {
		m.silent--
		panic(http.ErrAbortHandler)
	}
	if r.Method == http.MethodGet {
		body := m.at[path]
		if body == nil {
			return false
		}
		m.reads++
		if body["DateTime"] != nil && m.ahead != nil {
			body["DateTime"] = time.Now().Add(*m.ahead).Format(time.RFC3339Nano)
		}
		if m.tags != "" {
			w.Header().Set("ETag", m.tag(path))
		}
		if m.allow != "" {
			w.Header().Set("Allow", m.allow)
		}
		_ = json.NewEncoder(w).Encode(m.expanded(r, body))
		return true
	}
	raw, _ := io.ReadAll(r.Body)
	var body map[string]any
	_ = json.Unmarshal(raw, &body)
	match := r.Header.Get("If-Match")
	if match != "" {
		match = " if " + match
	}
	m.writes = append(m.writes, r.Method+" "+strings.TrimPrefix(path, "/redfish/v1")+" "+strings.TrimSpace(string(raw))+match)
	switch {
	case m.tags == "wants" && match == "" && r.Method == http.MethodPatch:
		refuse(w, http.StatusPreconditionRequired, "a tag is required")
		return true
	case m.tags == "counts" && match != "":
		refuse(w, http.StatusPreconditionFailed, "the tag is another")
		return true
	case m.before != nil && m.before(m, w, r, body):
		return true
	case r.Method == http.MethodPatch && m.at[path] == nil:
		return false
	case r.Method == http.MethodPatch:
		merge(m.at[path], body)
		if at, err := time.Parse(time.RFC3339Nano, fmt.Sprint(body["DateTime"])); err == nil {
			ahead := time.Until(at)
			m.ahead = &ahead
		}
	}
	if m.after != nil {
		m.after(m, r, body)
	}
	w.WriteHeader(http.StatusNoContent)
	return true
}

// expanded is a collection with its members in it, where the BMC can and is asked for it.
func (m *model) expanded(r *http.Request, body map[string]any) map[string]any {
	list, is := body["Members"].([]any)
	if !is || r.URL.Query().Get("$expand") == "" {
		return body
	}
	m.expansions++
	with := maps.Clone(body)
	all := []any{}
	for _, member := range list {
		if at, ok := m.at[member.(map[string]any)["@odata.id"].(string)]; ok {
			all = append(all, at)
		}
	}
	with["Members"] = all
	return with
}

func (m *model) tag(path string) string {
	if m.tags == "counts" {
		return fmt.Sprintf(`W/"%d"`, m.reads)
	}
	return `"tag of ` + path + `"`
}

// merge merges news into what is there; the model's mu is held.
func merge(into, news map[string]any) {
	for k, v := range news {
		old, deep := into[k].(map[string]any)
		if with, also := v.(map[string]any); deep && also {
			merge(old, with)
			continue
		}
		into[k] = v
	}
}

// set changes the model.
func (m *model) set(do func()) { m.mu.Lock(); defer m.mu.Unlock(); do() }

// put adds resources.
func (m *model) put(news map[string]map[string]any) *model { maps.Copy(m.at, news); return m }

func (m *model) written() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string{}, m.writes...)
}

// boot is what the system shows of its override.
func (m *model) boot() map[string]any { return m.at[systemAt]["Boot"].(map[string]any) }

// modelRig is a machine with the model as its BMC. Its power is the rig's.
func modelRig(t *testing.T, m *model) (*drivertest.Rig, *Driver) {
	t.Helper()
	e, d, r := newEmulator(t), newDriver(t, Options{}), drivertest.NewRig()
	e.set(func() { e.hook = m.serve })
	m.forgets = func() { e.set(func() { clear(e.sessions) }) }
	r.Node.DriverInfo = e.node(nil).DriverInfo
	return r, d
}
