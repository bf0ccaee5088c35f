package ramdisk

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"

	"github.com/ironyard/ironyard/ops/virtual/fleet/journal"
	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/work"
)

// noted writes each command that is posted into the journal, with the work and epoch
// that its sender names, before it has an effect. A machine that is cut off hangs up.
func (r *run) noted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if r.Faults.Network() != nil {
			panic(http.ErrAbortHandler)
		}
		if q.Method != http.MethodPost {
			next.ServeHTTP(w, q)
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, q.Body, maxRequest))
		if err != nil {
			http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
			return
		}
		q.Body = io.NopCloser(bytes.NewReader(body))
		var c agentapi.CommandRequest
		_ = json.Unmarshal(body, &c) // the agent itself says what is wrong with it
		answered := r.Journal.Note(journal.Record{Machine: r.Machine, Kind: journal.CommandAsked, Boot: r.boot, Command: c.ID, Detail: c.Name,
			Work: q.Header.Get(work.IDHeader), Epoch: q.Header.Get(work.EpochHeader)})
		status := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		defer func() { answered(status.status) }()
		next.ServeHTTP(status, q)
	})
}

type statusWriter struct {
	http.ResponseWriter
	status int
}

func (s *statusWriter) WriteHeader(code int) {
	s.status = code
	s.ResponseWriter.WriteHeader(code)
}
