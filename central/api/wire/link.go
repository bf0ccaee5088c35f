package wire

import "github.com/ironyard/ironyard/protocol/jsontext"

// AppendLinks appends a resource's "self" and "bookmark" links. path is relative
// to /v1, without a leading slash, and may come in parts.
func AppendLinks(b []byte, base string, path ...string) []byte {
	b = append(b, `[{"href":"`...)
	b = appendParts(b, base, "/v1/")
	b = appendParts(b, path...)
	b = append(b, `","rel":"self"},{"href":"`...)
	b = appendParts(b, base, "/")
	b = appendParts(b, path...)
	return append(b, `","rel":"bookmark"}]`...)
}

// appendParts appends parts of a JSON string.
func appendParts(b []byte, parts ...string) []byte {
	for _, part := range parts {
		b = jsontext.AppendBare(b, part)
	}
	return b
}
