package attack

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ironyard/ironyard/agent/commandapi"
	"github.com/ironyard/ironyard/ops/virtual/fleet/control"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

// puppet is an attacker's program in the place of a machine's agent: the machine is theirs. It calls from the
// machine's address, with the token of the boot.
type puppet struct {
	e     *enrolled
	rackd string // where it calls
	token string
	url   string // of its command API
	ca    string // the certificate of that, PEM
	cert  tls.Certificate

	mu     sync.Mutex
	asked  int
	drives []string // config drives that it was sent
}

// newPuppet cuts off the machine's own firmware and agent.
func newPuppet(ctx context.Context, t *testing.T, e *enrolled, rackd string) *puppet {
	t.Helper()
	isolated := true
	if err := e.fleet.SetFaults(ctx, e.Name(), control.Faults{Isolate: &isolated}); err != nil {
		t.Fatal(err)
	}
	p := &puppet{e: e, rackd: addresses[rackd]}
	var err error
	if p.cert, p.ca, err = commandapi.NewCertificate(time.Now(), e.host.Addr.AsSlice()); err != nil {
		t.Fatal(err)
	}
	return p
}

// boots asks for the boot script until it boots the ramdisk, and looks the machine up. It may look on a while after that:
// a script may be of the boot before.
func (p *puppet) boots(ctx context.Context, limit time.Duration) error {
	return until(ctx, limit, func(ctx context.Context) error {
		_, script, err := newCaller(p.e.host, "http://"+p.rackd+":8080").do(ctx, "GET", "/boot/script?mac="+p.e.MAC, nil)
		if err != nil {
			return err
		}
		found := bootID.FindStringSubmatch(script)
		if found == nil {
			return fmt.Errorf("the script boots no ramdisk: %.200q", script)
		}
		door := agentapi.WithBoot(p.door(), found[1])
		status, body, err := newCaller(p.e.host, door).do(ctx, "GET", agentapi.LookupPath+"?addresses="+url.QueryEscape(p.e.MAC), nil)
		var reply agentapi.LookupReply
		if err == nil {
			err = json.Unmarshal([]byte(body), &reply)
		}
		if err != nil || status != http.StatusOK || reply.Config.AgentToken == "" {
			return fmt.Errorf("lookup: %d %.200s %w", status, body, errors.Join(err, errNotYet))
		}
		p.token = reply.Config.AgentToken
		return nil
	})
}

func (p *puppet) door() string { return fmt.Sprintf("https://%s:%d", p.rackd, agentDoorPort) }

// beat is a heartbeat; taken reports whether it was.
func (p *puppet) beat(ctx context.Context) (taken bool) {
	status, _, err := newCaller(p.e.host, p.door()).do(ctx, "POST", agentapi.HeartbeatPath+p.e.id,
		agentapi.Heartbeat{CallbackURL: p.url, AgentVersion: "9", AgentToken: p.token, AgentVerifyCA: p.ca, BootID: "puppet"})
	return err == nil && status/100 == 2
}

// beats calls on and on, until ctx ends, and returns how many calls were taken.
func (p *puppet) beats(ctx context.Context, every time.Duration) (taken int) {
	for tick := time.NewTicker(every); ; {
		if p.beat(ctx) {
			taken++
		}
		select {
		case <-ctx.Done():
			return taken
		case <-tick.C:
		}
	}
}

// serve has a handler answer rackd's commands, over TLS with the certificate that the heartbeats name.
func (p *puppet) serve(t *testing.T, h http.HandlerFunc) {
	t.Helper()
	srv := &http.Server{Handler: h, TLSConfig: &tls.Config{Certificates: []tls.Certificate{p.cert}}, ReadHeaderTimeout: 5 * time.Second,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)}
	go srv.ServeTLS(p.listen(t), "", "")
	t.Cleanup(func() { srv.Close() })
}

// listen names a new port as that of the command API.
func (p *puppet) listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := p.e.host.Listen("tcp", p.e.host.At(0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	p.url = "https://" + l.Addr().String()
	return l
}

// obey says yes to every command and keeps the config drives.
func (p *puppet) obey(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // what is cut off cannot be read below
	drive, answer := obeyed(r, body)
	p.mu.Lock()
	p.asked++
	if drive != "" {
		p.drives = append(p.drives, drive)
	}
	p.mu.Unlock()
	answer(w)
}

// obeyed returns the config drive in a command, if there is one, and the answer that it is done.
func obeyed(r *http.Request, body []byte) (drive string, answer func(http.ResponseWriter)) {
	var c struct {
		Name   string `json:"name"`
		ID     string `json:"ironyard_id"`
		Params struct {
			ConfigDrive string `json:"configdrive"`
		} `json:"params"`
	}
	json.Unmarshal(body, &c)
	return c.Params.ConfigDrive, func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodGet {
			w.WriteHeader(http.StatusNotFound)
			io.WriteString(w, "{}")
			return
		}
		// It has no steps of its own: a flow asks for those first.
		fmt.Fprintf(w, `{"id":%q,"command_name":%q,"command_status":"SUCCEEDED","command_result":{"root_device":"/dev/sda","deploy_steps":{"generic_hardware_manager":[]},"hardware_manager_version":{"generic_hardware_manager":"1"}}}`, c.ID, c.Name)
	}
}

// raw has f talk on each connection to the command API.
func (p *puppet) raw(t *testing.T, f func(net.Conn)) {
	l := p.listen(t)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); f(c) }()
		}
	}()
}

// uncallable are the agents that call and cannot be called.
var uncallable = []struct {
	what  string
	serve func(t *testing.T, p *puppet)
}{
	{"its port is closed", func(t *testing.T, p *puppet) { p.listen(t).Close() }},
	{"it accepts and is silent", func(t *testing.T, p *puppet) {
		p.raw(t, func(c net.Conn) { io.Copy(io.Discard, c) })
	}},
	{"it answers garbage", func(t *testing.T, p *puppet) {
		p.raw(t, func(c net.Conn) { io.WriteString(c, strings.Repeat("\x00\xffgarbage", 1000)) })
	}},
	{"it answers JSON that is no answer", func(t *testing.T, p *puppet) {
		p.serve(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, `{"commands":7,"id":[]}`) })
	}},
	{"its answer does not end", func(t *testing.T, p *puppet) {
		p.serve(t, func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, `{"commands":[{"id":"`)
			for block := make([]byte, 64<<10); r.Context().Err() == nil; {
				for i := range block {
					block[i] = 'a'
				}
				if _, err := w.Write(block); err != nil {
					return
				}
			}
		})
	}},
	{"its answer trickles", func(t *testing.T, p *puppet) {
		p.serve(t, func(w http.ResponseWriter, r *http.Request) {
			for tick := time.NewTicker(200 * time.Millisecond); ; {
				if _, err := io.WriteString(w, " "); err != nil {
					return
				}
				w.(http.Flusher).Flush()
				select {
				case <-r.Context().Done():
					return
				case <-tick.C:
				}
			}
		})
	}},
}

// endsWithin is how long after a deploy's beginning rackd-d's deadlines have passed for sure: those of two states, and its questions.
const endsWithin = 75 * time.Second

// An agent calls with the right token, and rackd cannot call it, or is answered nothing that it can use. The deploy ends at its
// deadline, says so, and the node is free again.
func TestAgentThatCannotBeCalled(t *testing.T) {
	long(t)
	y, ctx := theYard(t), t.Context()
	t.Parallel()
	y.lateRackd(ctx, t, "rackd-d", siteName, groupD)
	rackd := y.rackds["rackd-d"]
	before, pid := memory(t, rackd, "VmRSS"), rackd.PID()
	forgetPeak(t, rackd)
	var all sync.WaitGroup
	for i, agent := range uncallable {
		m, err := y.startMachine(ctx, fmt.Sprintf("odd%d", i), networkOf(3, i), "rackd-d")
		if err != nil {
			t.Fatal(err)
		}
		e := y.enrolMachine(ctx, t, m, groupD, nil)
		y.available(ctx, t, e)
		p := newPuppet(ctx, t, e, "rackd-d")
		agent.serve(t, p)
		y.deploy(ctx, t, e)
		all.Go(func() {
			reached, held := y.cannotBeCalled(ctx, p)
			judge(t, line{22, oddAgent, "it calls, and " + agent.what, reached, "the deploy fails at its deadline and names the agent, the node is free", !held})
		})
	}
	all.Wait()
	const allowed = 150 // MiB
	more := memory(t, rackd, "VmHWM") - before
	judge(t, line{22, oddAgent, "all of these at once", fmt.Sprintf("rackd grows by %d MiB, the same process: %t", more, pid == rackd.PID()), fmt.Sprintf("%d MiB", allowed),
		more > allowed || pid != rackd.PID()})
}

// cannotBeCalled has a puppet call for as long as its deploy lasts, and says what came of that.
func (y *yard) cannotBeCalled(ctx context.Context, p *puppet) (reached string, held bool) {
	began := time.Now()
	if err := p.boots(ctx, 30*time.Second); err != nil {
		return "it did not boot: " + err.Error(), false
	}
	calling, stop := context.WithCancel(ctx)
	defer stop()
	taken := make(chan int, 1)
	go func() { taken <- p.beats(calling, 500*time.Millisecond) }()
	n, err := y.settled(ctx, p.e, endsWithin)
	took := time.Since(began)
	stop()
	calls := <-taken
	if err != nil {
		return fmt.Sprintf("%d calls taken, no end within %s: it is %s", calls, endsWithin, n.State), false
	}
	reached = fmt.Sprintf("%d calls taken, %s after %.0f s: %.200s", calls, n.State, took.Seconds(), n.LastError)
	if calls == 0 || n.State != "deploy failed" || !strings.Contains(n.LastError, "agent at "+p.url) && !strings.Contains(n.LastError, "agent "+p.url) {
		return reached, false
	}
	if err = y.operator.provision(ctx, p.e.id, "deleted", nil); err == nil {
		err = y.operator.awaits(ctx, p.e.id, "available", 40*time.Second)
	}
	if err != nil {
		return reached + "; not freed: " + err.Error(), false
	}
	return reached, true
}
