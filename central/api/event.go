package api

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/central/api/wire"
)

// networkEvents are what a network service may tell of.
var networkEvents = []string{"network.bind_port", "network.delete_port", "network.unbind_port"}

// eventFields are the fields of such an event, with what checks each; those that are
// not required may be null.
var eventFields = map[string]struct {
	required bool
	check    func(s string) bool
}{
	"event":             {true, func(s string) bool { return slices.Contains(networkEvents, s) }},
	"port_id":           {true, isUUID},
	"mac_address":       {true, func(s string) bool { _, valid := wire.MAC(s); return valid }},
	"status":            {true, func(string) bool { return true }},
	"device_id":         {false, isUUID},
	"binding:host_id":   {false, isUUID},
	"binding:vnic_type": {false, func(string) bool { return true }},
}

func isUUID(s string) bool { _, valid := wire.UUID(s); return valid }

// events takes in what other services report.
func (s *Server) events() Resource {
	return Resource{Name: "events", Since: 54, Routes: []Route{
		{Method: http.MethodPost, Path: "events", Policy: "baremetal:events:post", Handle: s.postEvents, Success: http.StatusNoContent},
	}}
}

// postEvents checks a list of events as a whole and records them in the log. No network
// interface here waits for one.
func (s *Server) postEvents(r *Request) (Reply, error) {
	if err := r.Query.Allow(); err != nil {
		return Reply{}, err
	}
	body, err := r.Object()
	if err != nil {
		return Reply{}, err
	}
	if err := only(body, "events"); err != nil {
		return Reply{}, err
	}
	list, isList := body["events"].([]any)
	if !isList || len(list) == 0 {
		return Reply{}, wire.Invalid("Schema error for events: 'events' must be a list of one event at least")
	}
	for i, item := range list {
		event, _ := item.(map[string]any)
		if err := checkEvent(event); err != nil {
			return Reply{}, wire.Invalid("Schema error for events: event %d: %v", i, err)
		}
	}
	for _, item := range list {
		event := item.(map[string]any)
		s.Log.Info("external event", "request_id", r.ID, "event", event["event"], "port", event["port_id"],
			"address", event["mac_address"], "status", event["status"], "device", event["device_id"])
	}
	return noContent()
}

func checkEvent(event map[string]any) error {
	for _, name := range slices.Sorted(maps.Keys(eventFields)) {
		f, v := eventFields[name], event[name]
		text, isText := v.(string)
		switch {
		case v == nil && !f.required:
		case !isText:
			return fmt.Errorf("'%s' must be a text", name)
		case !f.check(text):
			if name == "event" {
				return fmt.Errorf("%.80q is not one of ['%s']", text, strings.Join(networkEvents, "', '"))
			}
			return fmt.Errorf("%s has a wrong value: %.80q", name, text)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(event)) {
		if _, known := eventFields[name]; !known {
			return fmt.Errorf("additional properties are not allowed (%.80q was unexpected)", name)
		}
	}
	return nil
}
