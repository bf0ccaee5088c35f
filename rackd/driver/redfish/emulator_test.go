package redfish

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
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/outbound"
)

// emulator is a BMC with one system or two, sessions and basic authentication.
type emulator struct {
	*httptest.Server
	mu       sync.Mutex
	password string
	power    string
	boot     map[string]any
	allowed  []string
	sessions map[string]bool
	opened   int
	writes   []string // "PATCH …", "POST …" that reached the system
	epochs   []string
	// other is a second system; nil: there is none. It is set before the first request.
	other *machine
	// recorded, when set, are the answers of a BMC, by their paths. system is the path of its machine there, whose power and boot device the
	// emulator keeps. It is set before the first request.
	recorded spoken
	system   string
	// asked counts what was asked of recorded.
	asked int
	// hook, when set, may answer a request itself.
	hook func(w http.ResponseWriter, r *http.Request) (done bool)
	// spoiler stands before all that is answered.
	spoiler drivertest.Spoiler
}

// machine is what a system shows of itself.
type machine struct {
	power string
	boot  map[string]any
}

func newEmulator(t *testing.T) *emulator {
	e := &emulator{password: "s3cret-pass", power: "Off", sessions: map[string]bool{},
		allowed: []string{"On", "ForceOff", "GracefulShutdown", "ForceRestart", "GracefulRestart", "Nmi"},
		boot: map[string]any{"BootSourceOverrideEnabled": "Disabled", "BootSourceOverrideTarget": "None", "BootSourceOverrideMode": "Legacy",
			"BootSourceOverrideTarget@Redfish.AllowableValues": []string{"None", "Pxe", "Hdd", "Cd"}}}
	e.Server = httptest.NewUnstartedServer(e)
	e.Server.Config.ErrorLog = log.New(io.Discard, "", 0) // connections that end are what tests are about
	drivertest.StartTLS(t, e.Server)
	t.Cleanup(e.Server.Close)
	return e
}

func (e *emulator) node(over map[string]any) *node.Document {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: e.Certificate().Raw})
	info := map[string]any{fieldAddress: e.URL, fieldUser: "admin", fieldPassword: "s3cret-pass", fieldVerifyCA: string(ca)}
	for k, v := range over {
		info[k] = v
	}
	return &node.Document{UUID: "b3d1", Name: "web1", DriverInfo: info}
}

func (e *emulator) set(do func()) { e.mu.Lock(); defer e.mu.Unlock(); do() }

// questions is how often recorded answers were asked for.
func (e *emulator) questions() (n int) { e.set(func() { n = e.asked }); return n }

// live is how many sessions are open.
func (e *emulator) live() (n int) { e.set(func() { n = len(e.sessions) }); return n }

func (e *emulator) written() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string(nil), e.writes...)
}

func refuse(w http.ResponseWriter, code int, text string) {
	w.WriteHeader(code)
	fmt.Fprintf(w, `{"error":{"code":"Base.1.0.GeneralError","message":"general","@Message.ExtendedInfo":[{"Message":%q}]}}`, text)
}

func (e *emulator) ServeHTTP(w http.ResponseWriter, r *http.Request) { e.spoiler.Serve(w, r, e.answer) }

func (e *emulator) answer(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	hook := e.hook
	e.mu.Unlock()
	if hook != nil && hook(w, r) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	path := strings.TrimSuffix(r.URL.Path, "/")
	body, _ := io.ReadAll(r.Body)
	reply := func(v any) { _ = json.NewEncoder(w).Encode(v) }
	link := func(p string) map[string]any { return map[string]any{"@odata.id": p} }
	if path == "/redfish/v1" {
		root := map[string]any{"@odata.id": path, "Systems": link("/redfish/v1/Systems")}
		maps.Copy(root, e.recorded[path])
		root["Links"] = map[string]any{"Sessions": link("/redfish/v1/SessionService/Sessions")}
		reply(root)
		return
	}
	if path == "/redfish/v1/SessionService/Sessions" && r.Method == http.MethodPost {
		var login struct{ UserName, Password string }
		_ = json.Unmarshal(body, &login)
		if login.UserName != "admin" || login.Password != e.password {
			refuse(w, 401, "wrong password "+login.Password)
			return
		}
		e.opened++
		token := fmt.Sprintf("token-%d", e.opened)
		e.sessions[token] = true
		w.Header().Set("X-Auth-Token", token)
		w.Header().Set("Location", "/redfish/v1/SessionService/Sessions/"+token)
		w.WriteHeader(201)
		return
	}
	_, pass, basic := r.BasicAuth()
	if !(basic && pass == e.password) && !e.sessions[r.Header.Get("X-Auth-Token")] {
		refuse(w, 401, "who are you")
		return
	}
	const first, second = "/redfish/v1/Systems/1", "/redfish/v1/Systems/2"
	power, boot, members := &e.power, e.boot, []any{link(first)}
	if e.other != nil {
		members = append(members, link(second))
		if strings.HasPrefix(path, second) {
			power, boot = &e.other.power, e.other.boot
		}
	}
	switch {
	case r.Method == http.MethodGet && e.sessions[path[strings.LastIndexByte(path, '/')+1:]]:
		reply(map[string]any{"@odata.id": path, "UserName": "admin"})
	case r.Method == http.MethodGet && e.recorded != nil:
		e.asked++
		body := e.recorded.at(path)
		if body == nil {
			refuse(w, http.StatusNotFound, "not recorded")
			return
		}
		if path == e.system {
			body = maps.Clone(body)
			body["PowerState"], body["Boot"] = e.power, e.boot
		}
		reply(body)
	case r.Method == http.MethodDelete:
		delete(e.sessions, path[strings.LastIndexByte(path, '/')+1:])
		w.WriteHeader(204)
	case path == "/redfish/v1/Systems":
		reply(map[string]any{"Members": members, "Members@odata.count": len(members)})
	case (path == first || path == second && e.other != nil) && r.Method == http.MethodGet:
		reply(map[string]any{"@odata.id": path, "Id": path[len(path)-1:], "UUID": "uu-id", "Manufacturer": "Maker", "Model": "M1", "SerialNumber": "S1", "SKU": "TAG7",
			"PowerState": *power, "Boot": boot, "Actions": map[string]any{"#ComputerSystem.Reset": map[string]any{
				"target": path + "/Actions/Reset", "ResetType@Redfish.AllowableValues": e.allowed}}})
	case r.Method == http.MethodPatch || r.Method == http.MethodPost:
		e.writes = append(e.writes, r.Method+" "+string(body))
		e.epochs = append(e.epochs, r.Header.Get(work.IDHeader)+"/"+r.Header.Get(work.EpochHeader))
		var change struct {
			ResetType string
			Boot      map[string]any
		}
		_ = json.Unmarshal(body, &change)
		for k, v := range change.Boot {
			boot[k] = v
		}
		switch change.ResetType {
		case "On", "ForceRestart":
			*power = "On"
		case "ForceOff", "GracefulShutdown":
			*power = "Off"
		}
		w.WriteHeader(204)
	default:
		refuse(w, 404, "no such resource "+path)
	}
}

func newDriver(t *testing.T, o Options) *Driver {
	if o.ConnectTimeout == 0 {
		o.ConnectTimeout = 5 * time.Second
	}
	if o.Networks == nil {
		o.Networks = outbound.BMCs{netip.MustParsePrefix("127.0.0.0/8")} // where emulators are
	}
	if o.ReadTimeout == 0 {
		o.ReadTimeout = 5 * time.Second
	}
	o.Pace = 10_000 // there is nothing slow behind an emulator
	d := New(o)
	t.Cleanup(func() { _ = d.Close(t.Context()) })
	return d
}
