package rackclient

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/ironyard/ironyard/protocol/agentapi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func rackd(t *testing.T, h http.HandlerFunc) (url, fingerprint string) {
	s := httptest.NewTLSServer(h)
	t.Cleanup(s.Close)
	sum := sha256.Sum256(s.Certificate().Raw)
	return s.URL, hex.EncodeToString(sum[:])
}

func client(t *testing.T, fingerprint string, urls ...string) *Client {
	t.Helper()
	c, err := New(urls, fingerprint)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestLookupHeartbeatLog(t *testing.T) {
	url, pin := rackd(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case r.Method == "GET" && r.URL.Path == agentapi.LookupPath && r.URL.Query().Get("addresses") == "a,b" && r.URL.Query().Get("node_uuid") == "n-1" && r.Header.Get(agentapi.APIVersionHeader) == agentapi.APIVersion:
			io.WriteString(w, `{"node":{"uuid":"n-1"},"config":{"heartbeat_timeout":30,"agent_token":"t"}}`)
		case r.Method == "POST" && r.URL.Path == "/v1/heartbeat/n-1":
			var h agentapi.Heartbeat
			if json.Unmarshal(body, &h) != nil || h.AgentToken != "t" {
				w.WriteHeader(400)
			}
			w.WriteHeader(202)
		case r.Method == "POST" && r.URL.Path == "/v1/ironyard/log/n-1" && r.Header.Get(TokenHeader) == "t" && string(body) == "line\n":
			w.WriteHeader(204)
		default:
			http.Error(w, "unexpected "+r.URL.String(), 400)
		}
	})
	c := client(t, pin, url)
	reply, date, err := c.Lookup(t.Context(), []string{"a", "b"}, "n-1")
	if err != nil || reply.Config.AgentToken != "t" || date.IsZero() {
		t.Errorf("%+v, %v, %v", reply, date, err)
	}
	if err := c.Heartbeat(t.Context(), "n-1", agentapi.Heartbeat{AgentToken: "t"}); err != nil {
		t.Error(err)
	}
	if err := c.SendLog(t.Context(), "n-1", "t", []byte("line\n")); err != nil {
		t.Error(err)
	}
}

func TestWrongCertificateIsRefused(t *testing.T) {
	url, _ := rackd(t, func(http.ResponseWriter, *http.Request) { t.Error("the request got through") })
	_, _, err := client(t, strings.Repeat("ab", 32), url).Lookup(t.Context(), nil, "")
	if err == nil || !strings.Contains(err.Error(), "fingerprint") {
		t.Errorf("error %v", err)
	}
}

func TestURLsInTurn(t *testing.T) {
	good, pin := rackd(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"node":{"uuid":"n"}}`) })
	dead := httptest.NewTLSServer(nil)
	dead.Close()
	if _, _, err := client(t, pin, dead.URL, good).Lookup(t.Context(), nil, ""); err != nil {
		t.Error(err)
	}
	missing, pin := rackd(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no such node", 404) })
	_, _, err := client(t, pin, missing, good).Lookup(t.Context(), nil, "")
	var s *StatusError
	if !errors.As(err, &s) || s.Code != 404 || !strings.Contains(err.Error(), "no such node") {
		t.Errorf("error %v", err)
	}
}

func TestNewRefuses(t *testing.T) {
	if _, err := New(nil, strings.Repeat("ab", 32)); err == nil || !strings.Contains(err.Error(), agentapi.ParamAPIURL) {
		t.Errorf("no URL: %v", err)
	}
	if _, err := New([]string{"https://x"}, ""); err == nil || !strings.Contains(err.Error(), agentapi.ParamAPIFingerprint) {
		t.Errorf("no fingerprint: %v", err)
	}
}

func FuzzLookupReply(f *testing.F) {
	f.Add([]byte(`{"node":{"uuid":"n","properties":{}},"config":{"heartbeat_timeout":300,"agent_token":"x"}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if r, err := parseLookup(body); err == nil && (r.Node.UUID == "" || strings.Contains(r.Node.UUID, "/")) {
			t.Errorf("node %q", r.Node.UUID)
		}
	})
}
