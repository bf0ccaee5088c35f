// Package schema describes JSON in the words of JSON Schema, for the API's OpenAPI document.
// It imports nothing of the API but its versions. All its values are safe for concurrent use:
// nothing changes one once it is made.
package schema

import (
	"maps"
	"slices"

	"github.com/ironyard/ironyard/central/api/microversion"
)

// Schema describes a JSON value; an empty one describes any.
type Schema map[string]any

// What has no members.
var (
	Any     = Schema{}
	Text    = Of("string")
	Flag    = Of("boolean")
	Integer = Of("integer")
	// Object is one with any members.
	Object = Of("object")
	Texts  = List(Text)
)

// Of describes values of one of JSON's types, or of several.
func Of(types ...string) Schema {
	if len(types) == 1 {
		return Schema{"type": types[0]}
	}
	return Schema{"type": types}
}

// OneOf describes some texts.
func OneOf(values ...string) Schema { return Text.with("enum", values) }

// List describes lists of what items describes.
func List(items Schema) Schema { return Schema{"type": "array", "items": items} }

// Map describes objects whose members have names that nobody knows beforehand, and are all
// as values describes.
func Map(values Schema) Schema { return Schema{"type": "object", "additionalProperties": values} }

// Component describes what is described under a name in the document's components.
func Component(name string) Schema { return Schema{"$ref": "#/components/schemas/" + name} }

// OrNull describes what s does, which has one type, and null.
func (s Schema) OrNull() Schema { return s.with("type", []string{s["type"].(string), "null"}) }

// Since says which version brought what s describes.
func (s Schema) Since(v microversion.Version) Schema { return s.with("x-since", v.String()) }

// Either describes objects of s that have exactly one of two members, which may be required in s.
func (s Schema) Either(one, other string) Schema {
	required, _ := s["required"].([]string)
	s = s.with("required", slices.DeleteFunc(slices.Clone(required), func(name string) bool { return name == one || name == other }))
	return s.with("oneOf", []Schema{{"required": []string{one}}, {"required": []string{other}}})
}

func (s Schema) with(word string, value any) Schema {
	s = maps.Clone(s)
	s[word] = value
	return s
}

// Members are those of an object, by name.
type Members map[string]Schema

// Closed describes objects that have no other members; those required are always there.
func (m Members) Closed(required ...string) Schema {
	return m.Open(required...).with("additionalProperties", false)
}

// Open describes objects that may have other members, too.
func (m Members) Open(required ...string) Schema {
	s := Object.with("properties", m)
	if len(required) > 0 {
		s = s.with("required", required)
	}
	return s
}
