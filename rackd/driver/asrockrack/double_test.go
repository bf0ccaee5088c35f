package asrockrack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/outbound"
)

// recorded is what bmclib's authors recorded of an E3C246D4I-NL, by its names in the tests of their provider: the module that go.mod
// names brings them.
var recorded = sync.OnceValues(func() (map[string][]byte, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/bmc-toolbox/bmclib/v2").Output()
	if err != nil {
		return nil, err
	}
	folder := filepath.Join(strings.TrimSpace(string(out)), "providers", "asrockrack")
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(folder, "mock_test.go"), nil, 0)
	if err != nil {
		return nil, err
	}
	said := map[string][]byte{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, is := n.(*ast.ValueSpec)
		if !is || len(spec.Values) != 1 {
			return true
		}
		ast.Inspect(spec.Values[0], func(v ast.Node) bool {
			if text, is := v.(*ast.BasicLit); is && text.Kind == token.STRING {
				if plain, err := strconv.Unquote(text.Value); err == nil {
					said[spec.Names[0].Name] = []byte(plain)
				}
			}
			return true
		})
		return false
	})
	said["sensors"], err = os.ReadFile(filepath.Join(folder, "fixtures", "E3C246D4I-NL", "sensors.json"))
	for _, name := range []string{"loginPayload", "loginResponse", "fwinfoResponse", "inventoryinfoResponse", "fruinfoResponse", "biosPOSTCodeResponse", "chassisStatusResponse", "fwUploadResponse", "fwVerificationResponse", "fwUpgradeProgress"} {
		if said[name] == nil {
			err = errors.Join(err, fmt.Errorf("bmclib's tests have no %s", name))
		}
	}
	return said, err
})

// double is a BMC that answers as the recorded one did. What its writes change is ours, in the words of the provider.
type double struct {
	*drivertest.Web
	said     map[string][]byte
	user     string
	password string
	sessions map[string]string // tokens by cookies
	opened   int
	refused  int
	on       bool
	orders   []int
	resets   int
	// Its mode for firmware, in which it knows the one session.
	flashing bool
	file     []byte // that it was given last, of either component
	upgrades int    // of its own firmware and of the BIOS that have begun
	percent  int
	writes   string // the component that is written; empty: none
	versions map[string]string
	bad      bool                  // it does not take the file
	states   func(percent int) int // that it tells beside the percentage; nil: 2 once it is done
	mute     bool                  // it tells no progress
	terse    bool                  // it answers an order to write with an empty page
	orphaned bool                  // it does not write what it was given
	restarts func() int            // how often the machine was restarted; the BIOS shows then
	began    int                   // of restarts, when the BIOS was written
	// answers replaces what is answered at a path; paths are those that were asked for.
	answers map[string]func(http.ResponseWriter)
	paths   []string
}

func newDouble(t *testing.T) *double {
	said, err := recorded()
	if err != nil {
		t.Fatalf("read what bmclib's authors recorded: %v", err)
	}
	d := &double{said: said, user: "foo", password: "s3cr&t +%ä", sessions: map[string]string{}, answers: map[string]func(http.ResponseWriter){},
		versions: map[string]string{bmcs: "0.01.00", bios: "L2.07B"}, restarts: func() int { return 0 }}
	d.Web = drivertest.NewWeb(t, true, d.answer)
	d.Spoiler.Restart = d.restart
	return d
}

// restart starts the BMC again, with its new firmware if all of that was written.
func (d *double) restart() {
	clear(d.sessions)
	d.flashing = false
	if d.writes != bmcs {
		return
	}
	if d.percent >= 100 {
		d.versions[bmcs] = "0.03.00"
	}
	d.writes = ""
}

func (d *double) answer(w http.ResponseWriter, r *http.Request) {
	at := path.Clean(r.URL.Path)
	d.paths = append(d.paths, r.Method+" "+at)
	if at == loginPath && r.Method == http.MethodPost {
		if instead := d.answers[at]; instead != nil {
			instead(w)
			return
		}
		d.login(w, r)
		return
	}
	cookie, err := r.Cookie("QSESSIONID")
	if err != nil || d.sessions[cookie.Value] == "" || r.Header.Get("X-CSRFTOKEN") != d.sessions[cookie.Value] {
		http.Error(w, `{ "error": "Invalid Authentication", "code": 401 }`, http.StatusUnauthorized)
		return
	}
	if d.flashing && !strings.HasPrefix(at, "/api/maintenance/") && at != loginPath {
		http.Error(w, `{ "error": "Invalid Authentication", "code": 401 }`, http.StatusUnauthorized)
		return
	}
	if r.Method == http.MethodGet {
		d.Read()
	}
	if instead := d.answers[at]; instead != nil {
		instead(w)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	switch r.Method + " " + at {
	case "DELETE /api/session":
		delete(d.sessions, cookie.Value)
		_, _ = io.WriteString(w, `{ "ok": 0 }`)
	case "GET /api/chassis-status":
		_, _ = w.Write(bytes.Replace(d.said["chassisStatusResponse"], []byte(`"power_status": 1`), fmt.Appendf(nil, `"power_status": %d`, map[bool]int{true: 1}[d.on]), 1))
	case "POST /api/actions/power":
		d.power(w, r)
	case "GET /api/fru":
		_, _ = w.Write(d.said["fruinfoResponse"])
	case "GET /api/asrr/fw-info":
		if d.writes == bios && d.percent >= 100 && d.restarts() > d.began {
			d.versions[bios], d.writes = "L2.21A", ""
		}
		said := bytes.Replace(d.said["fwinfoResponse"], []byte(`"0.01.00"`), []byte(`"`+d.versions[bmcs]+`"`), 1)
		_, _ = w.Write(bytes.Replace(said, []byte(`"L2.07B"`), []byte(`"`+d.versions[bios]+`"`), 1))
	case "GET /api/asrr/inventory_info":
		_, _ = w.Write(d.said["inventoryinfoResponse"])
	case "GET /api/sensors":
		_, _ = w.Write(d.said["sensors"])
	case "GET /api/asrr/getbioscode":
		_, _ = w.Write(d.said["biosPOSTCodeResponse"])
	case "POST /api/maintenance/reset":
		d.resets++
		d.restart()
		d.Wrote()
	default:
		d.firmware(w, r, r.Method+" "+at)
	}
}

// firmware takes files in and writes them, as firmware_update.md of the provider has it.
func (d *double) firmware(w http.ResponseWriter, r *http.Request, asked string) {
	switch asked {
	case "PUT /api/maintenance/flash":
		d.flashing = true
		d.Wrote()
	case "POST /api/maintenance/firmware", "POST /api/asrr/maintenance/BIOS/firmware":
		file, _, err := r.FormFile("fwimage")
		if err != nil || !d.flashing && asked == "POST /api/maintenance/firmware" {
			http.Error(w, "bad request", http.StatusBadRequest)
			return
		}
		d.file, _ = io.ReadAll(file)
		d.Wrote()
		_, _ = w.Write(d.said["fwUploadResponse"])
	case "GET /api/maintenance/firmware/verification":
		if d.bad || d.file == nil {
			http.Error(w, `{ "error": "Firmware Image Verification Failed" }`, http.StatusNotAcceptable)
			return
		}
		_, _ = w.Write(d.said["fwVerificationResponse"])
	case "POST /api/asrr/maintenance/BIOS/configuration":
		d.Wrote()
		_, _ = io.WriteString(w, `{ "response": 1 }`)
	case "PUT /api/maintenance/firmware/upgrade", "POST /api/asrr/maintenance/BIOS/upgrade":
		body, _ := io.ReadAll(r.Body)
		if asked == "PUT /api/maintenance/firmware/upgrade" && string(body) != `{"flash_status":1,"preserve_config":1,"preserve_network":1,"preserve_user":1}` || d.file == nil {
			http.Error(w, "bad request", http.StatusBadRequest)
			return
		}
		d.upgrades++
		if d.writes, d.percent, d.began = bmcs, 0, d.restarts(); strings.HasPrefix(asked, "POST") {
			d.writes = bios
		}
		if d.orphaned {
			d.writes = ""
		}
		d.Wrote()
		if !d.terse {
			_, _ = io.WriteString(w, `{ "response": 1 }`)
		}
	case "GET /api/maintenance/firmware/flash-progress", "GET /api/asrr/maintenance/BIOS/flash-progress":
		d.progress(w)
	default:
		http.NotFound(w, r)
	}
}

// progress tells how far it is, a half more with each question.
func (d *double) progress(w http.ResponseWriter) {
	if d.writes == "" || d.percent > 100 && d.states == nil {
		http.Error(w, "", http.StatusBadRequest)
		return
	}
	d.percent += 50
	if d.mute {
		http.Error(w, "", http.StatusBadRequest)
		return
	}
	state := map[bool]int{true: 2}[d.percent >= 100]
	if d.states != nil {
		state = d.states(d.percent)
	}
	said := bytes.Replace(d.said["fwUpgradeProgress"], []byte("__PERCENT__"), fmt.Append(nil, min(d.percent, 100)), 1)
	_, _ = w.Write(bytes.Replace(said, []byte("__STATE__"), fmt.Append(nil, state), 1))
}

// login lets in who sends the form that bmclib's tests have.
func (d *double) login(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	form, err := url.ParseQuery(string(body))
	if err != nil || r.Header.Get("Content-Type") != "application/x-www-form-urlencoded" || form.Get("certlogin") != "0" {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	if d.flashing { // it lets in no one
		http.Error(w, `{ "error": "Service Unavailable" }`, http.StatusServiceUnavailable)
		return
	}
	if form.Get("username") != d.user || form.Get("password") != d.password {
		d.refused++
		http.Error(w, `{ "error": "Invalid Authentication: `+string(body)+`", "code": 401 }`, http.StatusUnauthorized)
		return
	}
	d.opened++
	cookie, token := fmt.Sprintf("94ed00f482249dd77a-%d", d.opened), fmt.Sprintf("l5L29IP7-%d", d.opened)
	d.sessions[cookie] = token
	http.SetCookie(w, &http.Cookie{Name: "QSESSIONID", Value: cookie, Path: "/"})
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(bytes.Replace(d.said["loginResponse"], []byte(`"l5L29IP7"`), []byte(`"`+token+`"`), 1))
}

// power carries out an order. The numbers are those of IPMI's chassis control.
func (d *double) power(w http.ResponseWriter, r *http.Request) {
	var order struct {
		Command *int `json:"power_command"`
	}
	if json.NewDecoder(r.Body).Decode(&order) != nil || order.Command == nil {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	switch *order.Command {
	case 0, 5:
		d.on = false
	case 1:
		d.on = true
	case 2, 3:
		if !d.on {
			http.Error(w, `{ "error": "Not allowed in this state" }`, http.StatusInternalServerError)
			return
		}
	default:
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	d.orders = append(d.orders, *order.Command)
	d.Wrote()
	_, _ = fmt.Fprintf(w, `{ "power_command": %d }`, *order.Command)
}

func (d *double) node(more map[string]any) *node.Document {
	host, port := d.HostPort()
	info := map[string]any{fieldAddress: host, fieldPort: port, fieldUser: "foo", fieldPassword: "s3cr&t +%ä", fieldVerifyCA: d.PEM()}
	for field, v := range more {
		info[field] = v
	}
	return &node.Document{UUID: "b3d1", Name: "web1", Driver: "asrockrack", DriverInfo: info}
}

func newDriver(t *testing.T) *Driver {
	d := New(bmc.WebOptions{Networks: outbound.BMCs{netip.MustParsePrefix("127.0.0.0/8")}, Pace: 1000, Log: drivertest.Logger(t)})
	t.Cleanup(func() { _ = d.Close(context.WithoutCancel(t.Context())) })
	return d
}
