// Package control is the HTTP API of a fleet of simulated machines, and its client:
// what another process asks of the machines, does to them, and reads in their journal.
//
// It may import ops/virtual/fleet and its packages and ops/operator. The API asks for no credentials: it is a
// test's own, and listens on loopback unless told otherwise.
//
//	GET  /machines                        all machines
//	GET  /machines/{name}                 one
//	PUT  /machines/{name}/faults          Faults; what is left out stays
//	POST /machines/{name}/glitch          starts it anew, as a glitch of its power does
//	PUT  /faults                          Faults of all machines
//	PUT  /rackds                          ["http://…", …]: where machines find boot scripts
//	GET  /journal?after=&limit=&wait=     Page; wait=5s waits for the next record
//	GET  /journal/counts?machine=         records by kind
//	GET  /audit                           what the journal proves to be wrong
package control

import (
	"github.com/ironyard/ironyard/ops/operator"
	"github.com/ironyard/ironyard/ops/virtual/fleet/disk"
	"github.com/ironyard/ironyard/ops/virtual/fleet/journal"
	"github.com/ironyard/ironyard/ops/virtual/fleet/machine"
)

// Machine is a machine at this moment.
type Machine struct {
	Name    string `json:"name"`
	UUID    string `json:"uuid"` // of the hardware, not of a node
	MAC     string `json:"mac"`
	Address string `json:"address"` // of BMC and agent
	machine.Status
	Disk  disk.Content `json:"disk"`
	Image string       `json:"image,omitempty"` // checksum of what is on the disk
	// Enrolment is what to tell Ironic's API about it.
	Enrolment operator.Machine `json:"enrolment"`
}

// Faults are set where they are not nil.
type Faults struct {
	// Of the BMC: it refuses connections, is silent, rejects credentials, answers 500
	// to so many requests.
	BMCRefuse      *bool `json:"bmc_refuse,omitempty"`
	BMCHang        *bool `json:"bmc_hang,omitempty"`
	BMCCredentials *bool `json:"bmc_credentials,omitempty"`
	BMCErrors      *int  `json:"bmc_errors,omitempty"`
	// Isolate cuts firmware and agent off the network; FailWrites makes so many image
	// writes fail.
	Isolate    *bool `json:"isolate,omitempty"`
	FailWrites *int  `json:"fail_writes,omitempty"`
}

// Page is a part of the journal.
type Page struct {
	Records []journal.Record `json:"records"`
	// Last is the newest record there is, Forgotten how many the journal no longer has.
	Last      uint64 `json:"last"`
	Forgotten uint64 `json:"forgotten"`
}
