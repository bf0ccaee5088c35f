package fleet_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/virtual/fleet"
	"github.com/ironyard/ironyard/ops/virtual/fleet/journal"
	"github.com/ironyard/ironyard/protocol/provision"
)

// stranger is somebody on the provisioning network, without an account, who knows a machine's MAC
// address and its node's UUID, and has an agent of its own.
type stranger struct {
	*rig
	mac, node string
	http      *http.Client
	agent     *httptest.Server
	ca        string

	mu       sync.Mutex
	tokens   map[string]string // that it was told, and by which way
	sent     []string          // what its agent was sent
	accepted []string          // its heartbeats
	asked    map[int]int       // how often it was answered with a status
}

func newStranger(t *testing.T, r *rig, mac, node string) *stranger {
	s := &stranger{rig: r, mac: mac, node: node, tokens: map[string]string{}, asked: map[int]int{},
		http: &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}}
	s.agent = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(io.LimitReader(q.Body, 1<<20))
		s.mu.Lock()
		defer s.mu.Unlock()
		s.sent = append(s.sent, q.Method+" "+q.URL.Path+" "+string(body[:min(len(body), 200)]))
		w.WriteHeader(http.StatusNotFound)
	}))
	t.Cleanup(s.agent.Close)
	t.Cleanup(s.http.CloseIdleConnections)
	s.ca = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.agent.Certificate().Raw}))
	return s
}

// ask sends a request without any credentials.
func (s *stranger) ask(ctx context.Context, method, url string, body any) (int, string) {
	raw, _ := json.Marshal(body)
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(raw))
	if err != nil {
		s.t.Error(err)
		return 0, ""
	}
	req.Header.Set("X-OpenStack-Ironic-API-Version", "1.68")
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.http.Do(req)
	if err != nil {
		return 0, ""
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[resp.StatusCode]++
	return resp.StatusCode, string(text)
}

// lookup asks at an API, and calls there with the token that it is told, if any.
func (s *stranger) lookup(ctx context.Context, way, base string) {
	for _, query := range []string{"addresses=" + s.mac, "node_uuid=" + s.node} {
		var told struct {
			Config struct {
				Token string `json:"agent_token"`
			} `json:"config"`
		}
		if _, text := s.ask(ctx, "GET", base+"/v1/lookup?"+query, nil); json.Unmarshal([]byte(text), &told) == nil && len(told.Config.Token) > 6 {
			s.mu.Lock()
			s.tokens[way] = told.Config.Token
			s.mu.Unlock()
		}
		for _, token := range []string{told.Config.Token, "******", "guess"} {
			beat := map[string]any{"callback_url": s.agent.URL, "agent_version": "9", "agent_token": token, "agent_verify_ca": s.ca}
			if status, _ := s.ask(ctx, "POST", base+"/v1/heartbeat/"+s.node, beat); status == http.StatusAccepted {
				s.mu.Lock()
				s.accepted = append(s.accepted, way)
				s.mu.Unlock()
			}
		}
	}
}

var bootURL = regexp.MustCompile(`ipa-api-url=(\S+)`)

// attack asks for all that there is, at the API and at both rackds. What a rack's script says is used only
// while the machine's own agent works: a rack without DHCP cannot know who asks before.
func (s *stranger) attack(ctx context.Context, working bool) {
	api := s.stack.Endpoint
	for _, query := range []string{"port_address=" + s.mac, "node_uuid=" + s.node} {
		_, script := s.ask(ctx, "GET", api+"/v1/drivers/redfish/vendor_passthru/ipxe_config?"+query, nil)
		s.follow(ctx, "the API's script", script)
	}
	s.lookup(ctx, "the API", api)
	for _, d := range s.rackd {
		for _, query := range []string{"mac=" + s.mac, "uuid=" + s.node} {
			_, script := s.ask(ctx, "GET", "http://"+d.address+":8080/boot/script?"+query, nil)
			if working {
				s.follow(ctx, "the rack's script", script)
			}
		}
		s.lookup(ctx, "the rack", "https://"+d.address+":6386")
	}
}

// follow calls the URLs that a script gives to agents.
func (s *stranger) follow(ctx context.Context, way, script string) {
	if m := bootURL.FindStringSubmatch(script); m != nil {
		for base := range strings.SplitSeq(m[1], ",") {
			s.lookup(ctx, way, base)
		}
	}
}

// A stranger asks for scripts and lookups and sends heartbeats for as long as a deploy takes. It is told no
// token, is sent nothing, and the deploy ends as it does without it.
func TestStranger(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	c := fleet.Default
	c.Machines = 1
	c.Timings.Write = 5 * time.Second
	r := newRig(ctx, t, c)
	m := r.fleet.Members[0]
	e := r.fleet.Enrolment(m)
	e.Clean = false
	id, err := r.o.Enrol(ctx, e)
	if err != nil {
		t.Fatal(err)
	}
	r.nodes[m.Name] = id
	if err := r.o.MakeAvailable(ctx, id); err != nil {
		t.Fatal(err)
	}
	if err := r.setImage(ctx, m, id); err != nil {
		t.Fatal(err)
	}
	deploy := func() time.Duration {
		t.Helper()
		began := time.Now()
		if err := r.o.Ask(ctx, id, "active", map[string]any{"meta_data": map[string]any{"hostname": "h"}, "user_data": "TENANT-SECRET"}); err != nil {
			t.Fatal(err)
		}
		n, err := r.o.Wait(ctx, id, provision.Active)
		if err != nil {
			t.Fatalf("%v\n%s", err, r.story(m))
		}
		if n.LastError != "" {
			t.Errorf("last error %q", n.LastError)
		}
		return time.Since(began)
	}
	alone := deploy()
	if err := r.undeploy(ctx, m, id, false); err != nil {
		t.Fatal(err)
	}
	if err := r.setImage(ctx, m, id); err != nil {
		t.Fatal(err)
	}
	s := newStranger(t, r, e.MACs[0], id)
	from := r.fleet.Journal.Last()
	attacking, end := context.WithCancel(ctx)
	over := make(chan struct{})
	go func() {
		defer close(over)
		for attacking.Err() == nil {
			working := false
			for _, record := range r.fleet.Journal.After(from, 0) {
				working = working || record.Kind == journal.WriteBegun
			}
			s.attack(attacking, working)
		}
	}()
	attacked := deploy()
	end()
	<-over
	t.Logf("a deploy takes %s alone and %s beside the stranger, who was answered %v", alone.Round(time.Millisecond), attacked.Round(time.Millisecond), s.asked)
	if len(s.tokens) > 0 || len(s.sent) > 0 || len(s.accepted) > 0 {
		t.Errorf("the stranger was told tokens by %v, its agent was sent %q, its heartbeats were accepted by %v", s.tokens, s.sent, s.accepted)
	}
	if attacked > 2*alone+10*time.Second {
		t.Errorf("a deploy takes %s beside the stranger, and %s without it", attacked, alone)
	}
	r.audited()
}
