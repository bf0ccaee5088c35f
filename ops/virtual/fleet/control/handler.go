package control

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/ironyard/ironyard/ops/virtual/fleet"
	"github.com/ironyard/ironyard/ops/virtual/fleet/audit"
	"github.com/ironyard/ironyard/ops/virtual/fleet/journal"
)

const (
	// maxPage bounds the records of one answer, maxWait the time until one.
	maxPage = 10_000
	maxWait = time.Minute
)

type server struct{ fleet *fleet.Fleet }

// Handler serves the API of f. Safe for concurrent use.
func Handler(f *fleet.Fleet) http.Handler {
	s := server{f}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /machines", s.machines)
	mux.HandleFunc("GET /machines/{name}", s.one(func(w http.ResponseWriter, _ *http.Request, m *fleet.Member) { reply(w, s.show(m)) }))
	mux.HandleFunc("PUT /machines/{name}/faults", s.one(func(w http.ResponseWriter, r *http.Request, m *fleet.Member) { s.faults(w, r, m) }))
	mux.HandleFunc("POST /machines/{name}/glitch", s.one(func(w http.ResponseWriter, _ *http.Request, m *fleet.Member) {
		if err := m.Machine.Glitch(); err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
			return
		}
		reply(w, s.show(m))
	}))
	mux.HandleFunc("PUT /faults", func(w http.ResponseWriter, r *http.Request) { s.faults(w, r, f.Members...) })
	mux.HandleFunc("PUT /rackds", s.rackds)
	mux.HandleFunc("GET /journal", s.journal)
	mux.HandleFunc("GET /journal/counts", func(w http.ResponseWriter, r *http.Request) { reply(w, f.Journal.Counts(r.URL.Query().Get("machine"))) })
	mux.HandleFunc("GET /audit", s.audit)
	return mux
}

func (s server) one(next func(http.ResponseWriter, *http.Request, *fleet.Member)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		m := s.fleet.Member(r.PathValue("name"))
		if m == nil {
			http.Error(w, fmt.Sprintf("no machine %q", r.PathValue("name")), http.StatusNotFound)
			return
		}
		next(w, r, m)
	}
}

func (s server) show(m *fleet.Member) Machine {
	out := Machine{Name: m.Name, UUID: m.UUID, MAC: m.MAC, Address: m.Address.String(), Status: m.Machine.Status(), Enrolment: s.fleet.Enrolment(m)}
	out.Disk, out.Image = m.Disk.Holds()
	return out
}

func (s server) machines(w http.ResponseWriter, _ *http.Request) {
	all := make([]Machine, len(s.fleet.Members))
	for i, m := range s.fleet.Members {
		all[i] = s.show(m)
	}
	reply(w, all)
}

func (s server) faults(w http.ResponseWriter, r *http.Request, of ...*fleet.Member) {
	var f Faults
	if !decode(w, r, &f) {
		return
	}
	for _, m := range of {
		set(f.BMCRefuse, m.BMC.Faults.Refuse)
		set(f.BMCHang, m.BMC.Faults.Hang)
		set(f.BMCCredentials, m.BMC.Faults.RejectCredentials)
		set(f.BMCErrors, m.BMC.Faults.Fail)
		set(f.Isolate, m.Faults.Isolate)
		set(f.FailWrites, m.Faults.FailWrites)
	}
	w.WriteHeader(http.StatusNoContent)
}

func set[T any](value *T, to func(T)) {
	if value != nil {
		to(*value)
	}
}

func (s server) rackds(w http.ResponseWriter, r *http.Request) {
	var urls []string
	if !decode(w, r, &urls) {
		return
	}
	s.fleet.Rackds.Set(urls)
	w.WriteHeader(http.StatusNoContent)
}

func (s server) journal(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	after, limit, wait := uint64(0), maxPage, time.Duration(0)
	var err error
	if v := q.Get("after"); v != "" {
		after, err = strconv.ParseUint(v, 10, 64)
	}
	if v := q.Get("limit"); v != "" && err == nil {
		limit, err = strconv.Atoi(v)
	}
	if v := q.Get("wait"); v != "" && err == nil {
		wait, err = time.ParseDuration(v)
	}
	if err != nil || limit < 1 {
		http.Error(w, fmt.Sprintf("after and limit are numbers, wait is a duration (%v)", err), http.StatusBadRequest)
		return
	}
	j := s.fleet.Journal
	ctx, cancel := context.WithTimeout(r.Context(), min(wait, maxWait))
	defer cancel()
	page := Page{Records: j.Await(ctx, after, min(limit, maxPage)), Forgotten: j.Forgotten()}
	if page.Last = j.Last(); page.Records == nil {
		page.Records = []journal.Record{}
	}
	reply(w, page)
}

func (s server) audit(w http.ResponseWriter, _ *http.Request) {
	if n := s.fleet.Journal.Forgotten(); n > 0 {
		http.Error(w, fmt.Sprintf("the journal has forgotten its first %d records; let it keep more", n), http.StatusConflict)
		return
	}
	found := audit.Check(s.fleet.Journal.After(0, 0))
	if found == nil {
		found = []audit.Finding{}
	}
	reply(w, found)
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // a client that left needs no answer
}

// decode reads a body; on failure it has answered and returns false.
func decode(w http.ResponseWriter, r *http.Request, into any) bool {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		http.Error(w, "the body cannot be read: "+err.Error(), http.StatusBadRequest)
		return false
	}
	return true
}
