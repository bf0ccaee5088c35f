package wire

// AppendLinks appends a resource's "self" and "bookmark" links. path is relative
// to /v1, without a leading slash.
func AppendLinks(b []byte, base, path string) []byte {
	b = append(b, `[{"href":`...)
	b = AppendString(b, base+"/v1/"+path)
	b = append(b, `,"rel":"self"},{"href":`...)
	b = AppendString(b, base+"/"+path)
	return append(b, `,"rel":"bookmark"}]`...)
}
