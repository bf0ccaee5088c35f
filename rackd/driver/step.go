package driver

import (
	"context"
	"encoding/json"
	"os"
	"time"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/work"
)

// StepKind says what a successor may do with a step that its owner left unfinished.
type StepKind string

// The kinds of step.
const (
	// Repeatable: running it again from the start is harmless.
	Repeatable StepKind = "repeatable"
	// Reattachable: Task.Handle says how to go on with what was started.
	Reattachable StepKind = "reattachable"
	// Neither: a takeover in the middle of it fails the work.
	Neither StepKind = "neither"
)

// Step is one step of a flow.
type Step struct {
	Interface string // kind of interface: deploy, power, …
	Name      string
	Priority  int // higher runs earlier; only deploy and clean steps are sorted
	Kind      StepKind
	// Retries is how often a failed run is tried again, Pause apart, while the
	// error wraps ErrUnreachable or ErrUnknown.
	Retries int
	Pause   time.Duration
	// Run does the step, or goes on with it. It is called when the step begins,
	// again after each Wait, and again by a successor after a takeover; Task.Handle
	// tells the cases apart. An error ends the work.
	Run func(ctx context.Context, t *Task) (Outcome, error)

	// What follows is of steps that requests, templates and runbooks may name.

	// In are the flows that the step belongs to; 0: cleaning, deploys and service.
	In Flows
	// Takes are the arguments that it takes, by name.
	Takes map[string]Argument
	// Check says what is wrong with the values of arguments whose names fit Takes; nil: nothing is known of them. It looks at
	// the node's fields only. Secrets among the arguments may be sealed.
	Check func(n *node.Document, args map[string]any) error
	// Args are the arguments it was given, within Takes; the conductor sets them.
	Args map[string]any
	// Asked is the place, counted from 1, of the request's step that it stands for; 0: no
	// request asks for it. The plan sets it.
	Asked int
	// Abortable: an abort may cut it short while it waits.
	Abortable bool
	// NoRamdisk: it does not need the ramdisk's agent in the machine.
	NoRamdisk bool
	// Apart: it sends nothing to the machine, its BMC or its agent.
	Apart bool
	// OnChildren: it runs on child nodes, and not on the node's own machine.
	OnChildren bool
	// InBand: the agent runs it.
	InBand bool
	// ReplacesSecrets: it uses Task.Secrets. The work that keeps them is of one node, so no flow of another node may run it.
	ReplacesSecrets bool
	// Boots: it boots the ramdisk, which the node's boot interface has to be able to do.
	Boots bool
	// Discovers: it has asked the agent for its steps (InBand.Offered); the flow goes on
	// with those in it.
	Discovers bool
}

// Flows is a set of flows whose steps have names.
type Flows uint8

// The flows.
const (
	InClean Flows = 1 << iota
	InDeploy
	InService
	InVerify
)

// Has reports whether the step belongs to flow f.
func (s Step) Has(f Flows) bool {
	in := s.In
	if in == 0 {
		in = InClean | InDeploy | InService
	}
	return in&f != 0
}

// String names a single flow as Ironic does.
func (f Flows) String() string {
	return map[Flows]string{InClean: "clean", InDeploy: "deploy", InService: "service", InVerify: "verify"}[f]
}

// Argument of a step.
type Argument struct {
	Description string
	Required    bool
}

// Outcome of one run of a step.
type Outcome struct {
	waiting, held bool
	poll          time.Duration
	again         string // a handle, JSON
}

// Done: the step is complete.
func Done() Outcome { return Outcome{} }

// Wait parks the node in its wait state; the step runs again at the agent's next
// heartbeat, or after poll (zero: heartbeats only), whichever comes first.
func Wait(poll time.Duration) Outcome { return Outcome{waiting: true, poll: poll} }

// Hold parks the node in its hold state until an operator lets it go.
func Hold() Outcome { return Outcome{held: true} }

// Again: a part of the step is done. It runs at once for the next part, with that handle, and has the state's whole time from then on.
func Again(handle json.RawMessage) Outcome { return Outcome{again: string(handle)} }

// Again reports whether the step goes on at once with another part, and with which handle.
func (o Outcome) Again() (handle json.RawMessage, ok bool) {
	return json.RawMessage(o.again), o.again != ""
}

// Held reports whether the step waits for an operator.
func (o Outcome) Held() bool { return o.held }

// Waiting reports whether the step goes on later, and when to look.
func (o Outcome) Waiting() (poll time.Duration, ok bool) { return o.poll, o.waiting }

// Task is one node's work as a step sees it. It belongs to one goroutine.
type Task struct {
	// Node is a copy with open secrets.
	Node     *node.Document
	Hardware *Hardware
	Fence    Fence
	// WorkID names the work; with the step's name it makes command ids that a
	// successor finds again.
	WorkID string
	// LetGo changes when an operator lets the flow go from a hold.
	LetGo string
	// Deploys: the flow deploys an instance, and is no rebuild.
	Deploys bool
	// Entered is when the running step began (the first time, not this run).
	Entered time.Time
	// Taken is when this rackd took the work from another, zero if it did not. Since reads it.
	Taken  time.Time
	Agent  Agent
	Images Images
	// Media are those that the ramdisk boots from; nil: this rackd serves none.
	Media Media
	// Reach returns an error for a URL that a BMC is not told to read for a caller, such as one into the BMCs' own networks;
	// nil: any may be.
	Reach  func(ctx context.Context, url string) error
	Record Recorder
	// Secrets replaces secrets of driver_info at the BMC.
	Secrets Secrets
	// ConfigDrive returns the drive as base64 of a gzipped image, empty for none.
	ConfigDrive func(ctx context.Context) (string, error)
	// Inspected returns the inventory that the ramdisk has sent of its own accord since the
	// work began, nil for none.
	Inspected func() *agentapi.Inventory
	// Args are the running step's arguments, checked against its Takes.
	Args map[string]any
	// Facts are kept in the checkpoint and outlive the step.
	Facts map[string]string
	// Attended reports whether the node is in maintenance, so that its flow parks; nil: it is not. A
	// person may be at the machine (HandsOff).
	Attended func() bool
}

// HandsOff reports whether a step that waits must not restart the machine now. It waits on until it may.
func (t *Task) HandsOff() bool { return t.Attended != nil && t.Attended() }

// Facts that others than the steps read.
const (
	// FactImage is the ID of the image that the work deploys, once it is in the
	// rack's cache: the group's other rackds keep a copy.
	FactImage = "image"
	// FactKernel and FactRamdisk are the IDs of the node's own kernel and ramdisk, once
	// they are in the rack's cache.
	FactKernel  = "kernel"
	FactRamdisk = "ramdisk"

	// FactRAID is set once a step of a RAID interface has begun: the disks of the last inspection
	// are then no longer those of the machine. One on child nodes changes none of the node's own.
	FactRAID = "raid_changed"

	// FactBooted says that this flow has the machine boot the ramdisk. It is saved before
	// the machine is started.
	FactBooted = "booted"

	// FactOnAsked is set while the machine was asked to switch on and was not seen to be on (when, for people). A BMC may take such an
	// order and carry it out minutes later. The end of a flow looks for that.
	FactOnAsked = "on_asked"

	// FactAgentSteps is what the node is to keep of the steps that the ramdisk's agent has told, JSON (node.Document.AgentSteps).
	FactAgentSteps = "agent_steps"
	// FactReadied says that this flow has made the machine's boot into the ramdisk ready, or has begun to: a medium may be
	// inserted. Whoever ends the flow takes it back, also where the machine was never started.
	FactReadied = "readied"

	// FactPrepared says that this flow has made the machine boot the instance that it deploys, or has begun to (Prepares). A deploy that
	// ends without an instance takes that back.
	FactPrepared = "prepared"

	// FactTornDown says that this flow has taken an instance off the machine: what is put into its virtual drives until the flow
	// ends is taken out with it (EmptyDrives), for the node's next user is another.
	FactTornDown = "torn_down"

	// FactInstaller is set while the ramdisk of the flow is an installer, which is no agent: it looks up nothing and reports by
	// agent_status. It says which files that boots (rackd/driver/installer).
	FactInstaller = "installer"
	// FactReported is what that installer has reported, JSON of Reported. It is in the checkpoint before the report is
	// answered.
	FactReported = "installer_reported"

	// FactRestarted says that an operator's request has restarted the machine, or switched it off, while it was to boot its
	// instance next: the ramdisk is over, and its agent does not call again.
	FactRestarted = "restarted_into_instance"

	// FactBoot says what the machine gets when it boots from the network.
	FactBoot     = work.FactBoot
	BootRamdisk  = work.BootRamdisk
	BootInstance = "instance"
)

// Recorder keeps what a step learns.
type Recorder interface {
	// Handle returns what SaveHandle stored for this step, nil for nothing.
	Handle() json.RawMessage
	// SaveHandle writes the checkpoint by compare-and-set: once it returns nil a
	// successor finds the handle. An error wraps ErrFenced when the node is lost.
	SaveHandle(ctx context.Context, handle any) error
	// Now is the time for Agent.Booted to compare with: later than all calls of agents so
	// far, and those that come are later, also when the wall clock is set back or another
	// rackd, whose clock shows another time, goes on with the work.
	Now() time.Time
	// AgentGone says, before the next SaveHandle, that the machine's ramdisk is about to
	// end. If it boots the ramdisk next, the boot is counted with that checkpoint, so that
	// token and id of the boot before fit no more: it is called before the machine is started.
	AgentGone()
	// Phase adds a line to the node's history and timeline. The same line is there once for each boot of the machine.
	Phase(name, detail string)
	// Progress shows how far a write is; it is kept with the next checkpoint.
	Progress(p agentapi.Progress)
	// Observe reports what was read from the machine, together with what earlier calls of
	// the step have told.
	Observe(o hardware.Observation)
	// Inventory reports what the agent found.
	Inventory(inv agentapi.Inventory)
	// Busy says that the machine's BMC works for the step: before the step asks it to, and
	// whenever the BMC answers that it still does. far is whatever tells how far it is. Until
	// Idle the machine's power is left alone, by a flow that fails and by requests. It is
	// kept with the next checkpoint.
	Busy(far string)
	// ChildBusy is Busy of the BMC of a child node, for a step that runs on that: the flow's own machine may be switched.
	ChildBusy(child, far string)
	// Idle says that the BMC has ended it, well or not.
	Idle()
}

// Agent is the agent in the machine's ramdisk.
type Agent interface {
	// Booted reports whether an agent has called since t, which is of Recorder.Now.
	Booted(since time.Time) bool
	// Host is the address at which the agent is called; empty before its first call.
	Host() string
	// Start begins a command under id; an agent that knows the id answers with
	// that command. It is sent once: after ErrUnreachable the command may run. Errors wrap
	// ErrUnreachable, ErrFenced or say what the agent answered.
	Start(ctx context.Context, f Fence, id, name string, params any) (agentapi.Command, error)
	// Call runs a command and waits for its end. One that is not answered is sent again.
	Call(ctx context.Context, f Fence, id, name string, params any) (agentapi.Command, error)
	// Command asks for a command; ok is false when the agent does not know the id.
	Command(ctx context.Context, id string) (c agentapi.Command, ok bool, err error)
	// Commands lists the commands that were given to the agent since it started, in
	// their order.
	Commands(ctx context.Context) ([]agentapi.Command, error)
}

// Images gives the agent something to download.
type Images interface {
	// Prepare fetches the image into the rack's cache, verified, and returns the
	// URLs to hand to the agent: this rackd's first, then those of its neighbours,
	// which have a copy or soon will.
	Prepare(ctx context.Context, src ImageSource) (urls []string, err error)
	// PrepareDisk is Prepare for an image of a disk. It tells by the content how the image is stored, refuses one that
	// refers to other files, and converts once what agents do not read. The URLs lead to what came out of it.
	PrepareDisk(ctx context.Context, src ImageSource) (DiskImage, error)
	// Verify compares the image in the rack's cache with its checksum; a damaged one is dropped, so that
	// the next Prepare fetches it again. It reports whether the image was whole.
	Verify(ctx context.Context, src ImageSource) (whole bool, err error)
	// Latest brings the newest version of a file that has no checksum into the rack's
	// cache and returns its ID there.
	Latest(ctx context.Context, url string) (id string, err error)
}

// ImageFiles opens images of the rack's cache here. The Images of rackds that serve machines implement it.
type ImageFiles interface {
	// File opens an image that Prepare or PrepareDisk has brought there, by its ID. It stays in the cache until done is called.
	File(id string) (f *os.File, done func(), err error)
}

// ImageSource is an image as a node's fields describe it.
type ImageSource struct {
	// URL is http, https, file or oci. HashValue is hex, or the URL of a file of checksums. Both hashes may be empty for
	// file, and are not read for oci.
	URL, HashAlgo, HashValue string
	// Format and Compression are as declared; empty: the content tells. NotCompressed says that it is not.
	Format, Compression string
	// Arch is the machine's architecture, where a registry has an image for each.
	Arch string
	// Authorization is the value of that header, a secret; Proxies are those of the node.
	Authorization string
	// InTheClear are the hosts, separated by commas, that may be shown Authorization without TLS. It counts for registries alone: rackd's
	// configuration says which have no TLS. Empty: none. AnyHost: all.
	InTheClear string
	Proxies    ImageProxies
	// Machine is the machine's address, which tells by which network it loads; empty: it is not known.
	Machine string
	// Given is the receipt of the image that the work has had from this source before, on this rackd or another.
	Given string
	// Seekable: a qcow2 file within a compression is unpacked once, for a writer that reads it out of order.
	Seekable bool
}

// NotCompressed is the declaration that an image is stored as it is.
const NotCompressed = "none"

// AnyHost in ImageSource.InTheClear stands for all hosts: the credentials are of the user who named the registry. No host has this name.
const AnyHost = "any host"

// ImageProxies are those that a node's images are fetched through; all empty: those of rackd's environment.
type ImageProxies struct{ HTTP, HTTPS, No string }

// DiskImage is an image in the rack's cache, as agents are given it.
type DiskImage struct {
	// URLs are this rackd's first, then those of its neighbours, which have a copy or soon will.
	URLs                []string
	HashAlgo, HashValue string // of the file
	Format              string // raw or qcow2
	Compression         string // "", gzip, zstd or xz
	// Converted is the format that the image was converted from, and Unpacked the compression that it was within; empty: it is as its
	// source has it.
	Converted, Unpacked string
	// Receipt says that this image was given for the source. A rackd of the group takes it as ImageSource.Given.
	Receipt string
}

// ID names the image's content in the caches of the rack.
func (i DiskImage) ID() string { return i.HashAlgo + "-" + i.HashValue }

// ID names the image's content in the caches of the rack.
func (s ImageSource) ID() string { return s.HashAlgo + "-" + s.HashValue }
