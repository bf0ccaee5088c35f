package agentclient

import (
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/work"
)

// FuzzAnswers has an agent answer anything, with any status. What is taken for a
// command has an id.
func FuzzAnswers(f *testing.F) {
	f.Add(200, []byte(`{"id":"1","command_name":"deploy.x","command_status":"SUCCEEDED","command_result":{}}`))
	f.Add(200, []byte(`{"commands":[{"id":"1"}]}`))
	f.Add(500, []byte(`{"faultcode":"x","faultstring":"y"}`))
	f.Add(404, []byte(`[]`))
	var mu sync.Mutex
	var status int
	var answer []byte
	agent := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		w.Write(answer)
	}))
	f.Cleanup(agent.Close)
	state := &work.Agent{URL: agent.URL, LastSeen: time.Now(), VerifyCA: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: agent.Certificate().Raw}))}
	f.Fuzz(func(t *testing.T, code int, body []byte) {
		if code < 200 || code > 599 {
			return // no final status of HTTP
		}
		mu.Lock()
		status, answer = code, body
		mu.Unlock()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		c := New(Config{State: func() *work.Agent { return state }, Tokens: func() []string { return []string{token} }, Timeout: time.Second, Pause: time.Microsecond, Poll: time.Microsecond})
		if cmd, ok, err := c.Command(ctx, "1"); err == nil && ok && cmd.ID == "" {
			t.Errorf("%d %q became a command without id", code, body)
		}
		c.Commands(ctx) // an error or a list, never a panic
	})
}
