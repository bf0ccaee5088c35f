package inspection

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/ironyard/ironyard/central/notation"
)

// interpolate replaces the fields in all texts of v: "{inventory[cpu][count]}",
// "{node.driver_info[address]}", "{plugin_data[x]}", and "{item}" within a loop. A text
// with a field that leads nowhere stays as it is, as in Ironic. Doubled braces are
// braces. What a field is replaced by is not looked at again: it is a machine's word, not the rule's.
func (s *Subject) interpolate(v any) any {
	switch v := v.(type) {
	case string:
		return s.format(v)
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, inner := range v {
			out[s.format(name)] = s.interpolate(inner)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, inner := range v {
			out[i] = s.interpolate(inner)
		}
		return out
	}
	return v
}

// round begins a round of a loop, with an item of the rule whose own fields are replaced once, before it is put into
// other texts. end ends the round.
func (s *Subject) round(item any) (end func()) {
	s.item = s.interpolate(item)
	s.inLoop = true
	return func() { s.item, s.inLoop = nil, false }
}

// maxText bounds what a text may grow to.
const maxText = 64 << 10

func (s *Subject) format(text string) string {
	if !strings.ContainsAny(text, "{}") {
		return text
	}
	out, err := s.fill(text)
	if err != nil {
		s.Log.Debug("a text of an inspection rule stays as it is", "node", s.Node.UUID, "text", text, "reason", err)
		return text
	}
	return out
}

func (s *Subject) fill(text string) (string, error) {
	var b strings.Builder
	for len(text) > 0 {
		i := strings.IndexAny(text, "{}")
		if i < 0 {
			b.WriteString(text)
			break
		}
		b.WriteString(text[:i])
		brace := text[i]
		text = text[i+1:]
		if len(text) > 0 && text[0] == brace {
			b.WriteByte(brace)
			text = text[1:]
			continue
		}
		end := strings.IndexByte(text, '}')
		if brace == '}' || end < 0 {
			return "", errors.New("its braces do not match")
		}
		value, err := s.lookup(text[:end])
		if err != nil {
			return "", err
		}
		b.WriteString(Text(value))
		if b.Len() > maxText {
			return "", fmt.Errorf("it grows beyond %d bytes", maxText)
		}
		text = text[end+1:]
	}
	return b.String(), nil
}

// lookup follows a field: a name, then any number of ".name" and "[key]".
func (s *Subject) lookup(field string) (any, error) {
	i := strings.IndexAny(field, ".[")
	if i < 0 {
		i = len(field)
	}
	var at any
	name, rest := field[:i], field[i:]
	switch {
	case name == "node" && strings.HasPrefix(rest, "."):
		attribute, more := rest[1:], ""
		if j := strings.IndexAny(attribute, ".["); j >= 0 {
			attribute, more = attribute[:j], attribute[j:]
		}
		a, known := attributes[attribute]
		if !known {
			return nil, fmt.Errorf("a node has no %q", attribute)
		}
		at, rest = a.get(s.Node), more
	case name == "inventory":
		at = s.Inventory
	case name == "plugin_data":
		at = s.Plugin
	case name == "item" && s.inLoop:
		at = s.item
	default:
		return nil, fmt.Errorf("there is no %q", name)
	}
	for rest != "" {
		end := strings.IndexByte(rest, ']')
		if rest[0] != '[' || end < 0 {
			return nil, fmt.Errorf("%q cannot be followed", rest)
		}
		key := rest[1:end]
		rest = rest[end+1:]
		switch v := at.(type) {
		case map[string]any:
			inner, there := v[key]
			if !there {
				return nil, fmt.Errorf("there is no %q", key)
			}
			at = visible(key, inner)
		case []any:
			n, err := strconv.Atoi(key)
			if err != nil || n < 0 || n >= len(v) {
				return nil, fmt.Errorf("there is no item %q", key)
			}
			at = v[n]
		default:
			return nil, fmt.Errorf("%q leads into something that has no parts", key)
		}
	}
	return at, nil
}

// Text is a value as Ironic's rules see it in a text: Python's notation.
func Text(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	return shown(v)
}

// shown is a value as a text has it, without what rules do not see.
func shown(v any) string { return notation.Of(v, visible) }
