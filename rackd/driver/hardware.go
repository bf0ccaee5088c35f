package driver

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/protocol/node"
)

// Named is an implementation under the name that nodes use for it.
type Named struct {
	Name string
	Impl Interface
}

// Type is a hardware type: for each kind of interface the implementations it
// supports, best first.
type Type struct {
	Name       string
	Interfaces map[string][]Named
	// Keeper keeps something of a node whichever interfaces it has; nil: nothing does. It leaves what the management keeps.
	Keeper Keeper
	// Periodic is what is done for the type's idle nodes from time to time, a line for each task.
	Periodic []Periodic
}

// Hardware is what serves one node: one implementation for each kind.
type Hardware struct {
	Type  string
	impls map[string]Named
	// keeper is the type's, nil for none.
	keeper Keeper
}

// Registry holds the enabled hardware types. It is immutable once built.
type Registry struct{ types map[string]Type }

// NewRegistry checks the types and returns a registry of them.
func NewRegistry(types ...Type) (*Registry, error) {
	r := &Registry{types: map[string]Type{}}
	for _, t := range types {
		if _, twice := r.types[t.Name]; twice {
			return nil, fmt.Errorf("hardware type %s is registered twice", t.Name)
		}
		for _, kind := range []string{"deploy", "management", "power"} {
			if len(t.Interfaces[kind]) == 0 {
				return nil, fmt.Errorf("hardware type %s has no %s interface", t.Name, kind)
			}
		}
		if err := t.check(); err != nil {
			return nil, err
		}
		for kind, impls := range t.Interfaces {
			if !slices.Contains(node.InterfaceKinds, kind) {
				return nil, fmt.Errorf("hardware type %s: %q is no kind of interface", t.Name, kind)
			}
			for _, n := range impls {
				if !implements(kind, n.Impl) {
					return nil, fmt.Errorf("hardware type %s: %s does not implement the %s interface", t.Name, n.Name, kind)
				}
			}
		}
		r.types[t.Name] = t
	}
	return r, nil
}

func implements(kind string, impl Interface) (ok bool) {
	switch kind {
	case "power":
		_, ok = impl.(Power)
	case "management":
		_, ok = impl.(Management)
	case "boot":
		_, ok = impl.(Boot)
	case "deploy":
		_, ok = impl.(Deploy)
	case "inspect":
		_, ok = impl.(Inspect)
	case "rescue":
		_, ok = impl.(Rescuer)
	case "bios":
		_, ok = impl.(BIOS)
	case "firmware":
		_, ok = impl.(Firmware)
	case "raid":
		_, ok = impl.(RAID)
	case "console":
		_, ok = impl.(Console)
	case "vendor":
		_, ok = impl.(Vendor)
	default:
		_, ok = impl.(StepSource)
	}
	return ok
}

// Describe lists, for each hardware type and kind, the implementations' names.
func (r *Registry) Describe() map[string]map[string][]string {
	out := map[string]map[string][]string{}
	for name, t := range r.types {
		kinds := map[string][]string{}
		for kind, impls := range t.Interfaces {
			for _, n := range impls {
				kinds[kind] = append(kinds[kind], n.Name)
			}
		}
		out[name] = kinds
	}
	return out
}

// Best returns the first implementation of a kind of a hardware type, nil when the
// type has none.
func (r *Registry) Best(driver, kind string) (Interface, error) {
	t, ok := r.types[driver]
	if !ok {
		return nil, fmt.Errorf("hardware type %q is not enabled here: %w", driver, ErrUnsupported)
	}
	if impls := t.Interfaces[kind]; len(impls) > 0 {
		return impls[0].Impl, nil
	}
	return nil, nil
}

// Properties merges the properties of all implementations of a hardware type.
func (r *Registry) Properties(driver string) (map[string]string, error) {
	t, ok := r.types[driver]
	if !ok {
		return nil, fmt.Errorf("hardware type %q is not enabled here: %w", driver, ErrUnsupported)
	}
	out := map[string]string{}
	for _, impls := range t.Interfaces {
		for _, n := range impls {
			maps.Copy(out, n.Impl.Properties())
		}
	}
	return out, nil
}

// Resolve picks the implementations for n: those it names, else the type's first.
func (r *Registry) Resolve(n *node.Document) (*Hardware, error) {
	t, ok := r.types[n.Driver]
	if !ok {
		return nil, fmt.Errorf("node %s: hardware type %q is not enabled on this rackd (enabled: %s): %w",
			n.Label(), n.Driver, strings.Join(slices.Sorted(maps.Keys(r.types)), ", "), ErrInvalid)
	}
	h := &Hardware{Type: t.Name, impls: make(map[string]Named, len(t.Interfaces)), keeper: t.Keeper}
	for kind, impls := range t.Interfaces {
		m, ok := pick(impls, n.Interface(kind))
		if !ok {
			return nil, fmt.Errorf("node %s: hardware type %s has no %s interface %q: %w", n.Label(), t.Name, kind, n.Interface(kind), ErrInvalid)
		}
		h.impls[kind] = m
	}
	return h, nil
}

// ManagementOf picks n's management alone, as Resolve does; nil where there is none of that name.
func (r *Registry) ManagementOf(n *node.Document) Management {
	t, ok := r.types[n.Driver]
	if !ok {
		return nil
	}
	m, _ := pick(t.Interfaces["management"], n.Interface("management"))
	management, _ := m.Impl.(Management)
	return management
}

// pick returns the implementation of that name, or the first one for none.
func pick(impls []Named, want string) (m Named, ok bool) {
	i := slices.IndexFunc(impls, func(m Named) bool { return want == "" || m.Name == want })
	if i < 0 {
		return Named{}, false
	}
	return impls[i], true
}

// Power, Management and Deploy are there for every hardware type.
func (h *Hardware) Power() Power           { return h.impls["power"].Impl.(Power) }
func (h *Hardware) Management() Management { return h.impls["management"].Impl.(Management) }
func (h *Hardware) Deploy() Deploy         { return h.impls["deploy"].Impl.(Deploy) }

// Boot is one that boots nothing, and refuses to, where the hardware type has none.
func (h *Hardware) Boot() Boot {
	if b, has := h.impls["boot"].Impl.(Boot); has {
		return b
	}
	return noBoot{h.Type}
}

// The others are nil when the type has none.
func (h *Hardware) Inspect() Inspect   { i, _ := h.impls["inspect"].Impl.(Inspect); return i }
func (h *Hardware) Rescue() Rescuer    { i, _ := h.impls["rescue"].Impl.(Rescuer); return i }
func (h *Hardware) BIOS() BIOS         { i, _ := h.impls["bios"].Impl.(BIOS); return i }
func (h *Hardware) Firmware() Firmware { i, _ := h.impls["firmware"].Impl.(Firmware); return i }
func (h *Hardware) RAID() RAID         { i, _ := h.impls["raid"].Impl.(RAID); return i }
func (h *Hardware) Console() Console   { i, _ := h.impls["console"].Impl.(Console); return i }
func (h *Hardware) Vendor() Vendor     { i, _ := h.impls["vendor"].Impl.(Vendor); return i }

// Kinds returns each kind the type has, with its implementation.
func (h *Hardware) Kinds() map[string]Named { return h.impls }
