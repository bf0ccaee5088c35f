package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/ironyard/ironyard/central/api/microversion"
	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/store"
)

// Notification is one of Ironic's notifications: the start, end, success or error of
// something that happened to an object.
type Notification struct {
	Seq  int64
	Type string // "baremetal.node.provision_set.end"
	// Body is the message as Ironic's consumers know it, a JSON object.
	Body []byte
}

// notifications is ours: Ironic sends its notifications to a message bus.
func (s *Server) notifications() Resource {
	return Resource{Routes: []Route{{Method: http.MethodGet, Path: "notifications", Summary: "Follow what happens", Policy: "ironyard:notification:get", Handle: s.streamNotifications}}}
}

// notificationFilter is which of them somebody wants.
type notificationFilter struct {
	prefix, node string
	errorsOnly   bool
}

func (f *notificationFilter) admits(c *store.Change) bool {
	return c.Action != "" && (f.node == "" || c.Node == f.node)
}

func (f *notificationFilter) admitsType(name string) bool {
	return strings.HasPrefix(name, f.prefix) && (!f.errorsOnly || strings.HasSuffix(name, ".error"))
}

func (s *Server) streamNotifications(r *Request) (Reply, error) {
	if err := r.Query.Allow("event_type", "node", "level", "last_event_id"); err != nil {
		return Reply{}, err
	}
	f := &notificationFilter{prefix: r.Query["event_type"]}
	levels := []string{"", "debug", "info", "warning", "error"}
	if !slices.Contains(levels, strings.ToLower(r.Query["level"])) {
		return Reply{}, wire.Invalid("Invalid level %.40q: it is one of %v", r.Query["level"], levels[1:])
	}
	f.errorsOnly = slices.Index(levels, strings.ToLower(r.Query["level"])) > 2
	if ident := r.Query["node"]; ident != "" {
		id, err := s.recordedNode(r, ident)
		if err != nil {
			return Reply{}, err
		}
		f.node = id
	}
	from, _, err := s.follow(r)
	if err != nil {
		return Reply{}, err
	}
	return streamed(func(ctx context.Context, out *stream) error {
		defer from.Close()
		out.alive(from.Seq())
		for {
			if err := out.send(); err != nil {
				return err
			}
			soon, cancel := context.WithTimeout(ctx, heartbeat)
			before := from.Seq()
			changes, err := from.Next(soon)
			cancel()
			if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
				out.alive(before)
				continue
			}
			if err != nil {
				return err
			}
			list, err := s.notify(ctx, slices.DeleteFunc(slices.Clone(changes), func(c *store.Change) bool { return !f.admits(c) }))
			if err != nil {
				return err
			}
			for _, n := range list {
				if n.Seq > before && f.admitsType(n.Type) {
					out.event(n.Seq, n.Type, n.Body)
				}
			}
			if len(out.buf) == 0 {
				out.alive(from.Seq())
			}
		}
	})
}

// Notifications returns what is told of changes from a level on, of which there
// are two: errors, and everything else, which is info. Objects are shown as they are now, which is at least as new as the
// change; what belongs to the change itself is as it was then. Secrets are masked.
func (s *Server) Notifications(ctx context.Context, changes []*store.Change, level string) ([]Notification, error) {
	list, err := s.notify(ctx, changes)
	return slices.DeleteFunc(list, func(n Notification) bool {
		return (level == "error" || level == "warning") && !strings.HasSuffix(n.Type, ".error")
	}), err
}

func (s *Server) notify(ctx context.Context, changes []*store.Change) ([]Notification, error) {
	nodes, err := s.nodesOf(ctx, changes)
	if err != nil {
		return nil, err
	}
	var list []Notification
	for _, c := range changes {
		if c.Action == "" {
			continue
		}
		object, err := s.objectOf(ctx, c, nodes)
		if err != nil {
			return nil, err
		}
		phases := strings.Split(c.Phases, ",")
		for i, phase := range phases {
			n := Notification{Seq: c.Seq - int64(len(phases)-1-i), Type: "baremetal." + c.Resource + "." + c.Action + "." + phase}
			if n.Body, err = body(c, n.Type, phase, object); err != nil {
				return nil, err
			}
			list = append(list, n)
		}
	}
	return list, nil
}

// nodesOf reads the nodes that changes are about.
func (s *Server) nodesOf(ctx context.Context, changes []*store.Change) (map[string]*store.Node, error) {
	var ids []string
	for _, c := range changes {
		if c.Resource == "node" && c.Action != "" && c.Action != "delete" && !slices.Contains(ids, c.Object) {
			ids = append(ids, c.Object)
		}
	}
	found := map[string]*store.Node{}
	if ids == nil {
		return found, nil
	}
	nodes, err := s.Store.Nodes(ctx, store.NodeQuery{Page: store.Page{Limit: len(ids)}, UUIDs: ids, IncludeChildren: true})
	for _, n := range nodes {
		found[n.UUID] = n
	}
	return found, err
}

// objectOf renders the object of a change: the members of a JSON object, without braces.
func (s *Server) objectOf(ctx context.Context, c *store.Change, nodes map[string]*store.Node) ([]byte, error) {
	if n := nodes[c.Object]; n != nil {
		return nodeTable.Append(nil, nodeTable.All(microversion.Max), &nodeView{Node: n, version: microversion.Max}), nil
	}
	if c.Resource == "port" && c.Action != "delete" {
		p, err := s.Store.Port(ctx, c.Object)
		if err == nil {
			return portTable.Append(nil, portTable.All(microversion.Max), p), nil
		}
		if !errors.Is(err, store.ErrNotFound) {
			return nil, err
		}
	}
	return wire.AppendString(wire.AppendName(nil, "uuid"), c.Object), nil
}

// payloads are what Ironic calls the payload of an action on a node.
var payloads = map[string]string{"create": "NodeCRUDPayload", "update": "NodeCRUDPayload", "delete": "NodeCRUDPayload",
	"power_set": "NodeSetPowerStatePayload", "power_state_corrected": "NodeCorrectedPowerStatePayload",
	"provision_set": "NodeSetProvisionStatePayload", "maintenance_set": "NodePayload"}

func payloadName(c *store.Change) string {
	if c.Resource == "node" {
		if name := payloads[c.Action]; name != "" {
			return name
		}
		return "NodePayload"
	}
	return strings.ToUpper(c.Resource[:1]) + c.Resource[1:] + "CRUDPayload"
}

// message is a notification in the envelope that Ironic's consumers know.
type message struct {
	ID        string    `json:"message_id"`
	Publisher string    `json:"publisher_id"`
	Type      string    `json:"event_type"`
	Priority  string    `json:"priority"`
	At        time.Time `json:"timestamp"`
	RequestID string    `json:"request_id"`
	User      string    `json:"user"`
	Payload   struct {
		Namespace string         `json:"ironic_object.namespace"`
		Name      string         `json:"ironic_object.name"`
		Version   string         `json:"ironic_object.version"`
		Data      map[string]any `json:"ironic_object.data"`
	} `json:"payload"`
}

// body renders a notification about an object, given as the members of a JSON object.
func body(c *store.Change, name, phase string, object []byte) ([]byte, error) {
	m := message{ID: c.UUID + "/" + phase, Publisher: "ironyard.central", Type: name, Priority: "INFO", At: c.At, RequestID: c.RequestID, User: c.User}
	if phase == "error" {
		m.Priority = "ERROR"
	}
	m.Payload.Namespace, m.Payload.Name, m.Payload.Version = "ironic", payloadName(c), "1.0"
	if err := json.Unmarshal(slices.Concat([]byte{'{'}, object, []byte{'}'}), &m.Payload.Data); err != nil {
		return nil, fmt.Errorf("notification %s about %s: %w", name, c.Object, err)
	}
	for fact, value := range c.Facts {
		if value == "" {
			value = nil
		}
		m.Payload.Data[fact] = value
	}
	return json.Marshal(&m)
}
