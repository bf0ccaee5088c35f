package commandapi

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ironyard/ironyard/agent/command"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const token = "tok-en"

func server(t testing.TB, release chan struct{}) *Server {
	log := slog.New(slog.DiscardHandler)
	r := command.NewRunner(log,
		command.Spec{Name: "test.now", Run: func(context.Context, command.Call) (any, error) { return "done", nil }},
		command.Spec{Name: "test.slow", Async: true, Run: func(ctx context.Context, _ command.Call) (any, error) {
			select {
			case <-release:
			case <-ctx.Done():
			}
			return nil, nil
		}})
	t.Cleanup(r.Close)
	return &Server{Runner: r, Token: token, Version: "1.2", StartedAt: time.Unix(0, 0).UTC(), Log: log}
}

func ask(h http.Handler, method, target, body string) (int, string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, target, strings.NewReader(body)))
	return w.Code, w.Body.String()
}

func TestRoutes(t *testing.T) {
	release := make(chan struct{})
	h := server(t, release).Handler()
	tok := "?agent_token=" + token
	for _, c := range []struct {
		method, target, body string
		code                 int
		want                 string
	}{
		{"GET", "/", "", 200, `"default_version"`},
		{"GET", "/v1", "", 200, `"commands"`},
		{"GET", "/v1/", "", 200, `"media_types"`},
		{"GET", "/v1/status", "", 200, `"version":"1.2"`},
		{"GET", "/status", "", 200, `"started_at":"1970-01-01T00:00:00Z"`},
		{"GET", "/v1/commands/", "", 401, `"faultstring":"Token invalid."`},
		{"GET", "/v1/commands/?agent_token=wrong", "", 401, `"faultcode":"Client"`},
		{"POST", "/v1/commands/", `{"name":"test.now"}`, 401, "Token"},
		{"GET", "/v1/commands/" + tok, "", 200, `{"commands":[]}`},
		{"POST", "/v1/commands/" + tok, `{"name":"test.now","params":{},"ironyard_id":"c1"}`, 200, `"command_status":"SUCCEEDED","command_error":null,"command_result":{"result":"done"}`},
		{"GET", "/commands/c1" + tok + "&wait=true", "", 200, `"id":"c1"`},
		{"GET", "/v1/commands/c9" + tok, "", 404, "faultstring"},
		{"POST", "/commands" + tok, `{"name":"test.none"}`, 404, "test.none"},
		{"POST", "/commands/" + tok, `{"name":`, 400, "faultstring"},
		{"POST", "/commands/" + tok, `{}`, 400, "name"},
		{"POST", "/v1/commands/" + tok + "&wait=false", `{"name":"test.slow","ironyard_id":"c2"}`, 200, "RUNNING"},
		{"POST", "/v1/commands/" + tok, `{"name":"test.now"}`, 409, "test.slow"},
		{"POST", "/v1/commands/" + tok, `{"name":"test.slow","ironyard_id":"c2"}`, 200, "RUNNING"},
		{"GET", "/nowhere", "", 404, "faultstring"},
		{"DELETE", "/v1/commands/c1" + tok, "", 404, "faultstring"},
	} {
		if code, got := ask(h, c.method, c.target, c.body); code != c.code || !strings.Contains(got, c.want) {
			t.Errorf("%s %s: %d %s\nwant %d with %s", c.method, c.target, code, got, c.code, c.want)
		}
	}
	close(release)
	if code, got := ask(h, "GET", "/v1/commands/c2"+tok+"&wait=true", ""); code != 200 || !strings.Contains(got, "SUCCEEDED") {
		t.Errorf("waited: %d %s", code, got)
	}
}

func TestWithoutTokenNothingIsOpen(t *testing.T) {
	s := server(t, nil)
	s.Token = ""
	if code, _ := ask(s.Handler(), "GET", "/v1/commands/?agent_token=", ""); code != 401 {
		t.Errorf("answered %d", code)
	}
}

type endless struct{ start io.Reader }

func (e *endless) Read(p []byte) (int, error) {
	if n, err := e.start.Read(p); err == nil {
		return n, nil
	}
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func TestBodyIsBounded(t *testing.T) {
	w := httptest.NewRecorder()
	r := httptest.NewRequest("POST", "/v1/commands/?agent_token="+token, &endless{strings.NewReader(`{"name":"`)})
	s := server(t, nil)
	s.Limit = 1 << 20
	s.Handler().ServeHTTP(w, r)
	if w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("answered %d", w.Code)
	}
}

func TestCertificateServesItsAddress(t *testing.T) {
	cert, text, err := NewCertificate(time.Now(), net.IPv4(127, 0, 0, 1))
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(server(t, nil).Handler())
	s.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	s.StartTLS()
	defer s.Close()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(text)) {
		t.Fatal("no certificate in the PEM")
	}
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
	defer tr.CloseIdleConnections()
	resp, err := (&http.Client{Transport: tr}).Get(s.URL + "/v1/status")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
}

func FuzzCommandBody(f *testing.F) {
	f.Add([]byte(`{"name":"test.now","params":{},"ironyard_id":"x"}`))
	f.Add([]byte(`[]`))
	h := server(f, nil).Handler()
	f.Fuzz(func(t *testing.T, body []byte) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("POST", "/v1/commands/?agent_token="+token, bytes.NewReader(body)))
		var any map[string]any
		if err := json.Unmarshal(w.Body.Bytes(), &any); err != nil {
			t.Errorf("%d %q: %v", w.Code, w.Body, err)
		}
		var c agentapi.Command
		if w.Code == 200 && (json.Unmarshal(w.Body.Bytes(), &c) != nil || c.ID == "") {
			t.Errorf("no command in %q", w.Body)
		}
	})
}

// A rackd that stood still between its fence and its request sends it when it goes on. By then another has the work.
func TestLateCommandOfAnOwnerBeforeStartsNothing(t *testing.T) {
	h := server(t, nil).Handler()
	post := func(work, epoch, id string) (int, string) {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("POST", "/v1/commands/?agent_token="+token, strings.NewReader(`{"name":"test.now","ironyard_id":"`+id+`"}`))
		if work != "" {
			r.Header.Set("X-Ironyard-Work", work)
			r.Header.Set("X-Ironyard-Epoch", epoch)
		}
		h.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	for _, c := range []struct {
		work, epoch, id string
		code            int
		want            string
	}{
		{"w1", "1", "a", 200, "SUCCEEDED"},
		{"w1", "2", "b", 200, "SUCCEEDED"},
		{"w1", "1", "c", 409, "epoch 1"},
		{"w1", "2", "d", 200, "SUCCEEDED"},
		{"w2", "1", "e", 200, "SUCCEEDED"}, // another work counts its own
		{"", "", "f", 200, "SUCCEEDED"},    // ironic-python-agent's client
		{"w1", "0", "g", 200, "SUCCEEDED"},
		{"w1", "x", "h", 400, "number"},
	} {
		if code, got := post(c.work, c.epoch, c.id); code != c.code || !strings.Contains(got, c.want) {
			t.Errorf("%+v: %d %s", c, code, got)
		}
	}
	if _, list := ask(h, "GET", "/v1/commands/?agent_token="+token, ""); strings.Contains(list, `"id":"c"`) {
		t.Errorf("the late command was begun: %s", list)
	}
}
