package agentapi

// ArgumentKind says what an argument of an agent's step is. JSON's null is of any kind. An agent that is not ours says none.
type ArgumentKind string

// The kinds.
const (
	ArgumentText   ArgumentKind = "text"
	ArgumentWhole  ArgumentKind = "whole number"
	ArgumentObject ArgumentKind = "object"
)

// Fits reports whether a value, as JSON is read into any, is of the kind. A kind that is not known fits all values.
func (k ArgumentKind) Fits(v any) bool {
	if v == nil {
		return true
	}
	is := true
	switch k {
	case ArgumentText:
		_, is = v.(string)
	case ArgumentWhole:
		n, number := v.(float64)
		is = number && n == float64(int64(n))
	case ArgumentObject:
		_, is = v.(map[string]any)
	}
	return is
}
