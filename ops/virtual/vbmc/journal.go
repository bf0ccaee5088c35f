package vbmc

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// Request headers by which a conductor names its work and its epoch.
const (
	WorkHeader  = "X-Ironyard-Work"
	EpochHeader = "X-Ironyard-Epoch"
)

// maxBody bounds a request's body; Redfish writes are well below 64 KiB.
const maxBody = 64 << 10

// maxJournal is how many writes are remembered; older ones are dropped.
const maxJournal = 10000

// Write is one request that could change something.
type Write struct {
	Time   time.Time `json:"time"`
	Method string    `json:"method"`
	Path   string    `json:"path"`
	// Body is left out for sessions, whose bodies hold passwords; the values of other
	// secrets are stars.
	Body  string `json:"body,omitempty"`
	Work  string `json:"work,omitempty"`
	Epoch string `json:"epoch,omitempty"`
	// Status is what was answered; 0 as long as nothing was.
	Status int `json:"status"`
}

// Journal is the list of writes in the order of their arrival. Safe for concurrent use.
type Journal struct {
	mu     sync.Mutex
	writes []*Write
}

// Writes returns all writes so far.
func (j *Journal) Writes() []Write {
	j.mu.Lock()
	defer j.mu.Unlock()
	all := make([]Write, len(j.writes))
	for i, w := range j.writes {
		all[i] = *w
	}
	return all
}

// Matching returns the writes whose path ends so, such as "ComputerSystem.Reset".
func (j *Journal) Matching(suffix string) []Write {
	return slices.DeleteFunc(j.Writes(), func(w Write) bool { return !strings.HasSuffix(w.Path, suffix) })
}

// begin notes a write that has arrived; end, called once, notes what was answered.
func (j *Journal) begin(entry Write) (end func(status int)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	noted := &entry
	j.writes = append(j.writes, noted)
	if extra := len(j.writes) - maxJournal; extra > 0 {
		j.writes = slices.Delete(j.writes, 0, extra)
	}
	return func(status int) {
		j.mu.Lock()
		defer j.mu.Unlock()
		noted.Status = status
	}
}

// noted reads and bounds each body, and notes each write before its effect.
func (b *BMC) noted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			next.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			refusal{http.StatusRequestEntityTooLarge, "PayloadTooLarge", "The request body is too large or broken."}.write(w)
			return
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		entry := Write{Time: b.cfg.Now(), Method: r.Method, Path: r.URL.Path, Work: r.Header.Get(WorkHeader), Epoch: r.Header.Get(EpochHeader)}
		if !strings.HasPrefix(r.URL.Path, sessionsPath) {
			entry.Body = withoutSecrets(body)
		}
		status := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		end := b.cfg.Begin(entry)
		// In any case, also if the handler panics.
		defer func() { end(status.status) }()
		next.ServeHTTP(status, r)
	})
}

// secretNames is what names of properties that hold secrets have in them.
var secretNames = regexp.MustCompile(`(?i)password|secret`)

// withoutSecrets is a body as the journal keeps it.
func withoutSecrets(body []byte) string {
	var parsed any
	if json.Unmarshal(body, &parsed) != nil {
		if secretNames.Match(body) {
			return ""
		}
		return string(body) // the service refuses it
	}
	if !blank(parsed) {
		return string(body)
	}
	without, err := json.Marshal(parsed)
	if err != nil {
		return ""
	}
	return string(without)
}

// blank puts stars in the place of secrets, and tells whether there were any.
func blank(value any) (found bool) {
	switch v := value.(type) {
	case map[string]any:
		for name, inner := range v {
			if secretNames.MatchString(name) {
				v[name], found = "******", true
			} else if text, ok := inner.(string); ok && withoutUser(text) != text {
				v[name], found = withoutUser(text), true
			} else if blank(inner) {
				found = true
			}
		}
	case []any:
		for _, inner := range v {
			found = blank(inner) || found
		}
	}
	return found
}

// withoutUser is a text without the user and password that a URL may begin with.
func withoutUser(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.User == nil || u.Host == "" {
		return text
	}
	u.User = url.User("xxxxx")
	return u.String()
}

type statusWriter struct {
	http.ResponseWriter
	status int
}

func (s *statusWriter) WriteHeader(code int) {
	s.status = code
	s.ResponseWriter.WriteHeader(code)
}
