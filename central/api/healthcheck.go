package api

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"
)

// healthcheckPath is where load balancers ask whether requests should come here. As in
// Ironic it lies beside the API: it knows no versions, and nobody has to say who they are.
const healthcheckPath = "/healthcheck"

// healthcheckWithin bounds the question to the database.
const healthcheckWithin = 5 * time.Second

// health asks the database for all who want to know, one question at a time: anybody may ask. It is safe for
// concurrent use.
type health struct {
	mu    sync.Mutex
	began time.Time // when it was asked last
	err   error     // what it answered
}

// look returns the answer of ping to a question that was asked after look was called.
func (h *health) look(ctx context.Context, ping func(context.Context) error) error {
	came := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.began.After(came) {
		return h.err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), healthcheckWithin)
	defer cancel()
	h.began = time.Now()
	h.err = ping(ctx)
	return h.err
}

// healthcheck answers 200 if the database can be used, else 503. What is wrong with it
// is in the log, not in an answer for everybody.
func (s *Server) healthcheck(w http.ResponseWriter, req *http.Request) {
	if req.Method != http.MethodGet && req.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	ctx := req.Context()
	status, reason := http.StatusOK, "OK"
	if err := s.health.look(ctx, s.Store.Ping); err != nil {
		status, reason = http.StatusServiceUnavailable, "the database does not answer"
		s.outage.begun(s.Log, err)
	} else {
		s.usable(ctx)
	}
	body, kind := []byte(reason), plainText
	if strings.Contains(req.Header.Get("Accept"), "application/json") {
		kind = "application/json"
		// It cannot fail: texts and a bool.
		body, _ = json.Marshal(map[string]any{"detailed": false, "reasons": []string{reason}})
	}
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	if req.Method == http.MethodGet {
		w.Write(body) // the client is gone when it fails
	}
}
