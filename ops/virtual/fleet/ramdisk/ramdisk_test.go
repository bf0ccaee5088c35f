package ramdisk

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ironyard/ironyard/agent/commands"
	"github.com/ironyard/ironyard/agent/session"
	"github.com/ironyard/ironyard/ops/virtual/fleet/disk"
	"github.com/ironyard/ironyard/ops/virtual/fleet/fault"
	"github.com/ironyard/ironyard/ops/virtual/fleet/journal"
	"github.com/ironyard/ironyard/ops/virtual/fleet/pace"
	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/work"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	token = "tok-123"
	mac   = "52:54:00:00:00:01"
)

var content = bytes.Repeat([]byte("image"), 100_000)

func digest() string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// rackd is a real HTTPS server that knows one machine and serves one image.
type rackd struct {
	*httptest.Server
	beats chan agentapi.Heartbeat
}

func newRackd(t *testing.T) *rackd {
	r := &rackd{beats: make(chan agentapi.Heartbeat, 1000)}
	r.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		switch {
		case q.URL.Path == agentapi.LookupPath && q.URL.Query().Get("addresses") == mac:
			json.NewEncoder(w).Encode(agentapi.LookupReply{Node: agentapi.LookupNode{UUID: "n-1"}, Config: agentapi.LookupConfig{HeartbeatTimeout: 60, AgentToken: token}})
		case strings.HasPrefix(q.URL.Path, agentapi.HeartbeatPath):
			var h agentapi.Heartbeat
			json.NewDecoder(q.Body).Decode(&h)
			r.beats <- h
			w.WriteHeader(http.StatusAccepted)
		case q.URL.Path == "/image":
			w.Write(content)
		default:
			http.NotFound(w, q)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *rackd) commandLine() string {
	sum := sha256.Sum256(r.Certificate().Raw)
	return agentapi.ParamAPIURL + "=" + r.URL + " " + agentapi.ParamAPIFingerprint + "=" + hex.EncodeToString(sum[:])
}

type outcome struct {
	end End
	err error
}

// machine is an agent and what its rackd sees of it.
type machine struct {
	*Agent
	t      *testing.T
	rackd  *rackd
	client *http.Client
	url    string
	ended  chan outcome
	cut    context.CancelCauseFunc
}

var errCut = errors.New("power cut")

func start(t *testing.T, address string, timings pace.Timings) *machine {
	j := journal.New(0)
	m := &machine{t: t, rackd: newRackd(t), ended: make(chan outcome, 1), Agent: &Agent{
		Machine: "m", MAC: mac, Listen: netip.MustParseAddrPort(address), Inventory: agentapi.Inventory{Disks: []agentapi.Disk{{Name: "/dev/sda"}}},
		Disk: disk.New("m", j), Journal: j, Pace: pace.New(timings, 1, 1), Faults: &fault.Faults{}, Log: slog.New(slog.DiscardHandler),
	}}
	var ctx context.Context
	ctx, m.cut = context.WithCancelCause(t.Context())
	go func() {
		end, err := m.Run(ctx, m.rackd.commandLine())
		m.ended <- outcome{end, err}
	}()
	hb := <-m.rackd.beats
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(hb.AgentVerifyCA)) || hb.AgentToken != token || hb.BootID == "" || hb.CallbackURL != "https://"+address {
		t.Fatalf("heartbeat %+v", hb)
	}
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}
	m.client, m.url = &http.Client{Transport: tr}, hb.CallbackURL
	return m
}

// command posts a command of work w-1 and, if it is to, waits for its end.
func (m *machine) command(name, id string, params any, wait bool) (c agentapi.Command) {
	m.t.Helper()
	raw, _ := json.Marshal(params)
	body, _ := json.Marshal(agentapi.CommandRequest{Name: name, ID: id, Params: raw})
	path := agentapi.CommandsPath + "?agent_token=" + token
	if wait {
		path += "&wait=true"
	}
	req, err := http.NewRequestWithContext(m.t.Context(), http.MethodPost, m.url+path, bytes.NewReader(body))
	if err != nil {
		m.t.Fatal(err)
	}
	req.Header.Set(work.IDHeader, "w-1")
	req.Header.Set(work.EpochHeader, "3")
	resp, err := m.client.Do(req)
	if err != nil {
		m.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 || json.Unmarshal(text, &c) != nil {
		m.t.Fatalf("%s: %d %s %v", name, resp.StatusCode, text, err)
	}
	return c
}

func (m *machine) image() agentapi.PrepareImageParams {
	return agentapi.PrepareImageParams{ImageInfo: agentapi.ImageInfo{URLs: []string{m.rackd.URL + "/image"}, HashAlgo: "sha256", HashValue: digest()}}
}

func (m *machine) kinds() (out []journal.Kind) {
	for _, r := range m.Journal.After(0, 0) {
		out = append(out, r.Kind)
	}
	return out
}

func TestEveryCommandOfTheAgentIsKnown(t *testing.T) {
	for _, s := range commands.All(commands.Deps{}) {
		if simulated[s.Name] == nil && !telling[s.Name] && lacking[s.Name] == "" {
			t.Errorf("the agent has a command %s that the simulation does not know", s.Name)
		}
	}
}

func TestDeploy(t *testing.T) {
	m := start(t, "127.0.0.21:9999", pace.Timings{})
	for _, c := range []struct {
		name, id string
		params   any
		want     string
	}{
		{agentapi.CmdGetCleanSteps, "w-1/steps", nil, "erase_devices_metadata"},
		{agentapi.CmdGetInventory, "w-1/inventory", nil, "/dev/sda"},
		{agentapi.CmdPrepareImage, "w-1/write_image", m.image(), `"root_device":"/dev/sda"`},
		{agentapi.CmdPrepareImage, "w-1/write_image", m.image(), `"root_device":"/dev/sda"`}, // the same one
		{agentapi.CmdInstallBoot, "w-1/boot", nil, "boot entry"},
		{agentapi.CmdSync, "w-1/sync", nil, "result"},
		{agentapi.CmdRunImage, "w-1/run", nil, "reboot"},
	} {
		if got := m.command(c.name, c.id, c.params, true); got.Status != agentapi.CommandSucceeded || !strings.Contains(string(got.Result), c.want) {
			t.Errorf("%s: %+v %s", c.name, got.Error, got.Result)
		}
	}
	if o := <-m.ended; o.end != Reboot || o.err != nil {
		t.Errorf("ended with %q, %v", o.end, o.err)
	}
	if what, image := m.Disk.Holds(); what != disk.Image || image != digest() {
		t.Errorf("the disk holds %s %s", what, image)
	}
	counts := m.Journal.Counts("m")
	if counts[journal.WriteBegun] != 1 || counts[journal.CommandAsked] != 7 || counts[journal.CommandBegun] != 6 || counts[journal.AgentUp] != 1 {
		t.Errorf("the journal counts %v", counts)
	}
	for _, r := range m.Journal.After(0, 0) {
		if r.Kind == journal.CommandAsked && (r.Work != "w-1" || r.Epoch != "3" || r.Status != 200) || r.Kind == journal.WriteBegun && r.Work != "w-1" {
			t.Errorf("record %+v", r)
		}
	}
}

func TestCleanAndFailures(t *testing.T) {
	m := start(t, "127.0.0.22:9999", pace.Timings{})
	defer func() { m.cut(errCut); <-m.ended }()
	bad := m.image()
	bad.ImageInfo.HashValue = strings.Repeat("0", 64)
	for id, c := range map[string]struct {
		params agentapi.PrepareImageParams
		why    string
	}{"w-1/a": {m.image(), "injected"}, "w-2/a": {bad, "not 0000"}, "w-3/a": {agentapi.PrepareImageParams{}, "no URL"}} {
		m.Faults.FailWrites(map[bool]int{true: 1}[c.why == "injected"])
		got := m.command(agentapi.CmdPrepareImage, id, c.params, true)
		if got.Error == nil || !strings.Contains(got.Error.Details, c.why) {
			t.Errorf("%s: %+v, want a failure because %q", id, got.Error, c.why)
		}
	}
	if got := m.command(agentapi.CmdInstallBoot, "w-1/boot", nil, true); got.Error == nil {
		t.Error("a boot entry was made without an image")
	}
	step := func(name string) agentapi.Command {
		return m.command(agentapi.CmdExecCleanStep, "w-4/"+name, agentapi.StepParams{Step: map[string]any{"step": name, "interface": "deploy"}}, true)
	}
	if got := step("erase_devices"); got.Error != nil || !strings.Contains(string(got.Result), `"clean_step"`) {
		t.Errorf("erase: %+v %s", got.Error, got.Result)
	}
	if got := step("polish"); got.Error == nil || got.Error.Type != "InvalidCommandParamsError" {
		t.Errorf("unknown step: %+v", got.Error)
	}
	if what, _ := m.Disk.Holds(); what != disk.Empty {
		t.Errorf("the disk holds %s", what)
	}
}

func TestPowerCutTearsTheWrite(t *testing.T) {
	m := start(t, "127.0.0.23:9999", pace.Timings{Write: time.Hour})
	m.command(agentapi.CmdPrepareImage, "w-1/write_image", m.image(), false)
	for seq := uint64(0); m.Journal.Await(t.Context(), seq, 1)[0].Kind != journal.WriteBegun; seq++ {
	}
	m.cut(errCut)
	if o := <-m.ended; !errors.Is(o.err, errCut) {
		t.Errorf("ended with %q, %v", o.end, o.err)
	}
	if what, _ := m.Disk.Holds(); what != disk.Torn || !slices.Contains(m.kinds(), journal.WriteTorn) || slices.Contains(m.kinds(), journal.CommandEnded) {
		t.Errorf("the disk holds %s; journal %v", what, m.kinds())
	}
	if res, err := m.client.Get(m.url + agentapi.StatusPath); err == nil {
		res.Body.Close()
		t.Error("the agent of a machine without power answers")
	}
}

func TestLookupThatNeverSucceeds(t *testing.T) {
	r := newRackd(t)
	a := &Agent{MAC: "52:54:00:00:00:99", Faults: &fault.Faults{}, Journal: journal.New(0), Log: slog.New(slog.DiscardHandler)}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errCut)
	defer cancel()
	if _, err := a.Run(ctx, r.commandLine()); !errors.Is(err, errCut) {
		t.Errorf("%v, want to be asking until the power goes", err)
	}
	if _, err := a.Run(t.Context(), "quiet"); err == nil {
		t.Error("no rackd's URL, and no error")
	}
	masked := guarded{once{}, &run{Agent: a}}
	if _, err := session.Lookup(t.Context(), a.Log, masked, func() []string { return nil }, "", ""); !errors.Is(err, session.ErrNoToken) {
		t.Errorf("masked token: %v", err)
	}
	a.Faults.Isolate(true)
	told := a.Journal.Counts(a.Machine)[journal.LookupFailed]
	if _, _, err := masked.Lookup(t.Context(), nil, ""); !errors.Is(err, fault.ErrIsolated) || a.Journal.Counts(a.Machine)[journal.LookupFailed] != told+1 {
		t.Errorf("isolated: %v, and the journal says %v", err, a.Journal.After(0, 0))
	}
}

// once is a rackd that has given the token already.
type once struct{ session.Rackd }

func (once) Lookup(context.Context, []string, string) (agentapi.LookupReply, time.Time, error) {
	return agentapi.LookupReply{Node: agentapi.LookupNode{UUID: "n"}, Config: agentapi.LookupConfig{AgentToken: agentapi.Masked}}, time.Time{}, nil
}
