package api

import (
	"encoding/json"
	"net/http"

	"github.com/ironyard/ironyard/central/auth"
)

// refuseCaller answers a request whose caller is not known, in the shape of the
// middlewares that stand before Ironic.
func (s *Server) refuseCaller(r *Request, d *auth.Denied) {
	if s.strangers.MayLog(r.stranger.from) {
		s.Log.Info("caller is not let in", "request_id", r.ID, "global_request_id", r.globalID(), "method", r.Method, "path", r.URL.Path, "from", r.RemoteAddr, "reason", d.Reason)
	}
	status := d.Status
	if status == 0 {
		status = http.StatusUnauthorized
	}
	h := r.writer.Header()
	if status == http.StatusUnauthorized {
		for _, challenge := range s.Auth.Challenges() {
			h.Add("WWW-Authenticate", challenge)
		}
	}
	type inner struct {
		Message string `json:"message"`
		Code    int    `json:"code"`
		Title   string `json:"title,omitempty"`
	}
	body, err := json.Marshal(map[string]inner{"error": {d.Message, status, d.Title}})
	if err != nil {
		panic("api: " + err.Error()) // texts and a number
	}
	h.Set("Content-Type", "application/json")
	r.writer.WriteHeader(status)
	if r.Method != http.MethodHead {
		r.writer.Write(body)
	}
}
