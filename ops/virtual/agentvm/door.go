package agentvm

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/agentapi"
)

// token is the agent's.
const token = "s3cret-token"

// Door is what the booted agent talks to: it knows one machine, and serves files.
type Door struct {
	t     testing.TB
	files map[string][]byte // by name

	mu    sync.Mutex
	beats []agentapi.Heartbeat
	logs  bytes.Buffer
	news  chan struct{}
}

// ServeHTTP implements http.Handler.
func (d *Door) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(io.LimitReader(q.Body, 8<<20))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if file, served := d.files[strings.TrimPrefix(q.URL.Path, "/")]; served {
		http.ServeContent(w, q, "", time.Time{}, bytes.NewReader(file))
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case q.URL.Path == agentapi.LookupPath && strings.Contains(q.URL.Query().Get("addresses"), MAC):
		json.NewEncoder(w).Encode(agentapi.LookupReply{Node: agentapi.LookupNode{UUID: "node-1"}, Config: agentapi.LookupConfig{HeartbeatTimeout: 300, AgentToken: token, AgentTokenRequired: true}})
	case q.URL.Path == agentapi.HeartbeatPath+"node-1":
		var h agentapi.Heartbeat
		if err := json.Unmarshal(body, &h); err != nil || h.AgentToken != token {
			http.Error(w, "bad heartbeat", http.StatusBadRequest)
			return
		}
		d.beats = append(d.beats, h)
		close(d.news)
		d.news = make(chan struct{})
		w.WriteHeader(http.StatusAccepted)
	case q.URL.Path == agentapi.LogPath+"node-1":
		d.logs.Write(body)
	default:
		http.NotFound(w, q)
	}
}

// Logs are what the agent has sent of its log.
func (d *Door) Logs() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.logs.String()
}

// Await returns the first heartbeat that is like that.
func (d *Door) Await(ctx context.Context, what string, like func(agentapi.Heartbeat) bool) agentapi.Heartbeat {
	d.t.Helper()
	for seen := 0; ; {
		d.mu.Lock()
		news := d.news
		for ; seen < len(d.beats); seen++ {
			if like(d.beats[seen]) {
				h := d.beats[seen]
				d.mu.Unlock()
				return h
			}
		}
		d.mu.Unlock()
		select {
		case <-news:
		case <-ctx.Done():
			d.t.Fatalf("no heartbeat with %s: %v", what, context.Cause(ctx))
		}
	}
}
