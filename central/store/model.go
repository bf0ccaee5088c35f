package store

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// Node is a row of nodes. Text fields are empty and times zero where Ironic says
// null. The comments say who may set a field: intent is written by UpdateNode,
// observations by ingest, and effective values are computed by the database from
// both (methods of Node keep them right in memory).
type Node struct {
	UUID string
	// Revision grows with each write of the node and of what belongs to it; UpdateNode
	// compares and sets it.
	Revision  int64
	CreatedAt time.Time
	UpdatedAt time.Time // set by the store on each write of intent
	// RackRevision is the revision that a write of intent, a port or a trait gave the node when it
	// last changed what the node's rack sees (racksight.go). The store sets it. A rack whose document
	// has at least this revision has heard of the change. Zero: written by an older program.
	RackRevision int64

	// Intent.
	Name             string
	Driver           string
	ConductorGroup   string // lower case
	ResourceClass    string
	Owner            string
	Lessee           string
	LentTo           string // the project that Lease made the lessee; empty: an operator says who it is
	Description      string
	Shard            string
	ParentNode       string
	ChassisUUID      string
	AllocationUUID   string
	InstanceUUID     string
	InstanceName     string
	Interfaces       map[string]string // kind ("boot") → implementation
	DriverInfo       map[string]any    // secrets sealed with the database key
	Properties       map[string]any
	InstanceInfo     map[string]any
	Extra            map[string]any
	NetworkData      map[string]any
	TargetRAIDConfig map[string]any
	AutomatedClean   *bool
	DisablePowerOff  bool
	Protected        bool
	ProtectedReason  string
	Retired          bool
	RetiredReason    string
	EmptyTexts       EmptyTexts // which of these, and of MaintenanceReason, hold the rarer nothing

	// Intent that has an observed counterpart; set by SetMaintenance, Accept and
	// AcceptPower only.
	MaintenanceSet  bool
	MaintenanceWhy  string
	FaultAcked      int64
	Generation      int64
	AcceptedState   provision.State
	AcceptedTarget  provision.State
	AcceptedAt      time.Time
	AcceptedError   string
	PowerGeneration int64
	PowerTarget     string
	// InspectionStarted is after InspectionFinished from when an inspection is accepted until it has
	// succeeded, and not after it from then on. The two are of different clocks: whoever writes one moves it
	// past the other where it has to.
	InspectionStarted time.Time

	// Observation.
	ObservedGeneration      int64
	ObservedEpoch           uint64 // of the work of ObservedGeneration
	ObservedSeq             uint64 // of ObservedEpoch
	ObservedSite            string // whose event was applied last
	ObservedPlace           uint64 // of that event in the site's stream
	ObservedStored          int64  // when the stream took it, or one before it, in nanoseconds since 1970
	ObservedState           provision.State
	ObservedTarget          provision.State
	ObservedAt              time.Time
	ObservedError           string
	ObservedStep            string // name of the step that runs
	ObservedStepInfo        string // that step as the API shows it (JSON), empty for none
	ObservedOwner           string // rackd that reported last
	PowerState              string // "power on", "power off", "error" or empty
	PowerAt                 time.Time
	PowerObservedGeneration int64
	FaultNumber             int64
	ObservedFault           string
	FaultWhy                string
	DriverInternalInfo      map[string]any
	RAIDConfig              map[string]any
	ConsoleEnabled          bool
	BootMode                string
	SecureBoot              *bool
	Health                  string
	InspectionFinished      time.Time

	// Effective: read only.
	ProvisionState       provision.State
	TargetProvisionState provision.State
	ProvisionUpdatedAt   time.Time
	LastError            string
	TargetPowerState     string
	Maintenance          bool
	MaintenanceReason    string
	Fault                string

	// Traits are sorted once they are in the database. SetTraits writes them.
	Traits []string

	// From other tables: read only.
	// WorkID, WorkVerb and Reservation (the rackd that holds the node, or that
	// the request was meant for) are those of the node's open work.
	WorkID      string
	WorkVerb    work.Verb
	Reservation string

	given string // the UUID that GiveUUID gave, until the node is inserted
	read  shown  // when the row was read or written last
	// Texts are objects of a node that ShowNodes reads, else nil.
	Texts *Texts

	lockedBy *Tx   // that read the node for a write and keeps others from changing it
	asRead   []any // what the row holds of writtenColumns, as lockedBy has read or written it
}

// Accept records that a request has been accepted: the node is now in state,
// bound for target, until a rack reports something of the new generation. It
// clears the last error.
func (n *Node) Accept(state, target provision.State, at time.Time) {
	n.Generation++
	n.AcceptedState, n.AcceptedTarget, n.AcceptedAt, n.AcceptedError = state, target, at.UTC(), ""
	if state != n.ProvisionState || target != n.TargetProvisionState {
		n.ProvisionUpdatedAt = n.AcceptedAt
	} else {
		n.AcceptedAt = n.ProvisionUpdatedAt // the provision state did not change
	}
	n.ProvisionState, n.TargetProvisionState, n.LastError = state, target, ""
	if state == provision.Inspecting {
		n.InspectionStarted = at.UTC().Truncate(time.Microsecond)
		if !n.InspectionStarted.After(n.InspectionFinished) { // by the clock of a rackd that was ahead
			n.InspectionStarted = n.InspectionFinished.Add(time.Microsecond)
		}
	}
	n.ForgetRescue()
}

// RescuePassword is the key of instance_info that holds the sealed password of a rescue.
const RescuePassword = "rescue_password"

// ForgetRescue removes the password of a rescue that has ended or failed, or that an unrescue, an
// abort or a tear-down ends, and reports whether there was one. With the row it leaves the rack's document.
func (n *Node) ForgetRescue() bool {
	switch n.ProvisionState {
	case provision.Rescuing, provision.RescueWait, provision.Rescue:
		return false
	}
	if _, kept := n.InstanceInfo[RescuePassword]; !kept {
		return false
	}
	n.InstanceInfo = maps.Clone(n.InstanceInfo)
	delete(n.InstanceInfo, RescuePassword)
	return true
}

// Inspected is when the newest inspection succeeded; zero while it has not, or when it failed.
func (n *Node) Inspected() time.Time {
	if n.InspectionFinished.Before(n.InspectionStarted) {
		return time.Time{} // that of an earlier one
	}
	return n.InspectionFinished
}

// Observe makes the observed columns hold for a generation: unless they do so already,
// they begin where the request put the node, and no rackd has reported anything.
func (n *Node) Observe(generation int64) {
	if n.ObservedGeneration >= generation {
		return
	}
	n.ObservedGeneration, n.ObservedEpoch, n.ObservedSeq, n.ObservedOwner = generation, 0, 0, ""
	n.ObservedState, n.ObservedTarget = n.ProvisionState, n.TargetProvisionState
	n.ObservedAt, n.ObservedError, n.ObservedStep, n.ObservedStepInfo = n.ProvisionUpdatedAt, n.LastError, "", ""
}

// AcceptPower records that a power request has been accepted. The provision state
// stays. target_power_state shows it until the work has ended.
func (n *Node) AcceptPower(target string, at time.Time) {
	n.Accept(n.ProvisionState, n.TargetProvisionState, at)
	n.PowerGeneration, n.PowerTarget, n.TargetPowerState = n.Generation, target, target
}

// SetMaintenance puts the node into maintenance or takes it out; taking it out
// also acknowledges a fault that a rack reported.
func (n *Node) SetMaintenance(on bool, reason string) {
	n.MaintenanceSet, n.MaintenanceWhy, n.FaultAcked = on, reason, n.FaultNumber
	if !on {
		n.MaintenanceWhy = ""
	}
	n.EmptyTexts.Set("maintenance_reason", false)
	n.Maintenance, n.MaintenanceReason, n.Fault = on, n.MaintenanceWhy, ""
}

// project is the one for which whoever asked for the instance has made it.
func (n *Node) project() string {
	id, _ := n.InstanceInfo["project_id"].(string)
	return id
}

// Lease lends the node to the project of its instance, unless it is lent already. The mark that it
// leaves ends the lease with the instance, as Ironic's automatic_lessee does.
func (n *Node) Lease() {
	if n.Lessee == "" {
		n.Lessee = n.project()
		n.LentTo = n.Lessee
	}
}

// Tenancy changes with the node's owner and lessee and tells neither; it is empty while there are none.
func (n *Node) Tenancy() string {
	if n.Owner == "" && n.Lessee == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(n.Owner + "\x00" + n.Lessee))
	return hex.EncodeToString(sum[:12])
}

// ClearInstance forgets the instance after a tear-down, and ends the lease that Lease made for
// it. A lessee that an operator named stays.
func (n *Node) ClearInstance() {
	if n.LentTo != "" && n.Lessee == n.LentTo {
		n.Lessee = ""
		n.EmptyTexts.Set("lessee", false)
	}
	n.LentTo = ""
	n.InstanceUUID, n.InstanceName, n.AllocationUUID, n.InstanceInfo = "", "", "", nil
}

// Port is a row of ports.
type Port struct {
	UUID            string
	Node            string // UUID
	Address         string // MAC, lower case, colons
	Name            string
	Description     string
	PXEEnabled      bool
	IsSmartNIC      bool
	PhysicalNetwork string
	PortgroupUUID   string
	Vendor          string
	Category        string
	EmptyTexts      EmptyTexts
	// AvailableForDynamicPortgroup: a network interface may put the port into a group.
	AvailableForDynamicPortgroup bool
	LocalLinkConnection          map[string]any
	Extra                        map[string]any
	InternalInfo                 map[string]any
	CreatedAt                    time.Time
	UpdatedAt                    time.Time

	asRead portSight
}

// portSight is what racks see of a port, and which node's rack sees it.
type portSight struct {
	node string
	node.Port
}

func (p *Port) sight() portSight { return portSight{p.Node, p.Document()} }

// Document is the port as its node's rack gets it.
func (p *Port) Document() node.Port {
	return node.Port{UUID: p.UUID, Address: p.Address, PXEEnabled: p.PXEEnabled}
}

// WorkState says where a row of works stands.
type WorkState string

// The states of a work row. A node has at most one open row; the database holds
// that.
const (
	WorkOpen       WorkState = "open"
	WorkEnded      WorkState = "ended"
	WorkSuperseded WorkState = "superseded"
)

// Work is a row of works: a request that a rack carries out.
type Work struct {
	ID          string // UUID
	Node        string
	Group       string // conductor group at the time of the request
	Generation  int64  // the node's, after Accept
	Verb        work.Verb
	Args        work.Args
	RequestID   string
	Entry       provision.State
	EntryTarget provision.State
	State       WorkState
	Owner       string // the rackd that the ring named at the time of the request
	RequestedAt time.Time
	EndedAt     time.Time
	Error       string
}

// Document is the work as the rack gets it.
func (w *Work) Document() work.Document {
	return work.Document{ID: w.ID, Node: w.Node, Group: w.Group, Generation: w.Generation, Verb: w.Verb, Args: w.Args,
		Requested: w.RequestedAt, RequestID: w.RequestID, Entry: w.Entry, EntryTarget: w.EntryTarget,
		State: w.Entry, Target: w.EntryTarget}
}

// HistoryEntry is a row of node_history.
type HistoryEntry struct {
	UUID      string // time-ordered; set by AppendHistory when empty
	Node      string
	CreatedAt time.Time
	Severity  string // "INFO" or "ERROR"
	EventType string // "provisioning", "power", "phase", …
	Event     string // for people
	Conductor string
	User      string
	Work      string
	// Phase and Seconds belong to a phase of a work: what began, and how long the
	// phase before took.
	Phase   string
	Seconds float64
	Project string // of User
	// State and Target are the node's provision state then, and where it was bound for.
	State, Target provision.State
	// Revision is one that the node had in the transaction that wrote the line: what is pruned goes by it (decision 131).
	// AppendHistory reads it when it is 0. Lines of older programs have 0.
	Revision int64
}

// OutboxKind says what the relay is to do.
type OutboxKind string

// The kinds of outbox entry.
const (
	// OutboxNode: make the site's NODES and WORK keys of the node fit the rows.
	// The relay renders both documents from the rows when it gets to it, so many
	// entries about one node cost one write; a node that is gone, or has moved to
	// another group, loses its keys in this entry's group. An accepted request, a
	// changed node or port, a deleted node: all of them are this. That of an accepted
	// request has the work's id as Object; no other entry sends the work out.
	OutboxNode OutboxKind = "node"
	// OutboxDrive: put Payload into the site's CONFIGDRIVES as object Object, which is
	// the id of the work that names it. It comes before that work's OutboxNode entry.
	OutboxDrive OutboxKind = "drive"
)

// Outbox is a row of outbox. Its id is time-ordered: the relay keeps the order.
type Outbox struct {
	ID      string // set by Enqueue
	Kind    OutboxKind
	Node    string
	Group   string
	Object  string
	Payload string // sealed for the group where it is secret
	// Left is the node as the entry's transaction has left it, for those who are told of the
	// entry: they must not change it. It is no column; nil: read it.
	Left *Node
}
