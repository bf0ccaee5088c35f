package redfish

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/stmcginnis/gofish"
)

// patch changes a resource. job is the path of the task that the BMC has made of it, empty for none. The resource's entity
// tag goes along, where it has one. A BMC that refuses it is asked again with other forms of it: some count every
// read, some compare the text only, and some want any tag at all.
func patch(c *gofish.APIClient, m maker, path string, body any) (job string, err error) {
	tag, err := entityTag(c, path)
	if err != nil {
		return "", err
	}
	for _, match := range matches(tag, m.needs(anyTag)) {
		var headers map[string]string
		if match != "" {
			headers = map[string]string{"If-Match": match}
		}
		var resp *http.Response
		resp, err = c.PatchWithHeaders(path, body, headers)
		if code := status(err); code == http.StatusPreconditionFailed || code == http.StatusPreconditionRequired {
			continue
		}
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		return taskOf(resp), nil
	}
	return "", err
}

// matches are the values of If-Match to try, best first; "" is none.
func matches(tag string, wanted bool) []string {
	strong, weak := strings.CutPrefix(tag, "W/")
	switch {
	case tag == "" && wanted:
		return []string{"*", ""}
	case tag == "":
		return []string{"", "*"}
	case weak:
		return []string{tag, strong, "", "*"}
	}
	return []string{tag, "", "*"}
}

// entityTag reads the tag of a resource, which some BMCs tell in its header and others in its body.
func entityTag(c *gofish.APIClient, path string) (string, error) {
	resp, err := c.Get(path)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if tag := resp.Header.Get("ETag"); tag != "" {
		return tag, nil
	}
	var body struct {
		Tag string `json:"@odata.etag"`
	}
	if json.NewDecoder(resp.Body).Decode(&body) != nil {
		return "", nil // it shows none
	}
	return body.Tag, nil
}
