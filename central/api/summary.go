package api

import (
	"net/http"
	"strings"
)

// nouns are what paths name: one of them, and all.
var nouns = map[string]struct{ one, all string }{
	"allocations":      {"an allocation", "allocations"},
	"bios":             {"a BIOS setting", "BIOS settings"},
	"chassis":          {"a chassis", "chassis"},
	"conductors":       {"a conductor", "conductors"},
	"connectors":       {"a volume connector", "volume connectors"},
	"deploy_templates": {"a deploy template", "deploy templates"},
	"drivers":          {"a driver", "drivers"},
	"history":          {"an entry of the history", "entries of the history"},
	"inspection_rules": {"an inspection rule", "inspection rules"},
	"nodes":            {"a node", "nodes"},
	"portgroups":       {"a portgroup", "portgroups"},
	"ports":            {"a port", "ports"},
	"runbooks":         {"a runbook", "runbooks"},
	"targets":          {"a volume target", "volume targets"},
	"traits":           {"a trait", "traits"},
}

// usualSummaries are what methods do with a collection, and with one of it.
var usualSummaries = map[bool]map[string]string{
	false: {http.MethodGet: "List ", http.MethodPost: "Create "},
	true:  {http.MethodGet: "Show ", http.MethodPatch: "Change ", http.MethodDelete: "Delete "},
}

// summary says in a few words what the route is for; empty: it has to be told in the route.
func (r *Route) summary() string {
	if r.Summary != "" {
		return r.Summary
	}
	parts, detail := split(r.Path), ""
	if n := len(parts); n > 1 && parts[n-1] == "detail" {
		parts, detail = parts[:n-1], " in detail"
	}
	single := strings.HasPrefix(parts[len(parts)-1], "{")
	if single {
		parts = parts[:len(parts)-1]
	}
	noun, verb := nouns[parts[len(parts)-1]], usualSummaries[single][r.Method]
	if noun.one == "" || verb == "" {
		return ""
	}
	what := noun.one
	if verb == "List " {
		what = noun.all
	}
	if len(parts) > 2 && strings.HasPrefix(parts[1], "{") {
		what += " of " + nouns[parts[0]].one
	}
	return verb + what + detail
}
