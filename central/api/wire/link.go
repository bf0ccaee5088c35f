package wire

// AppendLinks appends a resource's "self" and "bookmark" links. path is relative
// to /v1, without a leading slash.
func AppendLinks(b []byte, base, path string) []byte {
	b = append(b, `[{"href":`...)
	b = appendParts(b, base, "/v1/", path)
	b = append(b, `,"rel":"self"},{"href":`...)
	b = appendParts(b, base, "/", path)
	return append(b, `,"rel":"bookmark"}]`...)
}

// appendParts appends the JSON string of a URL that consists of parts. What has to be
// escaped in a part has so without its neighbours.
func appendParts(b []byte, parts ...string) []byte {
	b = append(b, '"')
	for _, part := range parts {
		begin := len(b)
		b = AppendString(b, part)
		b = append(b[:begin], b[begin+1:len(b)-1]...) // without its quotes
	}
	return append(b, '"')
}
