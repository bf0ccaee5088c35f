package bmc

import (
	"encoding/json"
	"net/http"
	"strings"
)

// An answer that comes twice is the answer to the next request, too, if that leaves at once: HTTP has no numbers. Resources of Redfish say
// which they are. One that is another than was asked for is asked for again, on another connection. Some BMCs call a resource by another
// name than the one that they link to: what they say twice is taken.

// answers reports whether a read got the resource that it asked for, as far as the answer tells.
func answers(req *http.Request, resp *http.Response, body []byte) bool {
	if req.Method != http.MethodGet || resp.StatusCode != http.StatusOK {
		return true
	}
	name := nameIn(body)
	return name == "" || samePath(name, req.URL.Path)
}

// nameIn is the resource's own name; empty: the answer has none.
func nameIn(body []byte) string {
	var is struct {
		ID string `json:"@odata.id"`
	}
	if json.Unmarshal(body, &is) != nil {
		return ""
	}
	return is.ID
}

// samePath compares paths without what is a matter of taste: a slash at the end, the case of letters, a query and a fragment.
func samePath(a, b string) bool {
	plain := func(p string) string {
		if cut := strings.IndexAny(p, "?#"); cut >= 0 {
			p = p[:cut]
		}
		return strings.TrimRight(p, "/")
	}
	return strings.EqualFold(plain(a), plain(b))
}

// named reports whether the BMC is known to name the resource so.
func (t *HTTP) named(req *http.Request, body []byte) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.names[req.URL.Path] == nameIn(body)
}

// mostNames bounds what is known of one session's BMC.
const mostNames = 1000

// name notes how the BMC names a resource.
func (t *HTTP) name(req *http.Request, body []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.names == nil {
		t.names = map[string]string{}
	}
	if len(t.names) < mostNames {
		t.names[req.URL.Path] = nameIn(body)
	}
}
