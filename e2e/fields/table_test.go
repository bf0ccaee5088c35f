package fields

import (
	"maps"
	"testing"

	"github.com/ironyard/ironyard/protocol/provision"
)

// row is what becomes of a field.
type row struct {
	by   []string // functions that act on it, "rackd/conductor/flow.cleaningSteps"
	name string   // by which they know it, where that is not the field's
	kept string   // why it is kept for clients; empty: it is not only that
	note string   // what else there is to say
	// refused are requests that are refused for it; said is what clients are told of what has no effect.
	refused []refusal
	said    []saying
}

// refusal is a request that is refused, and how.
type refusal struct {
	in           provision.State // that the node is in; empty: available
	set          string          // a PATCH of the node before, as a JSON list; it must be accepted
	method, path string          // {n} is the node, {p} its port, {r} a runbook for it
	body         string
	status       int
	words        string // that the answer holds
	short        string // what is asked, for the page; empty: the body
}

// saying is what a node's validation says of an interface that is in order, once the node has something.
type saying struct {
	set, kind, words string
}

// table is the rows of a resource by field.
type table map[string]row

// by is a field that functions act on.
func by(readers ...string) row { return row{by: readers} }

// kept is a field that is kept for clients alone.
func kept(why string) row { return row{kept: why} }

// as says by which name the functions know the field.
func (r row) as(name string) row { r.name = name; return r }

// with adds a note.
func (r row) with(note string) row { r.note = note; return r }

// refusing adds refusals.
func (r row) refusing(list ...refusal) row { r.refused = append(r.refused, list...); return r }

// saying adds what is said.
func (r row) saying(list ...saying) row { r.said = append(r.said, list...); return r }

// section is a part of the page.
type section struct {
	title, about string
	rows         table
}

// sections is all of the table.
var sections = []section{
	{"Nodes", "Fields of `POST /v1/nodes` and `PATCH /v1/nodes/{node}`.", nodes},
	{"driver_info", "Each driver announces what it reads (`GET /v1/drivers/{driver}/properties`).", driverInfo},
	{"instance_info", "", instanceInfo},
	{"properties", "", properties},
	{"Capabilities", "Those of `instance_info.capabilities`, else of `properties.capabilities`.", capabilities},
	{"Provision states", "`PUT /v1/nodes/{node}/states/provision`, and which verb takes which argument.", provisioning},
	{"Arguments of steps", "Of the drivers' own steps. The rack refuses an argument that a step does not take. What the ramdisk's agent takes, the agent says.", stepArguments},
	{"Other actions on nodes", "", actions},
	{"RAID", "`logical_disks` of `PUT /v1/nodes/{node}/states/raid` and of steps.", raid},
	{"Ports", "", ports},
	{"Port groups", "", portgroups},
	{"Volumes", "", volumes},
	{"Chassis, allocations, templates, runbooks, inspection rules", "", others},
	{"What ramdisks and other services send", "", ramdisks},
	{"Arguments behind a question mark", "", queries},
}

// rows are those of all sections; a field has one.
func rows(t *testing.T) table {
	t.Helper()
	all := table{}
	for _, s := range sections {
		for field := range s.rows {
			if _, twice := all[field]; twice {
				t.Errorf("%s has two rows", field)
			}
		}
		maps.Copy(all, s.rows)
	}
	return all
}

// each gives several fields one row.
func each(r row, fields ...string) table {
	t := table{}
	for _, f := range fields {
		t[f] = r
	}
	return t
}

// joined is tables as one.
func joined(list ...table) table {
	all := table{}
	for _, t := range list {
		maps.Copy(all, t)
	}
	return all
}
