package agentvm

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/agentapi"
)

// Agent speaks to the agent in the machine. It is for one goroutine.
type Agent struct {
	t    testing.TB
	door *Door
	http *http.Client
	base string
	runs int
}

func newAgent(t testing.TB, door *Door, h agentapi.Heartbeat, port int) *Agent {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(h.AgentVerifyCA)) {
		t.Fatal("the heartbeat brings no certificate")
	}
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "10.0.2.15"}}
	t.Cleanup(tr.CloseIdleConnections)
	return &Agent{t: t, door: door, http: &http.Client{Transport: tr, Timeout: time.Minute}, base: fmt.Sprintf("https://127.0.0.1:%d", port)}
}

// Post orders a command and does not wait for its end.
func (a *Agent) Post(ctx context.Context, name, id string, params any) agentapi.Command {
	a.t.Helper()
	raw, err := json.Marshal(params)
	if err != nil {
		a.t.Fatal(err)
	}
	body, err := json.Marshal(agentapi.CommandRequest{Name: name, Params: raw, ID: id})
	if err != nil {
		a.t.Fatal(err)
	}
	return a.ask(ctx, name, http.MethodPost, "?wait=false&agent_token="+token, body)
}

// Run orders a command, learns its end by heartbeat, which says nothing of its result, and asks for
// that.
func (a *Agent) Run(ctx context.Context, name string, params any) agentapi.Command {
	a.t.Helper()
	a.runs++
	id := fmt.Sprintf("%d-%s", a.runs, name)
	a.Post(ctx, name, id, params)
	a.door.Await(ctx, "the end of "+name, func(h agentapi.Heartbeat) bool {
		return h.Command != nil && h.Command.ID == id && h.Command.Status != agentapi.CommandRunning
	})
	return a.ask(ctx, name, http.MethodGet, id+"?agent_token="+token, nil)
}

// ask sends a request about commands, whose answer is one.
func (a *Agent) ask(ctx context.Context, name, method, at string, body []byte) (c agentapi.Command) {
	a.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, a.base+agentapi.CommandsPath+at, bytes.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	resp, err := a.http.Do(req)
	if err != nil {
		a.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode == http.StatusOK {
		err = json.Unmarshal(text, &c)
	}
	if err != nil || resp.StatusCode != http.StatusOK {
		a.t.Fatalf("%s: %d %s %v", name, resp.StatusCode, text, err)
	}
	return c
}
