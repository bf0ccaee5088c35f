package vbmc

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// names are the properties of a request's body that are not looked at yet. What a body
// has is taken or refused by its name.
type names map[string]json.RawMessage

// decodePatch reads a PATCH of a resource, for the state that its entity tag names. On
// failure it has answered and returns false.
func decodePatch(w http.ResponseWriter, r *http.Request, shown object) (names, bool) {
	if match := r.Header.Get("If-Match"); match != "" && match != "*" && strings.TrimPrefix(match, "W/") != etag(shown) {
		refusal{http.StatusPreconditionFailed, "PreconditionFailed", "The ETag supplied did not match the ETag required to change this resource."}.write(w)
		return nil, false
	}
	var body names
	if !decode(w, r, &body) {
		return nil, false
	}
	if len(body) == 0 {
		refusal{http.StatusBadRequest, "EmptyJSON", "The request body names no property to change."}.write(w)
		return nil, false
	}
	return body, true
}

// into reads the properties into the values that writable points to: strings, ints,
// bools, lists of strings or names. Null empties them. It changes nothing unless all can be taken. Prefix
// is the path of the object in the resource, as a prefix of names in answers.
func (n names) into(prefix string, shown object, writable map[string]any) *refusal {
	read := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(n)) {
		to, ok := writable[name]
		if !ok {
			return unwritable(prefix+name, shown[name] != nil)
		}
		value, ok := valueFor(to, n[name])
		if !ok {
			// The value may be a secret.
			return &refusal{http.StatusBadRequest, "PropertyValueTypeError", "The value for the property " + prefix + name + " is of a different type than the property can accept."}
		}
		read[name] = value
	}
	for name, value := range read {
		assign(writable[name], value)
	}
	return nil
}

func unwritable(name string, known bool) *refusal {
	if known {
		return &refusal{http.StatusBadRequest, "PropertyNotWritable", "The property " + name + " is a read-only property and cannot be assigned a value."}
	}
	return &refusal{http.StatusBadRequest, "PropertyUnknown", "The property " + name + " is not in the list of valid properties for the resource."}
}

// valueFor reads a value of the type that to points to.
func valueFor(to any, raw json.RawMessage) (value any, ok bool) {
	var err error
	switch to.(type) {
	case *string:
		var v string
		err = json.Unmarshal(raw, &v)
		value = v
	case *int:
		var v int
		err = json.Unmarshal(raw, &v)
		value = v
	case *bool:
		var v bool
		err = json.Unmarshal(raw, &v)
		value = v
	case *[]string:
		var v []string
		err = json.Unmarshal(raw, &v)
		value = v
	case *names:
		var v names
		err = json.Unmarshal(raw, &v)
		value = v
	default:
		err = errors.New("no type of a property")
	}
	return value, err == nil
}

func assign(to, value any) {
	switch p := to.(type) {
	case *string:
		*p = value.(string)
	case *int:
		*p = value.(int)
	case *bool:
		*p = value.(bool)
	case *[]string:
		*p = value.([]string)
	case *names:
		*p = value.(names)
	}
}

// decodeAction reads the parameters of an action. An empty body has none.
func decodeAction(w http.ResponseWriter, r *http.Request) (names, bool) {
	body := names{}
	if r.ContentLength == 0 {
		return body, true
	}
	return body, decode(w, r, &body)
}

// parameters reads an action's parameters into the values that known points to. Those
// that are required must be there.
func (n names) parameters(action string, known map[string]any, required ...string) *refusal {
	for _, name := range required {
		if _, ok := n[name]; !ok {
			return &refusal{http.StatusBadRequest, "ActionParameterMissing", "The action " + action + " requires the parameter " + name + "."}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(n)) {
		to, ok := known[name]
		if !ok {
			return &refusal{http.StatusBadRequest, "ActionParameterUnknown", "The action " + action + " was submitted with the invalid parameter " + name + "."}
		}
		value, ok := valueFor(to, n[name])
		if !ok {
			return &refusal{http.StatusBadRequest, "ActionParameterValueTypeError", "The value for the parameter " + name + " in the action " + action + " is of a different type than the parameter can accept."}
		}
		assign(to, value)
	}
	return nil
}

// inList refuses a value that is not among those allowed. What is a property or a
// parameter, with its name.
func inList(what, message, value string, allowed []string) *refusal {
	if slices.Contains(allowed, value) {
		return nil
	}
	return &refusal{http.StatusBadRequest, message, "The value '" + value + "' for " + what + " is not in the list of acceptable values: " + strings.Join(allowed, ", ") + "."}
}

// refused answers for a Computer that did not do what it was told. A refusal of its own
// is the caller's error.
func (b *BMC) refused(w http.ResponseWriter, message, what string, err error) {
	if able(err) {
		b.failed(w, what, err)
		return
	}
	refusal{http.StatusBadRequest, message, "The request was refused: " + what + ": " + err.Error()}.write(w)
}
