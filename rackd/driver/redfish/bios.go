package redfish

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/stmcginnis/gofish"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bringup"
)

// BIOS is the BIOS interface of machines whose BMC speaks Redfish: settings as its Bios resource shows them, explained by
// its attribute registry.
type BIOS struct {
	*Driver
	// Bringup restarts machines: their BIOS takes settings only then.
	Bringup bringup.Settings
}

// biosResource is a system's Bios, with what is pending for it.
type biosResource struct {
	ref
	AttributeRegistry string
	Attributes        map[string]any
	Settings          struct {
		SettingsObject      ref
		SupportedApplyTimes []string
		Messages            []struct{ Message, MessageID string }
	} `json:"@Redfish.Settings"`
	Actions struct {
		Reset struct {
			Target string `json:"target"`
		} `json:"#Bios.ResetBios"`
	}
	// pending are the attributes of the settings object: those that are staged or, of some BMCs, all.
	pending map[string]any
}

// Settings implements driver.BIOS.
func (b BIOS) Settings(ctx context.Context, n *node.Document) (list []hardware.Setting, err error) {
	err = b.change(ctx, nil, n, "read the BIOS settings", func(s *System, c *gofish.APIClient) error {
		r, err := biosOf(c, s)
		if err != nil {
			return err
		}
		known, err := registryOf(c, r.AttributeRegistry)
		if err != nil {
			return err
		}
		list = settingsOf(r.Attributes, known)
		return nil
	})
	return list, err
}

// biosOf reads the system's Bios and its settings object.
func biosOf(c *gofish.APIClient, s *System) (r biosResource, err error) {
	var system struct{ Bios ref }
	if err := json.Unmarshal(s.raw, &system); err != nil || system.Bios.Path == "" {
		return r, fmt.Errorf("it shows no BIOS settings: %w", driver.ErrUnsupported)
	}
	if err := fetch(c, system.Bios.Path, &r); err != nil {
		if status(err) == http.StatusNotFound {
			return r, fmt.Errorf("it shows no BIOS settings, its link to them leads nowhere: %w", driver.ErrUnsupported)
		}
		return r, err
	}
	r.ref = system.Bios
	if len(r.Attributes) == 0 {
		return r, fmt.Errorf("it shows no BIOS settings: %w", driver.ErrUnsupported)
	}
	if at := r.Settings.SettingsObject.Path; at != "" {
		var pending struct{ Attributes map[string]any }
		if err := fetch(c, at, &pending); err != nil && status(err) != http.StatusNotFound {
			return r, err
		}
		r.pending = pending.Attributes
	}
	return r, nil
}

// attribute is what a registry says of an attribute.
type attribute struct {
	AttributeName, Type string
	Value               []struct{ ValueName, ValueDisplayName string }
	LowerBound          *json.Number
	UpperBound          *json.Number
	MinLength           *json.Number
	MaxLength           *json.Number
	ReadOnly            *bool
	ResetRequired       *bool
	Unique              *bool `json:"IsSystemUniqueProperty"`
	Immutable           *bool
	WriteOnly           *bool
	DefaultValue        any
}

// registryLanguages are the languages in which a registry is taken, best first: only its texts differ.
var registryLanguages = []string{"en", "en-US", "default"}

// registryOf reads what an attribute registry says, by attribute. A BMC without it tells nothing of its attributes.
func registryOf(c *gofish.APIClient, name string) (map[string]attribute, error) {
	if name == "" {
		name = "BiosAttributeRegistry" // some have it, and do not say so
	}
	var root struct{ Registries ref }
	if err := fetch(c, "/redfish/v1", &root); err != nil {
		return nil, err
	}
	if root.Registries.Path == "" {
		return nil, nil
	}
	list, err := members(c, root.Registries.Path)
	if status(err) == http.StatusNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	at := registryAt(list, name)
	if at == "" {
		return nil, nil
	}
	found, err := registryFile(c, at)
	if status(err) == http.StatusNotFound {
		return nil, nil
	}
	return found, err
}

// registryAt is the path of a registry's file. Some files' names are without the version, and one BIOS has one registry, however
// it is called.
func registryAt(list []ref, name string) (at string) {
	short, _, _ := strings.Cut(strings.ToLower(name), ".")
	var others []string
	for _, m := range list {
		file := strings.ToLower(path.Base(strings.TrimSuffix(m.Path, "/")))
		bare, _, _ := strings.Cut(file, ".")
		switch {
		case file == strings.ToLower(name):
			return m.Path
		case bare == short:
			at = m.Path
		case strings.HasPrefix(file, "biosattributeregistry"):
			others = append(others, m.Path)
		}
	}
	if at == "" && len(others) == 1 {
		return others[0]
	}
	return at
}

// registryFile reads a registry by the file that says where it is, in a language that is known.
func registryFile(c *gofish.APIClient, at string) (map[string]attribute, error) {
	var file struct {
		Location []struct {
			Language string
			Uri      json.RawMessage // the standard's name
		}
	}
	if err := fetch(c, at, &file); err != nil {
		return nil, err
	}
	where := ""
	for _, language := range registryLanguages {
		for _, l := range file.Location {
			if uri := uriIn(l.Uri); strings.EqualFold(l.Language, language) && uri != "" && where == "" {
				where = uri
			}
		}
	}
	if where == "" && len(file.Location) > 0 {
		where = uriIn(file.Location[0].Uri)
	}
	if where == "" {
		return nil, nil
	}
	var registry struct {
		RegistryEntries struct{ Attributes []attribute }
	}
	if err := fetch(c, where, &registry); err != nil {
		return nil, err
	}
	found := map[string]attribute{}
	for _, a := range registry.RegistryEntries.Attributes {
		if a.AttributeName != "" {
			found[a.AttributeName] = a
		}
	}
	return found, nil
}

// uriIn is a location's path: older BMCs write it as a link.
func uriIn(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var link struct {
		ref
		External string `json:"extref"`
	}
	if json.Unmarshal(raw, &link) != nil {
		return ""
	}
	return first(link.Path, link.External)
}

// settingsOf are the attributes as the API shows them.
func settingsOf(attributes map[string]any, known map[string]attribute) []hardware.Setting {
	list := make([]hardware.Setting, 0, len(attributes))
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		s := hardware.Setting{Name: name}
		if a, ok := known[name]; ok {
			a.explain(&s)
		}
		if value := plain(attributes[name]); value != nil && !known[name].isPassword(name, value) {
			text := textOf(value)
			s.Value = &text
		}
		list = append(list, s)
	}
	return list
}

// plain is an attribute's value. HPE Cray's BMCs show an object with the value in it, and with what a registry would say.
func plain(value any) any {
	if object, is := value.(map[string]any); is && object["current_value"] != nil {
		return object["current_value"]
	}
	return value
}

// explain adds what the registry says of a setting.
func (a attribute) explain(s *hardware.Setting) {
	if a.Type != "" {
		s.Type = &a.Type
	}
	s.Allowed = a.values()
	s.Lower, s.Upper, s.MinLength, s.MaxLength = whole(a.LowerBound), whole(a.UpperBound), whole(a.MinLength), whole(a.MaxLength)
	s.ReadOnly, s.ResetRequired, s.Unique = a.ReadOnly, a.ResetRequired, a.Unique
}

// values are the names of the values that an enumeration takes.
func (a attribute) values() (names []string) {
	for _, v := range a.Value {
		if name := first(v.ValueName, v.ValueDisplayName); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// whole is a bound as a whole number, nil for none.
func whole(n *json.Number) *int64 {
	if n == nil {
		return nil
	}
	if v, err := n.Int64(); err == nil {
		return &v
	}
	f, err := n.Float64()
	if err != nil {
		return nil
	}
	v := int64(f)
	return &v
}
