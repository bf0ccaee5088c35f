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
var networkEvents = []string{"network.bind_port", "network.unbind_port", "network.delete_port"}

// eventField is a field of such an event.
type eventField struct {
	name     string
	required bool // others may be null
	check    func(s string) bool
	want     string // what a text is not that fails the check
}

var eventFields = []eventField{
	{"event", true, func(s string) bool { return slices.Contains(networkEvents, s) }, "one of ['" + strings.Join(networkEvents, "', '") + "']"},
	{"port_id", true, isUUID, "a 'uuid'"},
	{"mac_address", true, func(s string) bool { _, valid := wire.MAC(s); return valid }, "a 'mac-address'"},
	{"status", true, nil, ""},
	{"device_id", false, isUUID, "a 'uuid'"},
	{"binding:host_id", false, isUUID, "a 'uuid'"},
	{"binding:vnic_type", false, nil, ""},
}

func isUUID(s string) bool { _, valid := wire.UUID(s); return valid }

// events takes in what other services report.
func (s *Server) events() Resource {
	return Resource{Name: "events", Since: 54, Routes: []Route{
		{Method: http.MethodPost, Path: "events", Summary: "Take what other services tell of networks", Policy: "baremetal:events:post", Handle: s.postEvents, Takes: eventsBody, Success: http.StatusNoContent},
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
	events, given := body["events"]
	if !given {
		return Reply{}, wire.Invalid("Schema error: 'events' is a required property")
	}
	for _, name := range slices.Sorted(maps.Keys(body)) {
		if name != "events" {
			return Reply{}, wire.Invalid("Schema error: Additional properties are not allowed ('%.80s' was unexpected)", name)
		}
	}
	list, isList := events.([]any)
	if !isList {
		return Reply{}, wire.Invalid("Schema error: %s is not of type 'array'", wire.Repr(events))
	}
	if len(list) == 0 {
		return Reply{}, wire.Invalid("Schema error: [] should be non-empty")
	}
	for i, item := range list {
		event, isObject := item.(map[string]any)
		if !isObject {
			return Reply{}, wire.Invalid("Schema error: %s is not of type 'object'", wire.Repr(item)).Detailed("event %d", i+1)
		}
		if err := checkEvent(event); err != nil {
			return Reply{}, wire.Invalid("Schema error: %v", err).Detailed("in event %d", i+1)
		}
	}
	for _, item := range list {
		event := item.(map[string]any)
		s.Log.Info("external event", "request_id", r.ID, "event", event["event"], "port", event["port_id"],
			"address", event["mac_address"], "status", event["status"], "device", event["device_id"])
	}
	return noContent()
}

// checkEvent says what is wrong with an event.
func checkEvent(event map[string]any) error {
	for _, f := range eventFields {
		v, given := event[f.name]
		text, isText := v.(string)
		switch {
		case !given && f.required:
			return fmt.Errorf("'%s' is a required property", f.name)
		case v == nil && !f.required:
		case !isText:
			return fmt.Errorf("%s is not of type 'string'", wire.Repr(v))
		case f.check != nil && !f.check(text):
			return fmt.Errorf("%s is not %s", wire.Repr(text), f.want)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(event)) {
		if !slices.ContainsFunc(eventFields, func(f eventField) bool { return f.name == name }) {
			return wire.Invalid("Additional properties are not allowed ('%.80s' was unexpected)", name)
		}
	}
	return nil
}
