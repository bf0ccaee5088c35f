// Package redfishtest is a BMC for tests that speaks Redfish: a tree of resources, with power, boot override and sessions. What
// a vendor's firmware does besides is added by its functions.
//
// It may import protocol, rackd/driver, rackd/driver/drivertest and rackd/outbound. Nothing but tests imports it.
package redfishtest

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/outbound"
)

// Password of the BMC's user, whose name is User. Other is the one that BMC.Deny leaves.
const (
	User     = "admin"
	Password = "s3cret-pass"
	Other    = "an0ther-pass"
)

// System is the path of the machine's system, unless the tree has another.
const System = "/redfish/v1/Systems/1"

// Tree is resources by their paths.
type Tree map[string]map[string]any

// Loopback is the networks of a driver whose BMCs are this package's.
var Loopback = outbound.BMCs{netip.MustParsePrefix("127.0.0.0/8")}

// Link is a link to a resource.
func Link(path string) map[string]any { return map[string]any{"@odata.id": path} }

// Links is a collection.
func Links(paths ...string) map[string]any {
	list := []any{}
	for _, p := range paths {
		list = append(list, Link(p))
	}
	return map[string]any{"Members": list, "Members@odata.count": len(list)}
}

// BMC is the BMC of one machine. Its fields are set before it is asked for the first time; Do changes it later.
type BMC struct {
	*httptest.Server
	// CA is its certificate, as PEM.
	CA string
	// At is its resources.
	At Tree
	// System is the path of the machine's system.
	System string
	// Write may answer a write in place of the BMC: it then returns true. It is called in turn.
	Write func(w http.ResponseWriter, r *http.Request, body map[string]any) bool
	// Get may answer a read in place of the BMC: it then returns true.
	Get func(w http.ResponseWriter, r *http.Request) bool
	// After is told of a PATCH that was merged, or of a POST that was accepted.
	After func(r *http.Request, body map[string]any)
	// Free reports writes that concern no machine, as an action that only answers.
	Free func(r *http.Request) bool

	mu         sync.Mutex
	password   string
	sessions   map[string]bool
	opened     int
	writes     []string
	lose, deny bool
	refused    int
	hang       chan struct{}
	whileRead  func()
	spoiler    drivertest.Spoiler
}

// Start serves a tree until the test ends. Without a root it gets one, with the vendor's name, one system and its manager.
func Start(t testing.TB, vendor string, tree Tree) *BMC {
	const manager = "/redfish/v1/Managers/1"
	b := &BMC{At: Tree{
		"/redfish/v1": {"@odata.id": "/redfish/v1", "Vendor": vendor, "Systems": Link("/redfish/v1/Systems"), "Managers": Link("/redfish/v1/Managers"),
			"Chassis": Link("/redfish/v1/Chassis"), "Links": map[string]any{"Sessions": Link("/redfish/v1/SessionService/Sessions")}},
		"/redfish/v1/Systems":  Links(System),
		"/redfish/v1/Managers": Links(manager),
		System: {"@odata.id": System, "Id": "1", "UUID": "uu-id", "Manufacturer": vendor, "Model": "M1", "SerialNumber": "S1", "SKU": "TAG7", "PowerState": "Off",
			"Boot": map[string]any{"BootSourceOverrideEnabled": "Disabled", "BootSourceOverrideTarget": "None", "BootSourceOverrideMode": "UEFI",
				"BootSourceOverrideTarget@Redfish.AllowableValues": []any{"None", "Pxe", "Hdd", "Cd", "BiosSetup"}},
			"Actions": map[string]any{"#ComputerSystem.Reset": map[string]any{"target": System + "/Actions/ComputerSystem.Reset",
				"ResetType@Redfish.AllowableValues": []any{"On", "ForceOff", "ForceRestart", "GracefulShutdown", "GracefulRestart", "Nmi", "PushPowerButton"}}},
			"Links": map[string]any{"ManagedBy": []any{Link(manager)}, "Chassis": []any{Link("/redfish/v1/Chassis/1")}}},
		manager: {"@odata.id": manager, "Id": "1", "DateTime": "2026-01-01T00:00:00+00:00",
			"Actions": map[string]any{"#Manager.Reset": map[string]any{"target": manager + "/Actions/Manager.Reset"}}},
	}, System: System, password: Password, sessions: map[string]bool{}}
	maps.Copy(b.At, tree)
	b.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { b.spoiler.Serve(w, r, b.serve) }))
	b.Server.Config.ErrorLog = log.New(io.Discard, "", 0) // connections that end are what tests are about
	b.spoiler.Restart = func() { b.Do(func() { clear(b.sessions) }) }
	drivertest.StartTLS(t, b.Server)
	b.CA = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: b.Certificate().Raw}))
	t.Cleanup(func() { b.Do(b.release); b.Server.Close() })
	return b
}

// Host is its address without its port.
func (b *BMC) Host() string { u, _ := url.Parse(b.URL); return u.Hostname() }

// Port is its TCP port.
func (b *BMC) Port() string { u, _ := url.Parse(b.URL); return u.Port() }

// Do runs do while the BMC answers no request.
func (b *BMC) Do(do func()) { b.mu.Lock(); defer b.mu.Unlock(); do() }

// Take has the user's password be another one from now on. It is called by Write or within Do. Sessions stay.
func (b *BMC) Take(password string) { b.password = password }

// Written are the writes to the machine so far, each as method, path and body.
func (b *BMC) Written() []string { b.mu.Lock(); defer b.mu.Unlock(); return slices.Clone(b.writes) }

func (b *BMC) release() {
	if b.hang != nil {
		close(b.hang)
		b.hang = nil
	}
}

func refuse(w http.ResponseWriter, code int, text string) {
	w.WriteHeader(code)
	fmt.Fprintf(w, `{"error":{"code":"Base.1.0.GeneralError","message":"general","@Message.ExtendedInfo":[{"MessageId":"Base.1.0.GeneralError","Message":%q}]}}`, text)
}

// Refuse answers as a BMC that refuses.
func Refuse(w http.ResponseWriter, code int, text string) { refuse(w, code, text) }

func (b *BMC) serve(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	var body map[string]any
	_ = json.Unmarshal(raw, &body)
	path := strings.TrimSuffix(r.URL.Path, "/")
	login := r.Method == http.MethodPost && path == "/redfish/v1/SessionService/Sessions"
	write := r.Method != http.MethodGet && !strings.Contains(path, "/SessionService/") && (b.Free == nil || !b.Free(r))
	b.mu.Lock()
	hang, lose := b.hang, b.lose && write
	var do func()
	if r.Method == http.MethodGet && path == b.System {
		do, b.whileRead = b.whileRead, nil
	}
	if lose {
		b.lose = false
	}
	if _, pass, basic := r.BasicAuth(); b.deny && (login || basic && pass == Password) {
		b.refused++
	}
	b.mu.Unlock()
	if do != nil {
		do()
	}
	if hang != nil {
		select {
		case <-hang:
		case <-r.Context().Done():
		}
		panic(http.ErrAbortHandler)
	}
	b.mu.Lock()
	if lose {
		b.answer(httptest.NewRecorder(), r, path, raw, body, write)
		b.mu.Unlock()
		panic(http.ErrAbortHandler)
	}
	defer b.mu.Unlock()
	b.answer(w, r, path, raw, body, write)
}

func (b *BMC) answer(w http.ResponseWriter, r *http.Request, path string, raw []byte, body map[string]any, write bool) {
	if path == "/redfish/v1" && r.Method == http.MethodGet {
		_ = json.NewEncoder(w).Encode(named(path, b.At[path]))
		return
	}
	if path == "/redfish/v1/SessionService/Sessions" && r.Method == http.MethodPost {
		if body["UserName"] != User || body["Password"] != b.password {
			refuse(w, http.StatusUnauthorized, fmt.Sprintf("wrong password %v", body["Password"]))
			return
		}
		b.opened++
		token := fmt.Sprintf("token-%d", b.opened)
		b.sessions[token] = true
		w.Header().Set("X-Auth-Token", token)
		w.Header().Set("Location", path+"/"+token)
		w.WriteHeader(http.StatusCreated)
		return
	}
	user, pass, basic := r.BasicAuth()
	if !(basic && user == User && pass == b.password) && !b.sessions[r.Header.Get("X-Auth-Token")] {
		refuse(w, http.StatusUnauthorized, "who are you")
		return
	}
	last := path[strings.LastIndexByte(path, '/')+1:]
	if strings.HasPrefix(path, "/redfish/v1/SessionService/Sessions/") {
		if !b.sessions[last] {
			refuse(w, http.StatusNotFound, "no such session")
		} else if r.Method == http.MethodDelete {
			delete(b.sessions, last)
			w.WriteHeader(http.StatusNoContent)
		} else {
			_ = json.NewEncoder(w).Encode(Link(path))
		}
		return
	}
	if r.Method == http.MethodGet {
		if b.Get != nil && b.Get(w, r) {
			return
		}
		found := b.At[path]
		if found == nil {
			refuse(w, http.StatusNotFound, "no such resource")
			return
		}
		if allow, _ := found["@allow"].(string); allow != "" {
			w.Header().Set("Allow", allow)
		}
		_ = json.NewEncoder(w).Encode(named(path, found))
		return
	}
	if write {
		b.writes = append(b.writes, strings.TrimSpace(r.Method+" "+path+" "+string(raw)))
	}
	if b.Write != nil && b.Write(w, r, body) {
		return
	}
	switch {
	case r.Method == http.MethodPost && path == b.System+"/Actions/ComputerSystem.Reset":
		if !b.reset(fmt.Sprint(body["ResetType"])) {
			refuse(w, http.StatusBadRequest, "no such reset")
			return
		}
	case r.Method == http.MethodPatch && b.At[path] != nil:
		Merge(b.At[path], body)
	default:
		refuse(w, http.StatusNotFound, "no such resource or action")
		return
	}
	if b.After != nil {
		b.After(r, body)
	}
	w.WriteHeader(http.StatusNoContent)
}

// named is a resource with what each has, in the standard.
func named(path string, body map[string]any) map[string]any {
	with := map[string]any{"@odata.id": path, "@odata.type": "#Resource.v1_0_0.Resource", "Id": path[strings.LastIndexByte(path, '/')+1:], "Name": path}
	if path == "/redfish/v1" {
		with["RedfishVersion"] = "1.6.0"
	}
	maps.Copy(with, body)
	return with
}

func (b *BMC) reset(kind string) bool {
	s := b.At[b.System]
	switch kind {
	case "On", "ForceOn":
		s["PowerState"] = "On"
	case "ForceOff", "GracefulShutdown":
		s["PowerState"] = "Off"
	case "ForceRestart", "GracefulRestart", "Nmi", "PowerCycle":
	case "PushPowerButton":
		s["PowerState"] = map[any]string{"On": "Off", "Off": "On"}[s["PowerState"]]
	default:
		return false
	}
	return true
}

// Merge merges news into what is there, in depth.
func Merge(into, news map[string]any) {
	for k, v := range news {
		old, deep := into[k].(map[string]any)
		if with, also := v.(map[string]any); deep && also {
			Merge(old, with)
			continue
		}
		into[k] = v
	}
}
