package work

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
)

// Unknown are the fields of an object that this program does not know: a newer one wrote
// them. They go where the object goes and are written back with it, so an older rackd that
// takes work over loses nothing.
type Unknown map[string]json.RawMessage

// Read reads a work document of the bus. It refers to nothing of body.
func Read(body []byte) (d Document, err error) {
	if known(body, &d) {
		return d, nil
	}
	d = Document{}
	if err := json.Unmarshal(body, &d); err != nil {
		return d, err
	}
	collect(reflect.ValueOf(&d).Elem(), body)
	return d, nil
}

// known reads a document that holds nothing unknown, which nearly all are.
func known(body []byte, d *Document) bool {
	r := json.NewDecoder(bytes.NewReader(body))
	r.DisallowUnknownFields()
	if r.Decode(d) != nil {
		return false
	}
	return len(bytes.TrimLeft(body[r.InputOffset():], " \t\r\n")) == 0
}

// collect keeps what v, which was read from body, does not know.
func collect(v reflect.Value, body []byte) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			collect(v.Elem(), body)
		}
	case reflect.Slice:
		var list []json.RawMessage
		if holder(v.Type().Elem()) && json.Unmarshal(body, &list) == nil {
			for i := range min(len(list), v.Len()) {
				collect(v.Index(i), list[i])
			}
		}
	case reflect.Struct:
		var all Unknown
		if !holder(v.Type()) || json.Unmarshal(body, &all) != nil {
			return
		}
		for i, name := range fieldNames(v.Type()) {
			for key, value := range all {
				if name != "" && strings.EqualFold(key, name) { // as encoding/json reads them
					collect(v.Field(i), value)
					delete(all, key)
				}
			}
		}
		if len(all) > 0 {
			v.FieldByName("Unknown").Set(reflect.ValueOf(all))
		}
	}
}

// Body is the document as it lies on the bus.
func (d *Document) Body() ([]byte, error) {
	body, err := json.Marshal(d)
	if err != nil || !keeps(reflect.ValueOf(d).Elem()) {
		return body, err
	}
	return merge(reflect.ValueOf(d).Elem(), body)
}

// keeps reports whether v, or a part of it, has unknown fields.
func keeps(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Pointer:
		return !v.IsNil() && holder(v.Type().Elem()) && keeps(v.Elem())
	case reflect.Slice:
		if !holder(v.Type().Elem()) {
			return false
		}
		for i := range v.Len() {
			if keeps(v.Index(i)) {
				return true
			}
		}
	case reflect.Struct:
		if !holder(v.Type()) {
			return false
		}
		for i := range v.NumField() {
			if f := v.Field(i); f.Type() == unknownType && f.Len() > 0 || f.Type() != unknownType && keeps(f) {
				return true
			}
		}
	}
	return false
}

// merge adds to body, which is v in JSON, what v and its parts keep.
func merge(v reflect.Value, body []byte) ([]byte, error) {
	switch v.Kind() {
	case reflect.Pointer:
		return merge(v.Elem(), body)
	case reflect.Slice:
		var list []json.RawMessage
		if err := json.Unmarshal(body, &list); err != nil {
			return nil, err
		}
		for i := range list {
			var err error
			if list[i], err = merge(v.Index(i), list[i]); err != nil {
				return nil, err
			}
		}
		return json.Marshal(list)
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(body, &all); err != nil {
		return nil, err
	}
	for i, name := range fieldNames(v.Type()) {
		if part, there := all[name]; there && keeps(v.Field(i)) {
			var err error
			if all[name], err = merge(v.Field(i), part); err != nil {
				return nil, err
			}
		}
	}
	for key, value := range v.FieldByName("Unknown").Interface().(Unknown) {
		if _, there := all[key]; !there {
			all[key] = value
		}
	}
	return json.Marshal(all)
}

var unknownType = reflect.TypeFor[Unknown]()

// holder reports whether objects of a type keep what they do not know.
func holder(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return false
	}
	f, there := t.FieldByName("Unknown")
	return there && f.Type == unknownType
}

// fieldNames are the names in JSON of a type's fields, by their place; empty of one that JSON
// does not have.
func fieldNames(t reflect.Type) []string {
	names := make([]string, t.NumField())
	for i := range names {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name != "-" {
			names[i] = name
		}
	}
	return names
}
