package daemon

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ironyard/ironyard/central/ingest"
	"github.com/ironyard/ironyard/central/metrics"
	"github.com/ironyard/ironyard/central/sites"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/central/strangers"
)

// observer answers how central is.
type observer struct {
	db        *store.Store
	sites     *sites.Set
	buses     *buses
	ingest    *ingest.Ingest
	strangers *strangers.Gate
	metrics   *metrics.Metrics
	// kept are the counts of events that were set aside, as last read.
	kept atomic.Pointer[[]store.SetAsideCount]
}

func (o *observer) routes(m *http.ServeMux) {
	handler := o.metrics.Handler()
	m.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) { o.sitesNow(); handler.ServeHTTP(w, r) })
	m.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) { o.answer(w, r, false) })
	m.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) { o.answer(w, r, true) })
}

// answer writes one line for each thing that central needs. Health asks whether a
// restart would help: the process answers, that is all. Readiness asks whether
// requests should come here: the database must work. A bus or a site that is away
// is told, but is no reason to send requests elsewhere: the outbox waits for it. Neither is
// a database that can be read and takes no writes: where requests do not come no write shows
// that it takes them again.
func (o *observer) answer(w http.ResponseWriter, r *http.Request, ready bool) {
	ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
	defer cancel()
	status, verdict := http.StatusOK, "ok"
	var lines []string
	if err := o.db.Ping(ctx); err != nil {
		lines = append(lines, "database: "+err.Error())
		if ready {
			status, verdict = http.StatusServiceUnavailable, "not ready: the database does not answer"
		}
	} else if no := o.db.Refusal(); no != nil {
		lines = append(lines, fmt.Sprintf("database: %s answers, but has taken no write since %s (%v)", o.db.Engine(), no.Since.Format(time.RFC3339), no.Err))
	} else {
		lines = append(lines, "database: ok ("+o.db.Engine()+")")
	}
	if err := o.buses.away(); err == nil {
		lines = append(lines, "bus: ok")
	} else {
		lines = append(lines, fmt.Sprintf("bus: away, requests wait in the outbox (%v)", err))
	}
	for _, s := range o.sites.Status() {
		state := "ok, since " + s.Since.UTC().Format(time.RFC3339)
		if !s.Open {
			state = fmt.Sprintf("away since %s, its requests wait in the outbox (%v)", s.Since.UTC().Format(time.RFC3339), s.Err)
		}
		lines = append(lines, fmt.Sprintf("site %q: %s", s.Name, state))
		if why := o.ingest.Stuck(s.Name); why != nil {
			lines = append(lines, fmt.Sprintf("events of site %q: the database does not take them, and they wait: %v", s.Name, why))
		}
	}
	if kept := o.kept.Load(); kept != nil {
		for _, c := range *kept {
			lines = append(lines, fmt.Sprintf("events of site %q: %d were set aside as %s, the first %s ('central event list' shows them)",
				c.Site, c.Events, c.Reason, c.Oldest.Format(time.RFC3339)))
		}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	fmt.Fprintln(w, verdict)
	fmt.Fprintln(w, strings.Join(lines, "\n"))
}

// count counts the requests that next answers.
func (o *observer) count(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began, s := time.Now(), &statusWriter{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(s, r)
		method := r.Method
		switch method {
		case http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodHead, http.MethodOptions:
		default:
			method = "other" // a client's word does not become a label
		}
		o.metrics.Requests.WithLabelValues(method, strconv.Itoa(s.status)).Inc()
		o.metrics.RequestSeconds.WithLabelValues(method).Observe(time.Since(began).Seconds())
	})
}

type statusWriter struct {
	http.ResponseWriter
	status int
}

func (s *statusWriter) WriteHeader(status int) {
	s.status = status
	s.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController reach the connection.
func (s *statusWriter) Unwrap() http.ResponseWriter { return s.ResponseWriter }
