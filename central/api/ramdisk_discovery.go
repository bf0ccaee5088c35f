package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode"

	"github.com/google/uuid"

	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/dispatch"
	"github.com/ironyard/ironyard/central/inspection"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// Discovery says what becomes of machines that nobody has enrolled and that send inspection
// data all the same (Ironic's [auto_discovery]).
type Discovery struct {
	// Driver is that of the nodes that they become; empty: they become none.
	Driver string
	// Most is how many nodes there may be in enroll, whoever has enrolled them, for discovery to
	// add one more; 0: DefaultDiscoveries. Data comes without an account, and must not fill the database.
	Most int
}

// Check says which setting cannot be. Whether a rackd has the driver is not known before there is one.
func (d Discovery) Check() error {
	switch {
	case d.Most < 0:
		return fmt.Errorf("--discovery-limit %d: it cannot be negative", d.Most)
	case len(d.Driver) > 255 || strings.ContainsFunc(d.Driver, unicode.IsSpace):
		return fmt.Errorf("discovery driver %.300q: that is not the name of a driver", d.Driver)
	}
	return nil
}

// DefaultDiscoveries is how many nodes wait in enroll for people to look at them before
// discovery adds no more.
const DefaultDiscoveries = 1000

// autoDiscovered is what plugin data of discovered machines has, for rules to look at.
const autoDiscovered = "auto_discovered"

// discoveries is the name space of the UUIDs of discovered nodes.
var discoveries = uuid.MustParse("5f0c3b52-0c6e-4d0c-9a55-6f1d0f6f6c43")

// discoveredID is the UUID of the node that a machine becomes. It follows from the machine's
// addresses, so that the machine becomes one node however often, and to however many
// replicas at once, it sends its data, whatever hooks and rules make of that (decision 51).
func discoveredID(macs, bmcs []string) string {
	of := macs
	if len(of) == 0 {
		of = bmcs
	}
	of = slices.Compact(slices.Sorted(slices.Values(of)))
	return uuid.NewSHA1(discoveries, []byte(strings.Join(of, " "))).String()
}

// report is what a ramdisk has sent, and the addresses in it.
type report struct {
	inv        agentapi.Inventory
	macs, bmcs []string
}

// discovered takes the data of a machine that no inspection waits for: of one that is no
// node, which makes it one, and of one that has become n this way and is still in enroll.
// Any other is told no more than where nothing is discovered.
func (s *Server) discovered(r *Request, n *store.Node, f *report, modern bool) (Reply, error) {
	id := discoveredID(f.macs, f.bmcs)
	if s.Discovery.Driver == "" || n != nil && n.UUID != id || len(f.macs) == 0 && len(f.bmcs) == 0 {
		return Reply{}, notFound()
	}
	done, err := r.decodes(f.inv.Sent, f.inv.PluginData)
	if err != nil {
		return Reply{}, err
	}
	defer done()
	d, err := s.takeDiscovered(r, id, f)
	if err != nil {
		return Reply{}, storeError(err)
	}
	r.concerns(d.node)
	s.Calls.Make(d.calls)
	if d.fresh {
		s.Log.Info("an unknown machine is a node now", "request_id", r.ID, "node", d.node.UUID, "driver", d.node.Driver, "macs", f.macs,
			"bmcs", f.bmcs, "from", s.client(r.Request), "refused", d.refused)
	}
	return s.inspectedReply(r, d.node, agentapi.LookupConfig{HeartbeatTimeout: ramdiskTimeout}, modern), nil
}

// discovery is what became of a discovered machine.
type discovery struct {
	node    *store.Node // before hooks and rules
	fresh   bool
	refused *inspection.Failure // hooks or rules have done so
	calls   []inspection.Call
}

// takeDiscovered enrols the machine as node id, unless that is there, and processes its data.
func (s *Server) takeDiscovered(r *Request, id string, f *report) (d discovery, err error) {
	err = s.Store.Update(r.Context(), func(ctx context.Context, tx *store.Tx) error {
		d = discovery{}
		// Somebody may have enrolled it since it was looked for.
		owner, err := ownerOf(ctx, tx.Port, f.macs)
		if err != nil {
			return err
		}
		if owner != "" && owner != id {
			return notFound()
		}
		n, err := tx.Node(ctx, id)
		switch {
		case errors.Is(err, store.ErrNotFound):
			d.fresh = true
			n, err = s.enrol(ctx, tx, r, id, f)
		case err == nil && n.ProvisionState != provision.Enroll:
			err = notFound()
		case err == nil && n.WorkID != "":
			err = &dispatch.Refusal{Status: http.StatusConflict, Text: "The node is busy, please retry later.", Locked: n.UUID}
		}
		if err != nil {
			return err
		}
		d.node = n
		return s.processDiscovered(ctx, tx, f, &d)
	})
	return d, err
}

// enrol adds the node that a machine becomes.
func (s *Server) enrol(ctx context.Context, tx *store.Tx, r *Request, id string, f *report) (*store.Node, error) {
	n := &store.Node{UUID: id, Driver: s.Discovery.Driver, AcceptedState: provision.Enroll, Interfaces: map[string]string{}, DriverInfo: map[string]any{},
		Properties: map[string]any{}, InstanceInfo: map[string]any{}, Extra: map[string]any{}, NetworkData: map[string]any{}}
	s.Nodes.complete(n)
	n.ConductorGroup = strings.ToLower(n.ConductorGroup)
	m, err := s.dispatch.Owner(n, http.StatusServiceUnavailable)
	if err != nil {
		return nil, s.notEnrolled(r, f, err)
	}
	if err := fitInterfaces(n, m); err != nil {
		return nil, err
	}
	waiting, err := tx.CountNodesIn(ctx, []provision.State{provision.Enroll}, s.Discovery.Most)
	if err != nil {
		return nil, err
	}
	if waiting >= s.Discovery.Most {
		return nil, s.notEnrolled(r, f, fmt.Errorf("there are %d nodes in %s already: manage them, delete them, or raise --discovery-limit", waiting, provision.Enroll))
	}
	if err := tx.InsertNode(ctx, n); err != nil {
		return nil, err
	}
	return n, tx.AppendHistory(ctx, &store.HistoryEntry{Node: id, EventType: "introspection", State: n.ProvisionState, Revision: n.Revision,
		Event: cut(fmt.Sprintf("enrolled by what a ramdisk at %s reported: MAC addresses %v, BMC %v", s.client(r.Request), f.macs, f.bmcs), maxRecordedError)})
}

// notEnrolled notes why a machine cannot become a node now; the machine is not told.
func (s *Server) notEnrolled(r *Request, f *report, why error) error {
	s.Log.Warn("an unknown machine cannot become a node", "request_id", r.ID, "macs", f.macs, "bmcs", f.bmcs, "from", s.client(r.Request), "error", why)
	return wire.Errorf(http.StatusServiceUnavailable, "Central cannot take the data at this moment; please retry later.")
}

// processDiscovered keeps the data and lets hooks and rules do with it what they do with that
// of an inspection. What they refuse stays a node, which says why.
func (s *Server) processDiscovered(ctx context.Context, tx *store.Tx, f *report, d *discovery) error {
	plugin, err := flagged(f.inv.PluginData)
	if err != nil {
		return err
	}
	id := d.node.UUID
	if err := tx.SetInventory(ctx, id, store.Inventory{Data: f.inv.Sent, Plugin: plugin}); err != nil {
		return err
	}
	rules, err := inspection.Rules(ctx, tx, s.Log)
	if err != nil {
		return err
	}
	d.calls, err = s.Inspection.Process(ctx, tx, inspection.Found{Node: id, Rules: rules, Source: work.FromRamdisk, Key: s.Key, Log: s.Log})
	if refused, ok := errors.AsType[*inspection.Failure](err); ok {
		d.refused, err = refused, nil
	}
	if err == nil {
		err = s.tellRefusal(ctx, tx, d)
	}
	if err != nil {
		return err
	}
	return tx.Enqueue(ctx, dispatch.Dirty(d.node)) // and not as left: it has ports by now
}

// tellRefusal writes why hooks or rules have refused the data, or that they no longer do.
func (s *Server) tellRefusal(ctx context.Context, tx *store.Tx, d *discovery) error {
	if d.refused == nil && d.node.LastError == "" {
		return nil
	}
	n, err := tx.Node(ctx, d.node.UUID)
	if err != nil {
		return err
	}
	n.Accept(n.ProvisionState, n.TargetProvisionState, s.Now())
	if d.refused == nil {
		return tx.UpdateNode(ctx, n)
	}
	n.AcceptedError = d.refused.Error()
	n.LastError = n.AcceptedError
	if err := tx.UpdateNode(ctx, n); err != nil {
		return err
	}
	return tx.AppendHistory(ctx, &store.HistoryEntry{Node: n.UUID, Severity: "ERROR", EventType: "introspection", Event: n.LastError, State: n.ProvisionState, Revision: n.Revision})
}

// flagged is plugin data, a JSON object, that says that its machine was discovered.
func flagged(plugin []byte) ([]byte, error) {
	data := map[string]json.RawMessage{}
	if err := json.Unmarshal(plugin, &data); err != nil {
		return nil, fmt.Errorf("plugin data of a discovered machine: %w", err)
	}
	data[autoDiscovered] = json.RawMessage("true")
	return json.Marshal(data)
}
