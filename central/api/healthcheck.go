package api

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

// healthcheckPath is where load balancers ask whether requests should come here. As in
// Ironic it lies beside the API: it knows no versions, and nobody has to say who they are.
const healthcheckPath = "/healthcheck"

// healthcheckWithin bounds the question to the database.
const healthcheckWithin = 5 * time.Second

// healthcheck answers 200 if the database can be used, else 503. What is wrong with it
// is in the log, not in an answer for everybody.
func (s *Server) healthcheck(w http.ResponseWriter, req *http.Request) {
	if req.Method != http.MethodGet && req.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	ctx, cancel := context.WithTimeout(req.Context(), healthcheckWithin)
	defer cancel()
	status, reason := http.StatusOK, "OK"
	if err := s.Store.Ping(ctx); err != nil {
		status, reason = http.StatusServiceUnavailable, "the database does not answer"
		s.Log.Warn("not healthy", "error", err)
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
