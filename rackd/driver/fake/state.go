package fake

import (
	"encoding/json"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// state is what a machine has been told, apart from its power. What is empty is as it
// was when the machine was made, so that a fleet of machines which nobody has told
// anything takes little memory.
type state struct {
	// Changes counts them: of two copies of a state, the one with more is the newer.
	Changes    int64             `json:"changes"`
	Device     driver.BootDevice `json:"boot_device,omitempty"`
	Once       bool              `json:"boot_device_once,omitempty"`
	Mode       string            `json:"boot_mode,omitempty"`
	SecureBoot bool              `json:"secure_boot,omitempty"`
	Settings   map[string]string `json:"bios_settings,omitempty"`
	Versions   map[string]string `json:"firmware,omitempty"`
	Indicators map[string]string `json:"indicators,omitempty"` // by name@component
	Media      map[string]string `json:"virtual_media,omitempty"`
	Console    bool              `json:"console,omitempty"`
	// Calls counts the calls of each vendor method.
	Calls map[string]int `json:"vendor_calls,omitempty"`
}

// change changes the state and counts it.
func (s *state) change(do func(*state)) {
	s.Changes++
	do(s)
}

// put sets a key of one of the state's maps.
func put[V any](m *map[string]V, key string, v V) {
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[key] = v
}

// machine returns the machine of n in its newest state. The caller holds f.mu.
func (f *Fleet) machine(n *node.Document) *machine {
	m := f.seen[n.UUID]
	if m == nil {
		m = &machine{power: driver.PowerOff}
		f.seen[n.UUID] = m
	}
	if len(n.Kept) > 0 && m.read != string(n.Kept) {
		m.read = string(n.Kept)
		var s state
		if json.Unmarshal(n.Kept, &s) == nil && s.Changes > m.Changes {
			m.state = s // another rackd has been told of it
		}
	}
	return m
}

// Kept implements driver.Keeper.
func (m management) Kept(n *node.Document) json.RawMessage {
	m.fleet.mu.Lock()
	defer m.fleet.mu.Unlock()
	k := m.fleet.machine(n)
	var known struct {
		Changes int64 `json:"changes"`
	}
	if len(n.Kept) > 0 && json.Unmarshal(n.Kept, &known) == nil && known.Changes >= k.Changes || k.Changes == 0 {
		return nil
	}
	raw, err := json.Marshal(k.state)
	if err != nil {
		panic(err) // a struct of strings and numbers
	}
	return raw
}
