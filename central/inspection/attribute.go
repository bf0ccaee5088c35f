package inspection

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/ironyard/ironyard/central/store"
)

// attribute is a field of a T as rules name it; set is nil for those that rules only read.
type attribute[T any] struct {
	get func(*T) any
	set func(*T, any) error
}

// textAttribute is a text of at most so many characters as the API takes. What was found in a
// machine may be any text: one that the database did not take would hold up all that comes after it.
func textAttribute[T any](most int, at func(*T) *string) attribute[T] {
	return attribute[T]{
		get: func(t *T) any { return orNone(*at(t)) },
		set: func(t *T, v any) error {
			s, ok := v.(string)
			switch {
			case !ok && v != nil:
				return fmt.Errorf("%.80s is no text", shown(v))
			case utf8.RuneCountInString(s) > most:
				return fmt.Errorf("%.80q… has more than %d characters", s, most)
			case strings.ContainsRune(s, 0):
				return fmt.Errorf("%.80q holds a NUL character", s)
			}
			*at(t) = s
			return nil
		},
	}
}

func boolAttribute[T any](at func(*T) *bool) attribute[T] {
	return attribute[T]{
		get: func(t *T) any { return *at(t) },
		set: func(t *T, v any) error {
			yes, known := truth(v, "yes", "true", "1", "on")
			if !known && v != nil {
				return fmt.Errorf("%.80s is neither true nor false", shown(v))
			}
			*at(t) = yes
			return nil
		},
	}
}

func objectAttribute[T any](at func(*T) *map[string]any) attribute[T] {
	return attribute[T]{
		get: func(t *T) any { return *at(t) },
		set: func(t *T, v any) error {
			m, ok := v.(map[string]any)
			if !ok && v != nil {
				return fmt.Errorf("%.80s is no object", shown(v))
			}
			*at(t) = m
			return nil
		},
	}
}

func readOnly[T any](get func(*T) any) attribute[T] { return attribute[T]{get: get} }

func orNone(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// attributes are those of a node. Rules do not set its state, which belongs to the state
// machine, nor what must be unique or refers to something else, which would have to be
// checked against other rows.
var attributes = map[string]attribute[store.Node]{
	"uuid":              readOnly(func(n *store.Node) any { return n.UUID }),
	"driver":            readOnly(func(n *store.Node) any { return n.Driver }),
	"name":              readOnly(func(n *store.Node) any { return orNone(n.Name) }),
	"provision_state":   readOnly(func(n *store.Node) any { return string(n.ProvisionState) }),
	"power_state":       readOnly(func(n *store.Node) any { return orNone(n.PowerState) }),
	"instance_uuid":     readOnly(func(n *store.Node) any { return orNone(n.InstanceUUID) }),
	"conductor_group":   readOnly(func(n *store.Node) any { return n.ConductorGroup }),
	"maintenance":       readOnly(func(n *store.Node) any { return n.Maintenance }),
	"traits":            readOnly(func(n *store.Node) any { return anyList(n.Traits) }),
	"description":       textAttribute(4096, func(n *store.Node) *string { return &n.Description }),
	"resource_class":    textAttribute(80, func(n *store.Node) *string { return &n.ResourceClass }),
	"owner":             textAttribute(255, func(n *store.Node) *string { return &n.Owner }),
	"lessee":            textAttribute(255, func(n *store.Node) *string { return &n.Lessee }),
	"shard":             textAttribute(255, func(n *store.Node) *string { return &n.Shard }),
	"chassis_uuid":      readOnly(func(n *store.Node) any { return orNone(n.ChassisUUID) }),
	"disable_power_off": boolAttribute(func(n *store.Node) *bool { return &n.DisablePowerOff }),
	"retired":           boolAttribute(func(n *store.Node) *bool { return &n.Retired }),
	"retired_reason":    textAttribute(4096, func(n *store.Node) *string { return &n.RetiredReason }),
	"driver_info":       objectAttribute(func(n *store.Node) *map[string]any { return &n.DriverInfo }),
	"instance_info":     objectAttribute(func(n *store.Node) *map[string]any { return &n.InstanceInfo }),
	"properties":        objectAttribute(func(n *store.Node) *map[string]any { return &n.Properties }),
	"extra":             objectAttribute(func(n *store.Node) *map[string]any { return &n.Extra }),
	"network_data":      objectAttribute(func(n *store.Node) *map[string]any { return &n.NetworkData }),
}

// portAttributes are those of a port.
var portAttributes = map[string]attribute[store.Port]{
	"uuid":                  readOnly(func(p *store.Port) any { return p.UUID }),
	"address":               readOnly(func(p *store.Port) any { return p.Address }),
	"name":                  readOnly(func(p *store.Port) any { return orNone(p.Name) }),
	"description":           textAttribute(255, func(p *store.Port) *string { return &p.Description }),
	"physical_network":      textAttribute(64, func(p *store.Port) *string { return &p.PhysicalNetwork }),
	"vendor":                textAttribute(32, func(p *store.Port) *string { return &p.Vendor }),
	"category":              textAttribute(80, func(p *store.Port) *string { return &p.Category }),
	"pxe_enabled":           boolAttribute(func(p *store.Port) *bool { return &p.PXEEnabled }),
	"is_smartnic":           boolAttribute(func(p *store.Port) *bool { return &p.IsSmartNIC }),
	"local_link_connection": objectAttribute(func(p *store.Port) *map[string]any { return &p.LocalLinkConnection }),
	"extra":                 objectAttribute(func(p *store.Port) *map[string]any { return &p.Extra }),
}

func anyList(list []string) []any {
	out := make([]any, len(list))
	for i, s := range list {
		out[i] = s
	}
	return out
}

// splitPath cuts a path at its slashes or, where it has none, at its dots.
func splitPath(path string) []string {
	if strings.Contains(path, "/") {
		return strings.Split(strings.Trim(path, "/"), "/")
	}
	return strings.Split(path, ".")
}

// change is what an action does at the end of a path: it is given what is there, nil for
// nothing, and returns what is to be there; gone removes it.
type change func(old any) (v any, gone bool, err error)

// edit changes what lies at a path of t's attributes.
func edit[T any](t *T, table map[string]attribute[T], path string, do change) error {
	parts := splitPath(path)
	a, known := table[parts[0]]
	switch {
	case !known:
		return fmt.Errorf("there is no attribute %.80q", parts[0])
	case a.set == nil:
		return fmt.Errorf("%s is not for rules to change", parts[0])
	}
	if len(parts) == 1 {
		v, gone, err := do(clone(a.get(t)))
		if err != nil {
			return err
		}
		if gone {
			v = nil
		}
		return a.set(t, v)
	}
	whole, ok := clone(a.get(t)).(map[string]any)
	if !ok || whole == nil {
		whole = map[string]any{}
	}
	if err := editIn(whole, parts[1:], do); err != nil {
		return err
	}
	return a.set(t, whole)
}

// editIn changes what lies at a path within m, making the objects on the way.
func editIn(m map[string]any, parts []string, do change) error {
	for _, part := range parts[:len(parts)-1] {
		inner, isObject := m[part].(map[string]any)
		if !isObject {
			if m[part] != nil {
				return fmt.Errorf("%.80q is no object", part)
			}
			inner = map[string]any{}
			m[part] = inner
		}
		m = inner
	}
	last := parts[len(parts)-1]
	v, gone, err := do(m[last])
	switch {
	case err != nil:
		return err
	case gone:
		delete(m, last)
	default:
		m[last] = v
	}
	return nil
}

// clone returns a deep copy of a JSON value.
func clone(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, inner := range v {
			out[name] = clone(inner)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, inner := range v {
			out[i] = clone(inner)
		}
		return out
	}
	return v
}
