package places

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/daemon"
	"github.com/ironyard/ironyard/central/sites"
	"github.com/ironyard/ironyard/ops/embeddedbus"
	"github.com/ironyard/ironyard/ops/operator"
	"github.com/ironyard/ironyard/ops/virtual/fleet"
	"github.com/ironyard/ironyard/ops/virtual/vbmc"
	states "github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/seal"
)

// groups is how many conductor groups there are, for each flow of a test one. lanes is how many of them rackds work in side by side.
const (
	groups = 128
	lanes  = 24
)

// spare is the group whose rackd stands in for every lane, and spareName that rackd.
const (
	spare     = "spare"
	spareName = "spare-1"
)

func lane(i int) string { return fmt.Sprintf("lane-%02d", i) }

// rig is a central in this process, its bus, and where rackds find both.
type rig struct {
	endpoint, bus, token string
	dir                  string
	key                  *seal.Key

	// machines are simulated, if not nil, and no machine is used twice.
	machines *fleet.Fleet
	used     atomic.Int64
	image    operator.Image
	files    string // base URL of other files, each of which has the image's bytes
	firmware *firmwareFiles
	// playbooks is a folder with one; empty: there is none. playing has those that run.
	playbooks string
	playing   chan struct{}
	// https are the flags of rackds that have a certificate: the spare one, and those of flows that need one. Without ways there is none.
	// images loads as machines' firmware does, which trusts that.
	https  []string
	images *http.Client
	// left is how each flow leaves its machine undisturbed, by name.
	left sync.Map
}

// rackd is the program. builtRackd builds it once: to link it takes seconds of both processors.
var (
	rackd      string
	builtRackd = sync.OnceValue(func() error {
		build := exec.Command("go", "build", "-o", rackd, "github.com/ironyard/ironyard/rackd")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("build rackd: %w: %s", err, out)
		}
		return nil
	})
)

func newRig(t *testing.T) *rig {
	t.Helper()
	if os.Getenv("IRONYARD_E2E") == "" {
		t.Skip("NOT RUN: kills some hundred rackds, for minutes; set IRONYARD_E2E=1, as make e2e does")
	}
	r := &rig{dir: t.TempDir(), token: "a token of this test", playing: make(chan struct{}, players),
		image: operator.Image{URL: "http://example.org/i.raw", SHA256: strings.Repeat("0", 64)}}
	if err := builtRackd(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(r.dir, "token"), []byte(r.token), 0o600); err != nil {
		t.Fatal(err)
	}
	quiet := slog.New(slog.DiscardHandler)
	b, err := embeddedbus.Start(t.Context(), embeddedbus.Options{Dir: r.dir, Listen: "127.0.0.1:0", Token: r.token, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Stop)
	r.bus = b.URL()
	conn, err := b.Connect("central", r.token)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	if r.key, err = seal.GenerateKey(); err != nil {
		t.Fatal(err)
	}
	var failover []sites.Failover
	for i := range groups {
		failover = append(failover, sites.Failover{Group: lane(i), To: []string{spare}})
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- daemon.Run(ctx, daemon.Config{Database: "sqlite:" + filepath.Join(r.dir, "central.db"), Listen: "127.0.0.1:0", Key: r.key, Conn: conn,
			Failover: failover, Log: quiet}, func(i daemon.Info) { r.endpoint = i.Endpoint; close(ready) })
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("central ended with %v", err)
		}
	})
	select {
	case <-ready:
	case err := <-done:
		done <- err
		t.Fatalf("central did not start: %v", err)
	}
	return r
}

// turns is longer than a rackd puts off building its ring (rackd/lease, turnsEvery).
const turns = 250 * time.Millisecond

// conductor is a rackd process.
type conductor struct {
	name string
	cmd  *exec.Cmd
	log  string
}

// start starts a rackd and waits until central knows it, and the spare one if there is one: that would
// take the work of its lane until then.
func (r *rig) start(t *testing.T, name, group, points string, flags ...string) *conductor {
	t.Helper()
	c := &conductor{name: name, log: filepath.Join(r.dir, name+".log")}
	key := func(g string) string {
		k, err := r.key.ForGroup(g)
		if err != nil {
			t.Fatal(err)
		}
		return k.Text()
	}
	keys := key(group) + "\n"
	if group == spare {
		for i := range groups {
			keys += lane(i) + " " + key(lane(i)) + "\n"
		}
	}
	if err := os.WriteFile(filepath.Join(r.dir, name+".key"), []byte(keys), 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(c.log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	args := []string{"--name", name, "--group", group, "--bus", r.bus, "--bus-token-file", filepath.Join(r.dir, "token"),
		"--key-file", filepath.Join(r.dir, name+".key"), "--data", filepath.Join(r.dir, name), "--observe", "", "--power-sync", "0"}
	if r.machines == nil {
		args = append(args, "--drivers", "fake-hardware")
	} else {
		boot := filepath.Join(r.dir, "boot")
		args = append(args, "--drivers", "redfish,idrac,ilo5", "--interface", "lo", "--address", address(group), "--dhcp", "off",
			"--boot-programs", boot, "--kernel", filepath.Join(boot, "kernel"), "--ramdisk", filepath.Join(boot, "ramdisk"), "--rescue-ramdisk", filepath.Join(boot, "ramdisk"),
			"--uki", filepath.Join(boot, programFile), "--rescue-uki", filepath.Join(boot, programFile),
			"--bmc-networks", "127.0.0.0/8", "--fetch-from", "127.0.0.0/8") // all of it is on this machine
		if r.playbooks != "" {
			args = append(args, "--ansible-dir", r.playbooks)
		}
		// A person may switch a machine off that its flow waits for. Nothing but the deadline ends that.
		for _, state := range []states.State{states.DeployWait, states.CleanWait, states.InspectWait, states.ServiceWait, states.RescueWait} {
			args = append(args, "--deadline", string(state)+"=1m")
		}
	}
	if group == spare {
		args = append(args, r.https...)
	}
	c.cmd = exec.Command(rackd, append(args, flags...)...)
	c.cmd.Env = append(os.Environ(), "IRONYARD_FAILPOINTS="+points, "GOMAXPROCS=1")
	c.cmd.Stdout, c.cmd.Stderr = log, log
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	said := 0 // the spare rackd's words before this one started, which grow for minutes
	if group != spare {
		said = len(r.saidBySpare(t, 0))
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			text, _ := os.ReadFile(c.log)
			t.Logf("%s said:\n%s", name, text)
		}
		if c.cmd.ProcessState == nil {
			c.cmd.Process.Signal(syscall.SIGTERM)
			c.cmd.Wait()
		}
	})
	r.until(t, 30*time.Second, "central knows "+name, func() (bool, string) {
		if err := r.get("/v1/conductors/"+name, &struct{}{}); err != nil {
			return false, err.Error()
		}
		return true, ""
	})
	if group != spare {
		r.until(t, 30*time.Second, "the spare rackd knows "+name, func() (bool, string) {
			return bytes.Contains(r.saidBySpare(t, said), []byte(`"rackd joined" rackd=`+name+" ")), "it has not said so"
		})
		time.Sleep(turns) // where many come and go, the ring turns a little later than that is said
	}
	return c
}

// saidBySpare returns the spare rackd's log from a byte on.
func (r *rig) saidBySpare(t *testing.T, from int) []byte {
	t.Helper()
	f, err := os.Open(filepath.Join(r.dir, spareName+".log"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	said, err := io.ReadAll(io.NewSectionReader(f, int64(from), math.MaxInt64-int64(from)))
	if err != nil {
		t.Fatal(err)
	}
	return said
}

// killed waits for the end of the process, whose work is done, and reports whether its failpoint ended it.
// One that lives has not come by its place.
func (c *conductor) killed() bool {
	ended := make(chan struct{})
	go func() { c.cmd.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		c.cmd.Process.Kill()
		<-ended
		return false
	}
	ws, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && ws.Signaled() && ws.Signal() == syscall.SIGKILL
}

func (r *rig) until(t *testing.T, limit time.Duration, what string, ok func() (bool, string)) {
	t.Helper()
	r.untilEvery(t, 50*time.Millisecond, limit, what, ok)
}

// untilEvery looks at what is waited for with such pauses: all lanes do, and share two cores with the rackds.
func (r *rig) untilEvery(t *testing.T, pause, limit time.Duration, what string, ok func() (bool, string)) {
	t.Helper()
	for end := time.Now().Add(limit); ; time.Sleep(pause) {
		good, why := ok()
		if good {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s: %s", limit, what, why)
		}
	}
}

var client = &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: lanes, DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext}}

func (r *rig) do(method, path, body string) ([]byte, int, error) {
	req, err := http.NewRequest(method, r.endpoint+path, strings.NewReader(body))
	if err != nil {
		return nil, 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-OpenStack-Ironic-API-Version", "1.110")
	resp, err := client.Do(req)
	if err != nil {
		return nil, 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return bytes.TrimSpace(text), resp.StatusCode, err
}

func (r *rig) get(path string, into any) error {
	text, status, err := r.do("GET", path, "")
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return fmt.Errorf("GET %s: %d %s", path, status, text)
	}
	return json.Unmarshal(text, into)
}

// node is what the test reads of a node.
type node struct {
	UUID                 string
	ProvisionState       string  `json:"provision_state"`
	TargetProvisionState *string `json:"target_provision_state"`
	LastError            *string `json:"last_error"`
	Reservation          *string
	TargetPowerState     *string `json:"target_power_state"`
	Maintenance          bool
	Fault                *string
}

func (n node) String() string {
	text, _ := json.Marshal(n)
	return string(text)
}

// post creates something and reads what it has become. Where a lane's rackd has just stopped, the spare one has not taken its place yet.
func (r *rig) post(t *testing.T, path string, body map[string]any, into any) {
	t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	r.until(t, 10*time.Second, "POST "+path, func() (bool, string) {
		text, status, err := r.do("POST", path, string(raw))
		if err == nil && status == http.StatusBadRequest && bytes.Contains(text, []byte("No conductor service registered")) {
			return false, string(text)
		}
		if err != nil || status != http.StatusCreated || json.Unmarshal(text, into) != nil {
			t.Fatalf("POST %s: %d %s %v", path, status, text, err)
		}
		return true, ""
	})
}

// enrolled creates a node in a group, and brings it to where the flow begins. Without machines it returns none.
func (r *rig) enrolled(t *testing.T, group string, f flow) (string, *fleet.Member) {
	t.Helper()
	var machine *fleet.Member
	body := map[string]any{"driver": "fake-hardware", "driver_info": slow}
	var macs []string
	if r.machines != nil {
		machine = r.machines.Members[r.used.Add(1)-1]
		e := r.machines.Enrolment(machine)
		body, macs = map[string]any{"driver": e.Driver, "driver_info": e.DriverInfo, "properties": e.Properties, "name": e.Name,
			"inspect_interface": e.Interfaces["inspect"], "rescue_interface": "agent"}, e.MACs
		if f.medium != "" {
			body["boot_interface"] = "redfish-virtual-media"
			e.DriverInfo["deploy_iso"] = f.medium
		}
		if f.told {
			e.DriverInfo["deploy_iso"], e.DriverInfo["rescue_iso"], e.DriverInfo["config_via_removable"] = r.files+ownImage, r.files+ownImage, true
		}
		for kind, name := range f.interfaces {
			body[kind+"_interface"] = name
		}
		machine.Firmware.Name(f.names)
		if f.hardware != "" {
			body["driver"] = f.hardware
		}
		if f.hardware == "idrac" {
			machine.BMC.Be(vbmc.Dell)
		}
		if strings.HasPrefix(f.hardware, "ilo") {
			body["driver_info"] = ofILO(t, e.DriverInfo)
		}
	}
	body["conductor_group"], body["automated_clean"] = group, true
	body["instance_info"] = map[string]any{"image_source": r.image.URL, "image_checksum": r.image.SHA256, "image_disk_format": "raw"}
	if f.instance != nil {
		body["instance_info"] = f.instance(r)
	}
	var n node
	r.post(t, "/v1/nodes", body, &n)
	for _, mac := range macs {
		r.post(t, "/v1/ports", map[string]any{"node_uuid": n.UUID, "address": mac}, &struct{}{})
	}
	if f.volume {
		r.post(t, "/v1/volume/connectors", map[string]any{"node_uuid": n.UUID, "type": "iqn", "connector_id": "iqn.2026-11.org.example:" + machine.Name}, &struct{}{})
		r.post(t, "/v1/volume/targets", map[string]any{"node_uuid": n.UUID, "volume_type": "iscsi", "volume_id": "v", "boot_index": 0, "properties": map[string]any{
			"target_iqn": volumeIQN, "target_portal": "127.82.2.1:3260", "target_lun": 1}}, &struct{}{})
	}
	for _, q := range f.way {
		r.request(t, n.UUID, q)
		if end := r.rest(t, n.UUID); end.ProvisionState != q.rest {
			t.Fatalf("on the way, after %s: %s", q.body, end)
		}
	}
	return n.UUID, machine
}

func (r *rig) request(t *testing.T, id string, q request) {
	t.Helper()
	if q.body = strings.ReplaceAll(q.body, theNode, id); r.firmware != nil {
		q.body = strings.ReplaceAll(q.body, theFiles, r.firmware.url)
	}
	method, accepted := "PUT", http.StatusAccepted
	if q.path == "" {
		method, accepted = "PATCH", http.StatusOK
	}
	// A rack that has only just heard of the node asks for a moment's patience.
	r.until(t, 10*time.Second, q.body, func() (bool, string) {
		text, status, err := r.do(method, "/v1/nodes/"+id+q.path, q.body)
		if err != nil || status != accepted && status != http.StatusConflict && status != http.StatusServiceUnavailable {
			t.Fatalf("%s %s %s: %d %s %v", method, q.path, q.body, status, text, err)
		}
		return status == accepted, string(text)
	})
}

// rest waits until a node has no work, or stands in a hold, and returns it.
func (r *rig) rest(t *testing.T, id string) (n node) {
	t.Helper()
	r.untilEvery(t, 250*time.Millisecond, 60*time.Second, "node "+id+" rests", func() (bool, string) {
		n = node{}
		if err := r.get("/v1/nodes/"+id, &n); err != nil {
			return false, err.Error()
		}
		in, _ := states.Describe(states.State(n.ProvisionState))
		return n.Reservation == nil && n.TargetPowerState == nil && (n.TargetProvisionState == nil || n.Maintenance || in.Kind == states.Held), n.String()
	})
	return n
}
