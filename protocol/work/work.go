// Package work is the work document: the one piece of work in flight on a node,
// kept under <group>.<uuid> in the WORK bucket, and the events that report it.
//
// It may import protocol/provision, protocol/agentapi, protocol/hardware,
// protocol/seal and protocol/smbios. Central creates the document, or replaces it
// by one of a higher generation (an abort, a tear-down during a deploy); the owning
// rackd updates it. Every write is compare-and-set on the bucket's revision: that
// is the fence. Epoch grows with each change of owner and with each replacement: a
// rackd that holds an older epoch has lost the node.
package work

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/smbios"
)

// Document is one piece of work on one node.
type Document struct {
	// What central asked for; rackd never changes these.
	ID         string    `json:"id"`
	Node       string    `json:"node"`
	Group      string    `json:"group,omitempty"`
	Generation int64     `json:"generation"`
	Verb       Verb      `json:"verb"`
	Args       Args      `json:"args"`
	Requested  time.Time `json:"requested"`
	RequestID  string    `json:"request_id,omitempty"`
	// Code shows that central made the document: see Sign.
	Code []byte `json:"code,omitempty"`
	// Entry and EntryTarget are the states the request put the node in.
	Entry       provision.State `json:"entry"`
	EntryTarget provision.State `json:"entry_target,omitempty"`

	// What the owner has done; only the owner changes these.
	Owner      string          `json:"owner,omitempty"` // rackd's name
	Lease      string          `json:"lease,omitempty"` // the owner's, under which it took the work
	Epoch      uint64          `json:"epoch"`
	State      provision.State `json:"state"`
	Target     provision.State `json:"target,omitempty"`
	Seq        uint64          `json:"seq"` // last event published in this epoch
	Checkpoint Checkpoint      `json:"checkpoint"`
	Result     *Result         `json:"result,omitempty"` // set: the work has ended
	// Lost: the bus had lost the document, and it was written anew. More may have
	// happened than it says.
	Lost bool `json:"lost,omitempty"`

	Unknown Unknown `json:"-"`
}

// Verb is what a piece of work does.
type Verb string

// The verbs. Those of the state machine bear the names of its events.
const (
	Manage   = Verb(provision.EventManage)
	Provide  = Verb(provision.EventProvide)
	Clean    = Verb(provision.EventClean)
	Inspect  = Verb(provision.EventInspect)
	Deploy   = Verb(provision.EventDeploy)
	Rebuild  = Verb(provision.EventRebuild)
	Delete   = Verb(provision.EventDelete)
	Adopt    = Verb(provision.EventAdopt)
	Rescue   = Verb(provision.EventRescue)
	Unrescue = Verb(provision.EventUnrescue)
	Service  = Verb(provision.EventService)
	Abort    = Verb(provision.EventAbort)
	// Power changes the power state; the provision state stays.
	Power = Verb("power")
	// Adjust changes one thing about the machine (Args.Change); the provision state stays.
	Adjust = Verb("adjust")
)

// Parks reports whether a flow begins no step while its node is in maintenance, and has no deadline: a
// person may be at the machine. An abort goes on. So does, as in Ironic, what was asked for in
// maintenance; of that a rack parks the steps of the ramdisk's agent, which Ironic does not order
// then. A central from before decision 76 does not say whether a request was made in maintenance: its
// requests go on as they did then.
func Parks(v Verb, a *Args) bool {
	asked := v == Manage || v == Adopt || v == Inspect || v == Delete || v == Provide
	return !v.Rests() && v != Abort && !a.AbortAfter && !(asked && (a.InMaintenance || a.From == provision.NoState))
}

// ParksInBand reports whether a flow that does not park otherwise begins no step of the ramdisk's agent
// while its node is in maintenance.
func ParksInBand(v Verb) bool { return v == Delete || v == Provide }

// Rests reports whether the provision state stays while v is carried out, and
// whatever becomes of it.
func (v Verb) Rests() bool { return v == Power || v == Adjust }

// Args are a verb's arguments.
type Args struct {
	// PowerTarget is a power target of the API: "power on", "rebooting", ….
	PowerTarget string `json:"power_target,omitempty"`
	// TimeoutSeconds bounds each change of power; 0: the default.
	TimeoutSeconds int `json:"timeout_s,omitempty"`
	// ConfigDrive names the object in the CONFIGDRIVES store; empty for none.
	ConfigDrive string `json:"configdrive,omitempty"`
	// Steps are the request's clean_steps, deploy_steps or service_steps, and those of
	// what it names: a runbook, the deploy templates of the instance's traits.
	Steps []Step `json:"steps,omitempty"`
	// DisableRamdisk: run the steps without booting the ramdisk.
	DisableRamdisk bool `json:"disable_ramdisk,omitempty"`
	// AbortedStep is what was running when an abort was asked for.
	AbortedStep string `json:"aborted_step,omitempty"`
	// Continues is the id of the work whose flow this one goes on with, where that
	// stands: an operator has let it go from a hold, wants it to end soon, or asks
	// something of the machine meanwhile (see Errand).
	Continues string `json:"continues,omitempty"`
	// LetGo is the id of the work by which an operator let the flow go from its last hold.
	LetGo string `json:"let_go,omitempty"`
	// Supersedes is the id of the open work whose place this one takes.
	Supersedes string `json:"supersedes,omitempty"`
	// AbortAfter: the flow ends after the step that runs.
	AbortAfter bool `json:"abort_after,omitempty"`
	// Aborts is the verb of the flow that an abort ends; it goes on with that flow (Continues),
	// so that the rack decides by the checkpoint what may be cut short.
	Aborts Verb `json:"aborts,omitempty"`
	// AbortedBoot is what the machine was told to boot then, see FactBoot.
	AbortedBoot string `json:"aborted_boot,omitempty"`
	// InRamdisk: a service begins on a machine that one before has left in the ramdisk, held or failed.
	InRamdisk bool `json:"in_ramdisk,omitempty"`
	// InMaintenance: the request was accepted while the node was in maintenance.
	InMaintenance bool `json:"in_maintenance,omitempty"`
	// From is the state in which the request found the node; empty where an older central
	// made the work.
	From provision.State `json:"from,omitempty"`
	// Change is what Adjust does.
	Change *Change `json:"change,omitempty"`

	Unknown Unknown `json:"-"`
}

// Change is one thing about a machine that is to be otherwise: one field is set.
type Change struct {
	BootMode   string      `json:"boot_mode,omitempty"` // uefi or bios
	SecureBoot *bool       `json:"secure_boot,omitempty"`
	Console    *bool       `json:"console,omitempty"` // start or stop it
	Vendor     *VendorCall `json:"vendor,omitempty"`
	Media      *Media      `json:"media,omitempty"`

	Unknown Unknown `json:"-"`
}

// Media puts an image into a virtual drive, or empties drives.
type Media struct {
	// Types of the drives (hardware.MediaTypes): one to put an image into; to empty, none
	// means all.
	Types []string `json:"types,omitempty"`
	// Image is the image's URL, sealed for the group and the work: it may hold a password.
	// Empty: the drives are emptied.
	Image string `json:"image,omitempty"`

	Unknown Unknown `json:"-"`
}

// VendorCall calls a method of the node's vendor interface.
type VendorCall struct {
	Method     string `json:"method"`
	HTTPMethod string `json:"http_method"`
	// Data is the body, JSON, sealed for the group and the work: it may hold secrets.
	Data string `json:"data"`

	Unknown Unknown `json:"-"`
}

// Step is a step that somebody asked for.
type Step struct {
	Interface string `json:"interface"`
	Step      string `json:"step"`
	// Args are its arguments; secrets among them are sealed under StepLabel.
	Args     map[string]any `json:"args,omitempty"`
	Priority int            `json:"priority,omitempty"`
	// OnChildren: it runs on the node's children instead, all of them in Children by UUID.
	OnChildren bool     `json:"on_children,omitempty"`
	Children   []string `json:"children,omitempty"`
	// Origin says who asks for the step, for people: empty for the request itself, else
	// "template NAME" or "runbook NAME".
	Origin string `json:"origin,omitempty"`

	Unknown Unknown `json:"-"`
}

// Checkpoint is where the work stands. It is written before each step begins and
// whenever a step has learnt something that its successor must know.
type Checkpoint struct {
	Step  string `json:"step,omitempty"` // the step begun last
	Index int    `json:"index"`          // its place in the flow
	// Plan is the list of steps that the flow runs, fixed by the owner that made it: an owner
	// of another version, or with other flags, runs this list or fails.
	Plan []Planned `json:"plan,omitempty"`
	// Aborting: Plan is what an abort still does.
	Aborting bool `json:"aborting,omitempty"`
	// Way is that to the machine's BMC when the flow began (rackd/driver, WayToBMC); empty: an older rackd began it.
	Way string `json:"way,omitempty"`
	// Touched: the flow may have sent something to the machine, its BMC or its agent.
	Touched bool      `json:"touched,omitempty"`
	Phase   Phase     `json:"phase,omitempty"`
	Entered time.Time `json:"entered,omitzero"` // when the step began
	// Deadline of the state the node is in; past it the work fails.
	Deadline time.Time `json:"deadline,omitzero"`
	// Handle lets another rackd re-attach to what the step started.
	Handle json.RawMessage `json:"handle,omitempty"`
	// Boot is the newest boot into the ramdisk that an owner of the flow has caused.
	Boot  Boot   `json:"boot,omitzero"`
	Agent *Agent `json:"agent,omitempty"`
	// Mark is the newest time that a step has told apart the agent's calls by. Whoever
	// runs the work next counts on from it, or from the agent's last call, whatever its
	// clock shows.
	Mark time.Time `json:"mark,omitzero"`
	// Progress of the running step, for people.
	Progress json.RawMessage `json:"progress,omitempty"`
	// Facts learnt by earlier steps (for instance the disk written).
	Facts map[string]string `json:"facts,omitempty"`
	// Errand is how far the work's errand has come.
	Errand Errand `json:"errand,omitzero"`
	// Over is how the flow had ended before the work that goes on with it was there: the
	// request came too late for the flow, and its errand is all that is left to do.
	Over *Result `json:"over,omitempty"`
	// Leaving is how the flow fails: that is decided, and its machine is being left as that asks for. Nil: it does not.
	Leaving *Leaving `json:"leaving,omitempty"`
	// BMC is what the machine's BMC does for the running step; nil: nothing.
	BMC *Busy `json:"bmc,omitempty"`
	// Secrets are those of driver_info that the flow, or one before it, replaces at the BMC. Each stays here until the node's
	// document shows it.
	Secrets []Secret `json:"secrets,omitempty"`
	// Unfinished is the step of a flow before, whose place this one takes, for which the BMC may still be at
	// work. The machine's power is left alone until that is over. Nil: there is none.
	Unfinished *Unfinished `json:"unfinished,omitempty"`
	// Parked says since when the flow's time stands still; zero: it does not.
	Parked Parked `json:"parked,omitzero"`
	// Untold goes along with the next event.
	Untold []Line `json:"untold,omitempty"`

	Unknown Unknown `json:"-"`
}

// Leaving is the failure of a flow. Its owner writes it before the failure does anything to the machine. The next
// owner does the rest of it, and does not run the step again.
type Leaving struct {
	Error  string          `json:"error"`
	Fault  string          `json:"fault,omitempty"`
	State  provision.State `json:"state"`
	Target provision.State `json:"target,omitempty"`
	// Aborted: an operator wanted the end.
	Aborted bool `json:"aborted,omitempty"`
	// Late: the deadline has ended the flow, or a rackd that could not look at the step of an owner before. What the
	// machine's agent does goes on until the machine is off or reset.
	Late bool `json:"late,omitempty"`

	Unknown Unknown `json:"-"`
}

// Planned is one step of the list that a flow runs.
type Planned struct {
	Interface string `json:"i"`
	Step      string `json:"s"`
	Priority  int    `json:"p,omitempty"`
	// Asked is the place in Args.Steps, counted from 1, of the step that a request asks for;
	// its arguments are there. 0: no request asks for it.
	Asked int `json:"a,omitempty"`
	// Boots: the step makes the machine boot the ramdisk. A rackd that has no such step knows by it what is to be taken back.
	Boots bool `json:"b,omitempty"`

	Unknown Unknown `json:"-"`
}

// Boot is a boot of a machine into the ramdisk. Its owner counts it before it causes it; nothing
// that a machine or a stranger asks for changes the number. An agent's token and the id in
// its URL are derived from the number, so those of an earlier boot fit no more.
type Boot struct {
	Number uint64 `json:"number,omitempty"`
	// Addresses are those that DHCP has given to the node's ports: leased when the boot was counted, or since, the newest last.
	Addresses []netip.Addr `json:"addresses,omitempty"`
	// System is the machine on which the flow's first agent ran, as that told. It outlives the boot.
	System smbios.System `json:"system,omitzero"`
	// BMC is the machine of the node's BMC, as that told the flow; it outlives the boot too.
	BMC smbios.System `json:"bmc,omitzero"`

	Unknown Unknown `json:"-"`
}

// maxAddresses bounds Boot.Addresses: eight cards with one address by IPv4 and two by IPv6, and some that others ask for in their names.
const maxAddresses = 32

// Next returns the boot after b. Epoch is the work's: after the bus has lost documents it
// has grown by more than there were boots that nobody remembers.
func (b Boot) Next(epoch uint64) Boot {
	return Boot{Number: max(b.Number+1, epoch), System: b.System, BMC: b.BMC}
}

// WithAddress returns b with an address that DHCP has given, and whether that is new. The one that was told of last is the last to go:
// a server tells its own again after each that it has overheard.
func (b Boot) WithAddress(a netip.Addr) (Boot, bool) {
	known := slices.Contains(b.Addresses, a)
	list := append(slices.DeleteFunc(slices.Clone(b.Addresses), func(had netip.Addr) bool { return had == a }), a)
	b.Addresses = list[max(0, len(list)-maxAddresses):]
	return b, !known
}

// Full reports whether another address takes the place of an older one.
func (b Boot) Full() bool { return len(b.Addresses) >= maxAddresses }

// Busy is what a BMC was asked for, and may still be at work on. The machine's power is left alone
// meanwhile.
type Busy struct {
	// Far is whatever the BMC tells of how far it is, and Since is when it last told something else.
	Far   string    `json:"far,omitempty"`
	Since time.Time `json:"since,omitzero"`
	// Child is the child node whose BMC it is, of a step that runs on child nodes; empty: it is the node's own.
	Child string `json:"child,omitempty"`

	Unknown Unknown `json:"-"`
}

// Unfinished is a step that has begun, of a flow that has ended with it, and what it takes to look how far it is.
type Unfinished struct {
	// Root is the id of the work whose flow it was; secrets among Args are sealed for it.
	Root    string            `json:"root"`
	Verb    Verb              `json:"verb"`
	Args    Args              `json:"args"`
	Plan    []Planned         `json:"plan"`
	Index   int               `json:"index"`
	Step    string            `json:"step"`
	Entered time.Time         `json:"entered,omitzero"`
	Handle  json.RawMessage   `json:"handle,omitempty"`
	Facts   map[string]string `json:"facts,omitempty"`

	Unknown Unknown `json:"-"`
}

// unfinished is what d leaves to work that takes its place and does not go on with it; nil: nothing.
func (d *Document) unfinished() *Unfinished {
	cp := &d.Checkpoint
	if !d.Open() || cp.BMC == nil || cp.Step == "" || cp.Phase == Ended {
		return nil
	}
	return &Unfinished{Root: d.Root(), Verb: d.Flow(), Args: d.Args, Plan: cp.Plan, Index: cp.Index, Step: cp.Step, Entered: cp.Entered, Handle: cp.Handle, Facts: cp.Facts}
}

// Parked is how a flow stands whose node is in maintenance (Parks).
type Parked struct {
	Since time.Time `json:"since"`
	// Left is what was left of the state's deadline then; 0 where it has none.
	Left time.Duration `json:"left,omitempty"`
	// Before is the step before which the flow stands; empty while a step runs.
	Before string `json:"before,omitempty"`

	Unknown Unknown `json:"-"`
}

// Is reports whether the flow's time stands still.
func (p Parked) Is() bool { return !p.Since.IsZero() }

// Errand is how far a work's errand (Document.Errand) has come.
type Errand struct {
	Phase Phase `json:"phase,omitempty"` // empty: nothing was done yet
	// Step is the last step of the errand that has ended and is not its last one; empty: none.
	Step string `json:"step,omitempty"`
	// Error is why it failed, of one that has ended.
	Error string `json:"error,omitempty"`
	// Told: central has been told of its end. Whoever finds one that was not tells of it.
	Told bool `json:"told,omitempty"`
	// Before is what runs on if a reset that the errand has counted has not happened. Nil: it has counted none, or has ended.
	Before *Before `json:"before,omitempty"`

	Unknown Unknown `json:"-"`
}

// Before is a boot into the ramdisk with its agent, as they were when the next boot was counted.
type Before struct {
	Boot Boot `json:"boot"`
	// Agent has the code of that boot: see SignAgent.
	Agent Agent `json:"agent"`

	Unknown Unknown `json:"-"`
}

// FactBoot is the fact that says what the machine gets when it boots from the network.
const FactBoot = "boot"

// BootRamdisk is what FactBoot says of a machine that gets the ramdisk.
const BootRamdisk = "ramdisk"

// ServiceRamdisk is the key of driver_internal_info that says whether a service which failed
// has left the machine in the ramdisk: an abort then brings it back into its instance.
const ServiceRamdisk = "service_in_ramdisk"

// Phase of a step.
type Phase string

// The phases.
const (
	Begun   Phase = "begun"   // the side effect may or may not have happened
	Started Phase = "started" // it has: Handle says how to re-attach
	Ended   Phase = "ended"
)

// Agent is what is known of the agent that works for us.
type Agent struct {
	URL        string    `json:"url,omitempty"`       // base URL of its API
	VerifyCA   string    `json:"verify_ca,omitempty"` // PEM
	Version    string    `json:"version,omitempty"`
	BootID     string    `json:"boot_id,omitempty"`
	TokenGiven bool      `json:"token_given,omitempty"`
	LastSeen   time.Time `json:"last_seen,omitzero"`
	// Code shows that a rackd of the node's group pinned this agent: see SignAgent.
	Code []byte `json:"code,omitempty"`

	Unknown Unknown `json:"-"`
}

// Result is how the work ended.
type Result struct {
	OK    bool      `json:"ok"`
	Error string    `json:"error,omitempty"`
	At    time.Time `json:"at"`
	// What central is to do with the node besides; see Event.
	SetMaintenance bool   `json:"set_maintenance,omitempty"`
	Fault          string `json:"fault,omitempty"`
	ClearInstance  bool   `json:"clear_instance,omitempty"`
	// Power is the state in which the work has left the machine; empty: not known.
	Power string `json:"power,omitempty"`
	// Source is of an inspection.
	Source Source `json:"source,omitempty"`

	Unknown Unknown `json:"-"`
}

// Supersedes reports whether a document of that generation may take the place of d.
func (d *Document) Supersedes(old *Document) bool {
	return old == nil || d.Generation > old.Generation
}

// Inherit puts into d, which no rackd has begun, what it takes over from the work whose place it takes.
// Work that goes on with the flow takes over where that stands, with its agent. An abort takes over what was cut short.
// An undeploy takes over what the BMC is still at work on. A service takes over that the one before has left the
// machine in the ramdisk. All three take over the secrets that were replaced.
// The agent of one flow is none of another: its token and its code are of the first.
func (d *Document) Inherit(old *Document) {
	switch {
	case d.Continues(old):
		if d.Verb == Abort {
			d.Args.AbortedStep, d.Args.AbortedBoot = old.Checkpoint.Step, old.Checkpoint.Facts[FactBoot]
		}
		d.Checkpoint, d.Lost = old.Checkpoint, d.Lost || old.Lost
		if d.Verb != Abort || d.Args.Supersedes != old.ID { // else the abort has taken it over
			d.Checkpoint.Errand = Errand{} // that was the old one's
		}
		if old.Result != nil {
			d.Checkpoint.Over = old.Result
		}
		if d.Checkpoint.Over != nil {
			d.State, d.Target = old.State, old.Target
		}
	case d.Verb == Abort:
		d.Args.AbortedStep = old.Checkpoint.Step // for people: what was cut short
		d.Args.AbortedBoot = old.Checkpoint.Facts[FactBoot]
		d.Checkpoint.Secrets, d.Checkpoint.Way = old.Checkpoint.Secrets, old.Checkpoint.Way
	case d.Verb == Service && old.Verb == Service && old.Open():
		d.Args.InRamdisk = old.Checkpoint.Facts[FactBoot] == BootRamdisk || old.Args.InRamdisk && old.Checkpoint.Facts[FactBoot] == ""
		d.Checkpoint.Secrets = old.Checkpoint.Secrets
	case d.Verb == Delete:
		d.Checkpoint.Secrets = old.Checkpoint.Secrets
		if d.Checkpoint.Unfinished = old.unfinished(); d.Checkpoint.Unfinished != nil {
			d.Checkpoint.BMC = old.Checkpoint.BMC
		}
	}
}

// Continues reports whether d goes on with the flow that old is or goes on with.
func (d *Document) Continues(old *Document) bool {
	return d.Args.Continues != "" && d.Args.Continues == old.Root()
}

// LostEpochs is by how much the epoch grows when a document is written anew that the
// bus had lost: more than the changes of owner that the writer may not know of.
const LostEpochs = 1 << 16

// Flow is the verb of the flow that d runs or, of an abort, ends.
func (d *Document) Flow() Verb {
	if d.Verb == Abort && d.Args.Aborts != "" {
		return d.Args.Aborts
	}
	return d.Verb
}

// Root is the id of the work whose flow this is: agents know it by that one.
func (d *Document) Root() string {
	if d.Args.Continues != "" {
		return d.Args.Continues
	}
	return d.ID
}

// Fresh reports whether no rackd has ever taken the work.
func (d *Document) Fresh() bool { return d.Owner == "" && d.Seq == 0 }

// Errand is what is asked of the machine before the flow that waits goes on: Power or
// Adjust, with their arguments, empty for nothing. The work has another verb, the flow's. An abort has what the work
// was to do whose place it takes: it is ended as far as it has begun.
func (d *Document) Errand() Verb { return d.Args.errand(d.Verb) }

func (a *Args) errand(flow Verb) Verb {
	switch {
	case flow.Rests():
		return ""
	case a.PowerTarget != "":
		return Power
	case a.Change != nil:
		return Adjust
	}
	return ""
}

// Open reports whether the work has not ended.
func (d *Document) Open() bool { return d.Result == nil }

// EventID is the message id of event seq of the work: JetStream drops repeats.
func EventID(workID string, epoch, seq uint64) string {
	return fmt.Sprintf("%s/%d/%d", workID, epoch, seq)
}
