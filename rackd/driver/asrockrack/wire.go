package asrockrack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
)

// loginPath is that of the BMC's session service.
const loginPath = "/api/session"

// longestAnswer bounds one answer, in bytes. Boards send some 20 KiB at most. The provider makes values of it, which may take sixty
// times as much: a list of empty objects is short.
const longestAnswer = 512 << 10

// mostShown is how much of an answer that is no success an error shows, in bytes.
const mostShown = 300

// wire carries the provider's requests over the transport of rackd/driver/bmc, and notes how they went: the provider says that in words
// alone. The holder of the BMC's turn uses it. Of the transports, patient waits for what the BMC does while it writes firmware.
type wire struct {
	quick, patient *bmc.HTTP
	slow           bool
	// login: the requests log in or out.
	login bool
	// hidden are the secrets of the session: what lets its holder in.
	hidden []string
	seen   []exchange
}

// exchange is one request, and how it went.
type exchange struct {
	write  bool
	path   string
	status int
	body   []byte
	err    error
}

// begin makes the requests that follow part of a call. f is nil for calls that only read.
func (w *wire) begin(ctx context.Context, f driver.Fence) {
	w.quick.Begin(ctx, f)
	w.patient.Begin(ctx, f)
	w.slow, w.login, w.seen = false, false, nil
}

// beginLogin lets the requests that follow log in or out.
func (w *wire) beginLogin(ctx context.Context) {
	w.quick.BeginLogin(ctx)
	w.slow, w.login, w.seen = false, true, nil
}

// forget closes the connections.
func (w *wire) forget() { w.quick.Forget(); w.patient.Forget() }

// RoundTrip implements http.RoundTripper.
func (w *wire) RoundTrip(req *http.Request) (*http.Response, error) {
	if w.login && len(w.seen) > 0 && !w.letIn() {
		return nil, errNotLetIn
	}
	by := w.quick
	if w.slow {
		by = w.patient
	}
	e := exchange{write: req.Method != http.MethodGet && req.Method != http.MethodHead, path: "/" + strings.TrimLeft(req.URL.Path, "/")}
	var resp *http.Response
	if resp, e.err = by.RoundTrip(req); e.err == nil {
		e.status = resp.StatusCode
		if e.body, e.err = io.ReadAll(resp.Body); e.err == nil { // it is in memory
			resp.Body = io.NopCloser(bytes.NewReader(e.body))
		}
		if len(e.body) > longestAnswer {
			f := &bmc.Failure{Said: fmt.Sprintf("with %d bytes, and %d are the most that rackd reads", len(e.body), longestAnswer)}
			if e.write && !w.login {
				f.Class = bmc.Unknown
			}
			e.body, e.err = nil, f
		}
	}
	w.seen = append(w.seen, e)
	if e.err == nil && w.login && e.path == loginPath {
		w.hide(resp, e.body)
	}
	return resp, e.err
}

// errNotLetIn ends a login that was refused: the provider goes on after each refusal but 401.
var errNotLetIn = errors.New("the login was refused")

// letIn reports whether the login, which is the first request, was answered with a session.
func (w *wire) letIn() bool {
	return len(w.seen) > 0 && w.seen[0].err == nil && w.seen[0].status < http.StatusBadRequest
}

// hide notes what the BMC has given to one who logged in.
func (w *wire) hide(resp *http.Response, body []byte) {
	var in struct{ CSRFToken string }
	if json.Unmarshal(body, &in) == nil && in.CSRFToken != "" {
		w.hidden = append(w.hidden, in.CSRFToken)
	}
	for _, c := range resp.Cookies() {
		if c.Value != "" {
			w.hidden = append(w.hidden, c.Value)
		}
	}
}

// tells reports whether the last answer has a field. What it leaves out the provider reads as a zero, which is a word of this API.
func (w *wire) tells(field string) bool {
	if len(w.seen) == 0 {
		return false
	}
	var all map[string]json.RawMessage
	return json.Unmarshal(w.seen[len(w.seen)-1].body, &all) == nil && all[field] != nil
}

// refused reports whether the BMC has answered one of the requests with that status.
func (w *wire) refused(status int) bool {
	return slices.ContainsFunc(w.seen, func(e exchange) bool { return e.err == nil && e.status == status })
}

// wrote reports whether a write has left, or may have.
func (w *wire) wrote() bool {
	return slices.ContainsFunc(w.seen, func(e exchange) bool {
		lost, gone := errors.AsType[*bmc.Lost](e.err)
		return e.write && (e.err == nil || gone && lost.Left)
	})
}

// lost is a request without an answer, nil for none.
func (w *wire) lost() error {
	for _, e := range w.seen {
		if e.err != nil {
			return e.err
		}
	}
	return nil
}

// sorted is what went wrong in a call of the provider's, by how its requests went: the last write that failed, or else the first read.
// Where none failed, the provider could not read an answer: of a write the outcome is unknown then.
func (w *wire) sorted(err error) error {
	if err == nil {
		return nil
	}
	failed, wrote := (*exchange)(nil), false
	for i := range w.seen {
		e := &w.seen[i]
		wrote = wrote || e.write && !w.login
		if (e.err != nil || e.status >= http.StatusMultipleChoices) && (failed == nil || e.write) {
			failed = e
		}
	}
	switch {
	case failed == nil:
		return w.unread(err, wrote)
	case failed.err != nil:
		return failed.err
	}
	f := bmc.StatusFailure(failed.status, failed.write && !w.login, w.shown(failed.body), nil)
	if failed.status == http.StatusUnauthorized && !w.login {
		return bmc.Forgotten(f)
	}
	return f
}

// unread is what the provider says of an answer that it could not read, or would not take.
func (w *wire) unread(err error, wrote bool) error {
	var last []byte
	if len(w.seen) > 0 {
		last = w.seen[len(w.seen)-1].body
	}
	said := fmt.Sprintf("what bmclib does not take (%s): %s", w.clean(err.Error()), w.shown(last))
	switch {
	case wrote:
		return &bmc.Failure{Class: bmc.Unknown, Said: said}
	case json.Valid(last):
		return &bmc.Failure{Said: said}
	}
	return &bmc.Failure{Class: bmc.Unreachable, Said: "it sends " + said} // BMCs that start send pages and halves
}

// shown is what an error shows of an answer. It is cleaned before it is cut: half a secret is not found.
func (w *wire) shown(body []byte) string {
	text := w.clean(string(body[:min(len(body), 10*mostShown)]))
	return text[:min(len(text), mostShown)]
}

// clean takes the session's secrets out of what a BMC says.
func (w *wire) clean(said string) string { return bmc.Clean(said, w.hidden...) }
