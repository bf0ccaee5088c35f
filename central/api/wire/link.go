package wire

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

// appendParts appends parts of a JSON string. What has to be escaped in one has so
// without its neighbours.
func appendParts(b []byte, parts ...string) []byte {
	for _, part := range parts {
		if plain(part) {
			b = append(b, part...)
			continue
		}
		begin := len(b)
		b = AppendString(b, part)
		b = append(b[:begin], b[begin+1:len(b)-1]...) // without its quotes
	}
	return b
}
