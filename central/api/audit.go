package api

import (
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/ironyard/ironyard/central/api/fields"
	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/store"
)

// auditTable is every field of a line of the audit.
var auditTable = fields.New("audit record",
	fields.Text("uuid", 1, func(a *store.Audit) *string { return &a.UUID }).List(),
	fields.Time("created_at", 1, func(a *store.Audit) time.Time { return a.At }).List(),
	fields.Text("request_id", 1, func(a *store.Audit) *string { return &a.RequestID }).List(),
	fields.Text("user", 1, func(a *store.Audit) *string { return &a.User }).List(),
	fields.Text("user_id", 1, func(a *store.Audit) *string { return &a.UserID }).List(),
	fields.Text("project", 1, func(a *store.Audit) *string { return &a.Project }).List(),
	fields.Text("client", 1, func(a *store.Audit) *string { return &a.Client }).List(),
	fields.Text("action", 1, func(a *store.Audit) *string { return &a.Action }).List(),
	fields.Text("method", 1, func(a *store.Audit) *string { return &a.Method }).List(),
	fields.Text("path", 1, func(a *store.Audit) *string { return &a.Path }).List(),
	fields.Text("resource", 1, func(a *store.Audit) *string { return &a.Resource }).List(),
	fields.Text("object", 1, func(a *store.Audit) *string { return &a.Object }).List(),
	fields.Text("node", 1, func(a *store.Audit) *string { return &a.Node }).List(),
	fields.Computed("status", 1, func(a *store.Audit) any { return a.Status }).List(),
	fields.Text("result", 1, func(a *store.Audit) *string { return &a.Result }).List(),
	fields.Text("error", 1, func(a *store.Audit) *string { return &a.Error }).List(),
)

// auditArguments are what filters the audit, besides the page. Ironic has no such
// resource, so every version knows all of them.
var auditArguments = []string{"object", "node", "user", "action", "result", "request_id", "since", "until", "fields", "limit", "marker", "sort_dir"}

// auditRecords is ours: Ironic writes its audit to a message bus.
func (s *Server) auditRecords() Resource {
	return Resource{Routes: []Route{{Method: http.MethodGet, Path: "audit", Summary: "List who did what to which object, and with which result", Policy: "ironyard:audit:get", Handle: s.listAudit}}}
}

// listAudit answers a page of the audit, newest first unless sort_dir says otherwise.
func (s *Server) listAudit(r *Request) (Reply, error) {
	if err := r.Query.Allow(auditArguments...); err != nil {
		return Reply{}, err
	}
	sel, err := selectFields(r, auditTable, false, 1, 1)
	if err != nil {
		return Reply{}, err
	}
	q, p, err := s.auditQuery(r)
	if err != nil {
		return Reply{}, err
	}
	lines, err := s.Store.Audit(r.Context(), q)
	if errors.Is(err, store.ErrNotFound) {
		return Reply{}, wire.Errorf(http.StatusNotFound, "Audit record %.80s could not be found.", p.Marker)
	}
	if err != nil {
		return Reply{}, storeError(err)
	}
	b := append(make([]byte, 0, 64+512*len(lines)), `{"audit":[`...)
	for i, a := range lines {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(auditTable.Append(append(b, '{'), sel, a), '}')
	}
	b = append(b, ']')
	if len(lines) == p.Limit {
		b = wire.AppendString(wire.AppendName(b, "next"), r.Query.Next(r.Base, "audit", p, lines[len(lines)-1].UUID, nil))
	}
	return ok(append(b, '}'))
}

func (s *Server) auditQuery(r *Request) (q store.AuditQuery, p wire.Page, err error) {
	if p, err = r.Query.Page("id"); err != nil {
		return q, p, err
	}
	if q.Page, err = storePage(p); err != nil {
		return q, p, err
	}
	p.SortKey = "" // its one order is by time
	q.Desc = r.Query["sort_dir"] != "asc"
	q.Object, q.User, q.Action, q.RequestID = r.Query["object"], r.Query["user"], r.Query["action"], r.Query["request_id"]
	results := []string{store.Accepted, store.Denied, store.Refused, store.Failed}
	if q.Result = r.Query["result"]; q.Result != "" && !slices.Contains(results, q.Result) {
		return q, p, wire.Invalid("Invalid result %.80q: it is one of %v", q.Result, results)
	}
	for name, at := range map[string]*time.Time{"since": &q.Since, "until": &q.Until} {
		text, given := r.Query[name]
		if !given {
			continue
		}
		if *at, err = time.Parse(time.RFC3339, text); err != nil {
			return q, p, wire.Invalid("Invalid %s: %.80q is not a time such as 2026-01-31T12:00:00Z", name, text)
		}
	}
	if ident := r.Query["node"]; ident != "" {
		q.Node, err = s.recordedNode(r, ident)
	}
	return q, p, err
}

// recordedNode is the UUID that a request names; one that is deleted still has its lines.
func (s *Server) recordedNode(r *Request, ident string) (string, error) {
	n, err := s.node(r, ident)
	if err == nil {
		return n.UUID, nil
	}
	if id, isUUID := wire.UUID(ident); isUUID && wire.AsError(err).Status == http.StatusNotFound {
		return id, nil
	}
	return "", err
}
