package agentdoor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/smbios"
	"github.com/ironyard/ironyard/rackd/strangers"
)

var (
	errUnknown = errors.New("unknown")
	errToken   = errors.New("token")
)

// oneNode knows one machine.
type oneNode struct {
	beats []agentapi.Heartbeat
	asked ask.Lookup
}

const nodeID = "8a2bd6ae-1d6c-4c0c-9a3f-1d8b25a4c0de"

func (o *oneNode) LookupAgent(_ context.Context, q ask.Lookup) (agentapi.LookupReply, error) {
	o.asked = q
	if q.Node == nodeID || len(q.Addresses) == 1 && q.Addresses[0] == "52:54:00:00:00:01" {
		return agentapi.LookupReply{Node: agentapi.LookupNode{UUID: nodeID}, Config: agentapi.LookupConfig{AgentToken: "t"}}, nil
	}
	return agentapi.LookupReply{}, errUnknown
}

func (o *oneNode) Heartbeat(_ context.Context, node string, hb ask.Heartbeat) error {
	if err := o.CheckToken(node, hb.AgentToken); err != nil {
		return err
	}
	o.beats = append(o.beats, hb.Heartbeat)
	return nil
}

func (o *oneNode) CheckToken(node, token string) error {
	if node != nodeID || token != "t" {
		return errToken
	}
	return nil
}

func testDoor(o *oneNode, logs *bytes.Buffer) http.Handler {
	return New(o, func(err error) int {
		if errors.Is(err, errToken) {
			return http.StatusUnauthorized
		}
		return http.StatusNotFound
	}, strangers.New(strangers.Budget{}, nil, nil), slog.New(slog.NewTextHandler(logs, nil))).Handler()
}

func TestDoor(t *testing.T) {
	var logs bytes.Buffer
	o := &oneNode{}
	h := testDoor(o, &logs)
	for _, c := range []struct {
		method, path, body, token string
		want                      int
	}{
		{"GET", "/v1/lookup?addresses=52:54:00:00:00:01", "", "", 200},
		{"GET", "/v1/lookup?addresses=52-54-00-00-00-01", "", "", 200},
		{"GET", "/v1/lookup?node_uuid=" + nodeID, "", "", 200},
		{"GET", "/v1/lookup?addresses=52:54:00:00:00:02", "", "", 404},
		{"GET", "/v1/lookup?addresses=nonsense", "", "", 400},
		{"GET", "/v1/lookup?node_uuid=nonsense", "", "", 400},
		{"GET", "/v1/lookup", "", "", 400},
		{"GET", "/v1/lookup?addresses=" + strings.Repeat("52:54:00:00:00:01,", 200), "", "", 400},
		{"POST", "/v1/heartbeat/" + nodeID, `{"agent_token":"t"}`, "", 202},
		{"POST", "/v1/heartbeat/" + nodeID, `{"agent_token":"wrong"}`, "", 401},
		{"POST", "/v1/heartbeat/" + nodeID, `{`, "", 400},
		{"POST", "/v1/heartbeat/" + nodeID, `{"x":"` + strings.Repeat("x", maxHeartbeat) + `"}`, "", 400},
		{"POST", "/v1/ironyard/log/" + nodeID, "hello\n", "t", 202},
		{"POST", "/v1/ironyard/log/" + nodeID, "hello\n", "", 401},
		{"POST", "/v1/ironyard/log/" + nodeID, strings.Repeat("x", maxLog+1), "t", 413},
		// A stack, say; and all that an agent keeps while no rackd answers.
		{"POST", "/v1/ironyard/log/" + nodeID, strings.Repeat("y", 2*maxLine) + "\nbehind it\n", "t", 202},
		{"POST", "/v1/ironyard/log/" + nodeID, "(3 earlier lines are lost)\n" + strings.Repeat("a line\n", 256<<10/7), "t", 202},
	} {
		r := httptest.NewRequest(c.method, c.path, strings.NewReader(c.body))
		r.Header.Set(TokenHeader, c.token)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("%s %.60s: %d %s, want %d", c.method, c.path, w.Code, w.Body, c.want)
		}
		if c.want >= 400 {
			var outer, inner map[string]any
			if json.Unmarshal(w.Body.Bytes(), &outer) != nil || json.Unmarshal([]byte(outer["error_message"].(string)), &inner) != nil || inner["faultstring"] == "" {
				t.Errorf("%s %.60s: error body %s is not doubly encoded", c.method, c.path, w.Body)
			}
		}
	}
	if len(o.beats) != 1 {
		t.Errorf("%d heartbeats came through, want 1", len(o.beats))
	}
	for _, want := range []string{`line=hello`, "line=" + strings.Repeat("y", maxLine) + "\n", `line="behind it"`} {
		if !strings.Contains(logs.String(), want) {
			t.Errorf("the agent's line is not in the log: %.20s", want)
		}
	}
}

// What shows where a call comes from is told to who answers it: the id in the URL, the peer's address,
// and the machine. An agent that puts the API's paths behind its URL needs to know of none of that.
func TestCallerIsTold(t *testing.T) {
	o := &oneNode{}
	h := testDoor(o, &bytes.Buffer{})
	for path, want := range map[string]int{
		"/boot/s3cret/v1/lookup?node_uuid=" + nodeID + "&ironyard_system_uuid=U&ironyard_system_serial=S": 200,
		"/boot/s3cret/": 200, "/boot/s3cret": 200, "/": 200, "/boot/a/b/v1/lookup": 404, "/boot/": 404,
	} {
		r := httptest.NewRequest("GET", path, nil)
		r.RemoteAddr = "[::ffff:10.0.0.7]:4711"
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
	}
	if c := o.asked; c.BootID != "s3cret" || c.From.String() != "10.0.0.7" || c.Central || c.System != (smbios.System{UUID: "U", Serial: "S"}) {
		t.Errorf("told %+v", c)
	}
}

// Strangers may call as often as they like; each call is not a line in the log.
func TestRefusedCallsCostFewLines(t *testing.T) {
	var logs bytes.Buffer
	h := testDoor(&oneNode{}, &logs)
	for range 1000 {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/v1/lookup?addresses=52:54:00:00:00:02", nil))
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/v1/heartbeat/"+nodeID, strings.NewReader(`{"agent_token":"wrong"}`)))
	}
	if n := strings.Count(logs.String(), "\n"); n == 0 || n > 2*strangers.DefaultLines {
		t.Errorf("2000 refused calls made %d lines", n)
	}
}

func TestIdentityIsTheSameForTheWholeGroup(t *testing.T) {
	k, _ := seal.GenerateKey()
	a, err := NewIdentity(k)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := NewIdentity(k)
	other, _ := seal.GenerateKey()
	c, _ := NewIdentity(other)
	if a.Fingerprint != b.Fingerprint || a.Fingerprint == c.Fingerprint || len(a.Fingerprint) != 64 {
		t.Errorf("fingerprints %s, %s; of another group %s", a.Fingerprint, b.Fingerprint, c.Fingerprint)
	}
}

func FuzzHeartbeat(f *testing.F) {
	f.Add(nodeID, `{"agent_token":"x","callback_url":"https://1"}`)
	f.Add("..", `[]`)
	f.Fuzz(func(t *testing.T, id, body string) {
		o := &oneNode{}
		r := httptest.NewRequest("POST", agentapi.HeartbeatPath+"x", strings.NewReader(body))
		r.URL.Path = agentapi.HeartbeatPath + id
		testDoor(o, &bytes.Buffer{}).ServeHTTP(httptest.NewRecorder(), r)
		if len(o.beats) > 0 && !strings.Contains(body, `"t"`) {
			t.Errorf("heartbeat %s for %q came through without the token", body, id)
		}
	})
}

// What is for others than agents is served beside them, and nothing else of it.
func TestBeside(t *testing.T) {
	d := New(nil, nil, strangers.New(strangers.Budget{}, nil, nil), slog.New(slog.DiscardHandler))
	d.Beside("/others/", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	for path, want := range map[string]int{"/others/x": http.StatusTeapot, "/": http.StatusOK, "/else": http.StatusNotFound} {
		w := httptest.NewRecorder()
		d.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		if w.Code != want {
			t.Errorf("%s is answered %d, want %d", path, w.Code, want)
		}
	}
}
