package driver

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/work"
)

// What interfaces may be able to do besides, most of them those of management.

// SecureBooter switches secure boot.
type SecureBooter interface {
	// SecureBoot and SetSecureBoot wrap ErrUnsupported for machines without.
	SecureBoot(ctx context.Context, n *node.Document) (bool, error)
	SetSecureBoot(ctx context.Context, f Fence, n *node.Document, on bool) error
}

// HealthReader reads a machine's health.
type HealthReader interface {
	// Health returns hardware.OK, Warning or Critical; empty: the BMC does not say.
	Health(ctx context.Context, n *node.Document) (string, error)
}

// VendorDetector tells who made a machine.
type VendorDetector interface {
	// DetectVendor returns the vendor as its BMC has it, empty where it does not say.
	DetectVendor(ctx context.Context, n *node.Document) (string, error)
}

// OneStartClearer is implemented by management interfaces whose BMCs can be told that no device is set for one start any more.
type OneStartClearer interface {
	// ClearOneStart takes back a boot device that is set for one start, and reads back. One that is set for all starts stays. Where none is
	// set for one start, nothing is written.
	ClearOneStart(ctx context.Context, f Fence, n *node.Document) error
}

// HTTPBooter has a machine's UEFI firmware load what it boots by HTTP.
type HTTPBooter interface {
	// SetHTTPBoot makes UEFI HTTP the boot device, as SetBootDevice does, with the URL to boot; empty: the one that DHCP
	// tells. It reads the URL back: an error says that the firmware would boot another.
	SetHTTPBoot(ctx context.Context, f Fence, n *node.Document, url string, persistent bool) error
}

// InstanceLoader is implemented by boot interfaces whose instance may be an image at a URL, which the machine's firmware loads at each
// start.
type InstanceLoader interface {
	// InstanceURL is the URL that the node names for it; empty: the firmware loads none, or one that a rackd serves (KeepInstance).
	InstanceURL(n *node.Document) string
}

// Clock is the clock of a BMC.
type Clock interface {
	// Clock reads it; ErrUnsupported where the BMC shows none.
	Clock(ctx context.Context, n *node.Document) (time.Time, error)
	// SetClock sets it and reads it back. offset is the local time's from UTC, as in "+02:00"; empty: it stays.
	SetClock(ctx context.Context, f Fence, n *node.Document, at time.Time, offset string) error
}

// Observer reads boot mode, secure boot and health in one go, where each question costs.
// What the BMC does not tell is nil.
type Observer interface {
	Observe(ctx context.Context, n *node.Document) (hardware.Observation, error)
}

// Indicators switches the lights of a machine. An indicator that is not there is
// ErrInvalid.
type Indicators interface {
	Indicators(ctx context.Context, n *node.Document) ([]hardware.Indicator, error)
	Indicator(ctx context.Context, n *node.Document, component, name string) (state string, err error)
	SetIndicator(ctx context.Context, f Fence, n *node.Document, component, name, state string) error
}

// VirtualMedia puts images into the drives that a BMC shows to its machine.
type VirtualMedia interface {
	Media(ctx context.Context, n *node.Document) ([]hardware.Media, error)
	// AttachMedia replaces what is in the drive of that type (hardware.MediaTypes).
	AttachMedia(ctx context.Context, f Fence, n *node.Document, mediaType, url string) error
	// DetachMedia empties the drives of those types; none: all drives. An empty drive
	// is fine.
	DetachMedia(ctx context.Context, f Fence, n *node.Document, mediaTypes []string) error
	// EjectImage empties the drives of that type whose image is meant, and returns once the BMC shows them empty. It
	// leaves other images where they are.
	EjectImage(ctx context.Context, f Fence, n *node.Document, mediaType string, meant func(image string) bool) error
}

// MediaTruster is implemented by management interfaces whose BMCs may verify the servers of images.
type MediaTruster interface {
	// TrustMedia has the drives of that type load images by https from servers with one of these certificates, or one issued by them,
	// alone (PEM). It reads back. An error wraps ErrUnsupported where a drive verifies nothing.
	TrustMedia(ctx context.Context, f Fence, n *node.Document, mediaType string, certificates []string) error
	// VerifiesMedia says why drives of that type cannot be told so, as TrustMedia would; it only reads.
	VerifiesMedia(ctx context.Context, n *node.Document, mediaType string) error
}

// MediumBooter is implemented by boot interfaces whose ramdisk is a medium in a drive of the machine. The medium stays
// where it is while the machine may run from it.
type MediumBooter interface {
	// BootsFromMedium reports whether the medium is in a drive, and not a file that firmware has loaded.
	BootsFromMedium() bool
	// InstanceOnMedium reports whether the node's instance runs from a medium in a drive, too.
	InstanceOnMedium(n *node.Document, facts map[string]string) bool
}

// VolumeBooter is implemented by boot interfaces whose instance may be a volume (rackd/driver/volume).
type VolumeBooter interface {
	// ValidateVolume says why the node's machine cannot boot its volume by the interface; it wraps ErrInvalid or ErrUnsupported.
	ValidateVolume(h *Hardware, n *node.Document) error
	// AdoptVolume returns an error where the machine, which runs already, does not boot its volume at its next start. It only reads.
	AdoptVolume(ctx context.Context, t *Task) error
}

// RescueBooter is implemented by boot interfaces that boot a ramdisk for rescues, in the states rescuing and rescue wait.
type RescueBooter interface {
	// ValidateRescue looks at the node's fields that name its own ramdisk for rescues, and whether the rack has one for a node that
	// names none; it wraps ErrInvalid.
	ValidateRescue(n *node.Document) error
}

// Sourced is implemented by inspect interfaces that boot no ramdisk.
type Sourced interface {
	// Source says who tells what is found. Central asks no BMC for what only a ramdisk can tell.
	Source() work.Source
}

// Source says who tells what an inspection of the node finds.
func (h *Hardware) Source() work.Source {
	if s, ok := h.impls["inspect"].Impl.(Sourced); ok {
		return s.Source()
	}
	return work.FromRamdisk
}

// Located is implemented by management interfaces that reach a BMC at an address which they are told, and by no other way:
// an agent need not look for the address.
type Located interface {
	// LocatesBMC does nothing; it tells these interfaces from the others.
	LocatesBMC()
}

// FixedBootOrder is implemented by management interfaces of machines whose firmware cannot be told what to boot: it tries the
// network first and then the disk. What the network answers decides.
type FixedBootOrder interface {
	// FixedBootOrder does nothing; it tells these interfaces from the others.
	FixedBootOrder()
}

// Keeper is implemented by management interfaces that keep something of a node between
// calls, which must hold at every rackd: the conductor reports it to central after each
// write, and the node's document brings it back to all.
type Keeper interface {
	// Kept returns what to keep, nil when the document has it already.
	Kept(n *node.Document) json.RawMessage
}

// Keep reports what the node's drivers are to keep, after a write of a step.
func (t *Task) Keep() {
	var o hardware.Observation
	if t.Hardware.Remember(t.Node, &o); o.Kept != nil {
		t.Record.Observe(o)
	}
}

// SetPower asks the node's power interface for a state, and reports what that has changed of what the drivers keep: an order to start may
// use up a boot device for one start.
func (t *Task) SetPower(ctx context.Context, target PowerState) error {
	err := t.Hardware.Power().SetPower(ctx, t.Fence, t.Node, target)
	t.Keep()
	return err
}

// OnAsked notes that the machine is asked to switch on about now.
func (t *Task) OnAsked() { t.Facts[FactOnAsked] = time.Now().UTC().Format(time.RFC3339) }

// factBootSet is the boot device that the flow has set for all starts last. The node's document may show the one before.
const factBootSet = "boot_set"

// noBootSet is in its place where the flow has set the instance's device for one start: none is held.
const noBootSet = "none"

// BootSet reports which boot device was set for all starts, so that rackds hold it (rackd/bootguard).
// It does so also where the node's document shows that device: a request may have set another just before the flow, of which the document
// does not show yet.
func (t *Task) BootSet(d BootDevice) {
	if _, fixed := t.Hardware.Management().(FixedBootOrder); fixed || t.Facts[factBootSet] == string(d) {
		return
	}
	text := string(d)
	t.Facts[factBootSet] = text
	t.Record.Observe(hardware.Observation{BootSet: &text})
}

// BootFor reports a boot device that was set: asked says that it is for the instance and so for all starts, and lasts that it was set so.
// The field force_persistent_boot_device may have it set for one start instead. Then the device of before is held no more, for it would
// take the place of the instance's.
func (t *Task) BootFor(d BootDevice, asked, lasts bool) {
	switch {
	case lasts:
		t.BootSet(d)
	case asked && t.LastBootSet() != "":
		t.Facts[factBootSet] = noBootSet
		t.Record.Observe(hardware.Observation{BootSet: new(string)})
	}
}

// LastBootSet is the boot device that was set for all starts, by this flow or before it; empty: none is known.
func (t *Task) LastBootSet() BootDevice {
	if t.Facts[factBootSet] == noBootSet {
		return ""
	}
	return BootDevice(cmp.Or(t.Facts[factBootSet], t.Node.BootSet))
}

// BootWasSet reports whether one of these boot devices was set for all starts: by this flow last, or before it, as the node's document
// says.
func (t *Task) BootWasSet(of ...BootDevice) bool {
	return slices.Contains(of, t.LastBootSet()) || slices.Contains(of, BootDevice(t.Node.BootSet))
}

// Remember adds what the node's drivers keep to what is reported of the machine.
func (h *Hardware) Remember(n *node.Document, o *hardware.Observation) {
	with := *n
	for _, impl := range []any{h.impls["management"].Impl, h.keeper} {
		if k, ok := impl.(Keeper); ok {
			if now := k.Kept(&with); now != nil {
				o.Kept, with.Kept = now, now
			}
		}
	}
}
