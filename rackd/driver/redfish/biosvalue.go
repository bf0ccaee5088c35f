package redfish

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/seal"
)

// The types of attributes that need more than a look at their values.
const (
	typeInteger     = "Integer"
	typeBoolean     = "Boolean"
	typeString      = "String"
	typePassword    = "Password"
	typeEnumeration = "Enumeration"
)

// isPassword reports whether a setting is a password: by its type or, of a text that no registry says more of, by its name.
func (a attribute) isPassword(name string, is any) bool {
	_, text := is.(string)
	return a.Type == typePassword || (a.Type == "" || a.Type == typeString) && (text || is == nil) && seal.IsSecret(name)
}

// textOf is a value as the API shows it. Booleans are as Ironic's are.
func textOf(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case bool:
		if v {
			return "True"
		}
		return "False"
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return strconv.FormatInt(int64(v), 10)
		}
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(raw)
}

// asked is a setting of a request.
type asked struct {
	Name  string
	Value any
}

// settingsIn reads the argument settings of apply_configuration: a list of objects with name and value.
func settingsIn(n *node.Document, arg any) (list []asked, err error) {
	items, isList := arg.([]any)
	if !isList || len(items) == 0 {
		return nil, invalid(n, "settings is not a list of BIOS settings, each with name and value")
	}
	for i, item := range items {
		m, _ := item.(map[string]any)
		name, _ := m["name"].(string)
		value, given := m["value"]
		if name == "" || !given || value == nil {
			return nil, invalid(n, "BIOS setting %d: give name and value", i+1)
		}
		switch v := value.(type) {
		case string, bool, float64, int:
		case json.Number:
			if value, err = v.Float64(); err != nil {
				return nil, invalid(n, "BIOS setting %s: %v", name, err)
			}
		default:
			return nil, invalid(n, "BIOS setting %s: its value is neither a text nor a number nor true or false", name)
		}
		if slices.ContainsFunc(list, func(a asked) bool { return a.Name == name }) {
			return nil, invalid(n, "BIOS setting %s is there twice", name)
		}
		list = append(list, asked{name, value})
	}
	return list, nil
}

// attributesFor turns the settings of a request into attributes of the types that the BIOS has. wrong says which it would
// not take, and why.
func attributesFor(list []asked, r biosResource, known map[string]attribute) (attributes map[string]any, wrong []string) {
	attributes = map[string]any{}
	for _, s := range list {
		is, there := r.Attributes[s.Name]
		if !there {
			wrong = append(wrong, s.Name+": there is no such setting")
			continue
		}
		if known[s.Name].isPassword(s.Name, is) {
			wrong = append(wrong, s.Name+": it is a password, which cannot be read back")
			continue
		}
		value, err := known[s.Name].takes(s.Value, is)
		if err != nil {
			wrong = append(wrong, s.Name+": "+err.Error())
			continue
		}
		attributes[s.Name] = value
	}
	return attributes, wrong
}

// takes turns a value into one of the attribute's type, which the registry says or, without one, its present value shows.
func (a attribute) takes(value, is any) (any, error) {
	kind := a.Type
	if kind == "" {
		switch is.(type) {
		case float64:
			kind = typeInteger
		case bool:
			kind = typeBoolean
		}
	}
	if a.ReadOnly != nil && *a.ReadOnly || a.Immutable != nil && *a.Immutable {
		return nil, fmt.Errorf("it is read-only")
	}
	if _, object := is.(map[string]any); object {
		return nil, fmt.Errorf("the BMC shows it in a form of its own, in which nothing can be written")
	}
	text := textOf(value)
	if _, number := is.(float64); number {
		kind = typeInteger // also an enumeration may have numbers
	}
	switch kind {
	case typeInteger:
		return a.integer(text)
	case typeBoolean:
		on, err := strconv.ParseBool(strings.ToLower(text))
		if err != nil {
			return nil, fmt.Errorf("it is true or false, not %.60q", text)
		}
		return on, nil
	case typeEnumeration:
		if names := a.values(); names != nil && !slices.Contains(names, text) {
			return nil, fmt.Errorf("it is one of %s, not %.60q", strings.Join(names, ", "), text)
		}
	case typeString:
		length, least, most := int64(utf8.RuneCountInString(text)), whole(a.MinLength), whole(a.MaxLength)
		if least != nil && length < *least || most != nil && *most > 0 && length > *most {
			return nil, fmt.Errorf("it has %d characters, which is outside of its bounds", length)
		}
	}
	return text, nil
}

func (a attribute) integer(text string) (any, error) {
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("it is a whole number, not %.60q", text)
	}
	least, most := whole(a.LowerBound), whole(a.UpperBound)
	if least != nil && v < *least || most != nil && v > *most {
		return nil, fmt.Errorf("%d is outside of its bounds, %s to %s", v, boundText(least), boundText(most))
	}
	return float64(v), nil // as JSON has it
}

func boundText(b *int64) string {
	if b == nil {
		return "any"
	}
	return strconv.FormatInt(*b, 10)
}

// unlike are the names of the attributes that differ from those wanted.
func unlike(wanted, is map[string]any) (names []string) {
	for name, value := range wanted {
		if !reflect.DeepEqual(is[name], value) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// resettable are the attributes that a reset to the factory's settings changes, with the values that the registry says they then have.
func resettable(r biosResource, known map[string]attribute) map[string]any {
	defaults := map[string]any{}
	for name := range r.Attributes {
		a, ok := known[name]
		fixed := a.ReadOnly != nil && *a.ReadOnly || a.Immutable != nil && *a.Immutable || a.Unique != nil && *a.Unique || a.WriteOnly != nil && *a.WriteOnly
		if !ok || fixed || a.isPassword(name, r.Attributes[name]) || a.DefaultValue == nil {
			continue
		}
		defaults[name] = a.DefaultValue
	}
	return defaults
}
