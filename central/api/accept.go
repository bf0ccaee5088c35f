package api

import (
	"mime"
	"strconv"
	"strings"
)

// acceptsJSON reports whether an Accept header lets an answer be JSON, or the stream of
// events that watches are. A header that cannot be read excludes nothing.
func acceptsJSON(accept string) bool {
	if strings.TrimSpace(accept) == "" || strings.HasPrefix(accept, "application/json") {
		return true
	}
	for part := range strings.SplitSeq(accept, ",") {
		kind, params, err := mime.ParseMediaType(part)
		if err != nil || !strings.Contains(kind, "/") {
			return true
		}
		if q, err := strconv.ParseFloat(params["q"], 64); err == nil && q == 0 {
			continue
		}
		switch kind {
		case "*/*", "application/*", "application/json", "text/event-stream":
			return true
		}
	}
	return false
}
