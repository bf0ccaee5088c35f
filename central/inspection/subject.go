package inspection

import (
	"fmt"
	"log/slog"
	"maps"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/work"
)

// Subject is a node that was inspected and what was found. It belongs to one goroutine.
type Subject struct {
	Node  *store.Node
	Ports []*store.Port
	// Inventory and Plugin are JSON as decoded with numbers kept (json.Number): what the
	// machine is made of, and what collectors and hooks have to say besides.
	Inventory map[string]any
	Plugin    map[string]any
	// Serials are those of the disks that the last inspection that was not refused found; nil: not known.
	Serials []string
	// Source says who has told it all.
	Source work.Source
	// Seal seals the secrets among fields of the node.
	Seal func(kind seal.Kind, fields map[string]any) map[string]any
	Log  *slog.Logger

	// NodeChanged, TraitsChanged and the ports say what is to be written.
	NodeChanged, TraitsChanged bool
	Added, Removed             []*store.Port
	Changed                    map[string]*store.Port // by UUID
	// Calls are the requests that rules ask for, to be made when the rest is written.
	Calls []Call

	item   any // of the loop that runs
	inLoop bool
	// machineChanged: driver_internal_info is to be written, which is observed.
	machineChanged bool
}

// Failure says why an inspection has failed although its data arrived. Its text is for
// last_error.
type Failure struct{ Reason string }

func (f *Failure) Error() string { return "Failed to inspect hardware. Reason: " + f.Reason }

func failed(format string, args ...any) error { return &Failure{fmt.Sprintf(format, args...)} }

// setProperty sets one of the node's properties.
func (s *Subject) setProperty(name string, value any) {
	properties := maps.Clone(s.Node.Properties)
	if properties == nil {
		properties = map[string]any{}
	}
	properties[name] = value
	s.Node.Properties, s.NodeChanged = properties, true
}

// portChanged notes that a port must be written.
func (s *Subject) portChanged(p *store.Port) {
	if s.Changed == nil {
		s.Changed = map[string]*store.Port{}
	}
	s.Changed[p.UUID] = p
}

// sensitive are the names whose values rules do not see.
var sensitive = map[string]bool{"password": true, "auth_token": true, "bmc_password": true}

// visible is a value as rules see it under its name.
func visible(name string, v any) any {
	if _, isText := v.(string); sensitive[name] || isText && seal.IsSecret(name) {
		return "***"
	}
	if text, isText := v.(string); isText {
		return seal.MaskAddresses(name, text, "***")
	}
	return v
}
