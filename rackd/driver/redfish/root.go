package redfish

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
)

// isRoot reports whether a request reads the service root.
func isRoot(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.TrimSuffix(r.URL.Path, "/") == "/redfish/v1"
}

// trim takes out of a service root what nothing here reads. gofish reads no root that has one of these in another form than the standard's,
// and then opens no session.
func trim(resp *http.Response) error {
	body, err := io.ReadAll(resp.Body) // it is in memory
	if err != nil {
		return err
	}
	resp.Body.Close()
	var root map[string]json.RawMessage
	if json.Unmarshal(body, &root) == nil && root != nil {
		delete(root, "@odata.etag")
		delete(root, "@Message.ExtendedInfo")
		var can struct {
			ExpandQuery map[string]json.RawMessage
		}
		if json.Unmarshal(root["ProtocolFeaturesSupported"], &can) == nil {
			delete(can.ExpandQuery, "MaxLevels")
			root["ProtocolFeaturesSupported"], _ = json.Marshal(can) // what was read can be written
		}
		if body, err = json.Marshal(root); err != nil {
			return err
		}
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return nil
}
