package driver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
)

// Paired is implemented by interfaces that need something of another of the node's interfaces.
type Paired interface {
	// ValidateWith is Validate's second half: it looks at the node's fields and at which interfaces the node has.
	ValidateWith(h *Hardware, n *node.Document) error
}

// Validate returns why the node's interface of a kind cannot be used; it touches no hardware.
func (h *Hardware) Validate(kind string, n *node.Document) error {
	if _, bootless := h.impls["deploy"].Impl.(Bootless); kind == "boot" || kind == "deploy" && !bootless {
		if none, lacks := h.Boot().(noBoot); lacks {
			return none.Validate(n)
		}
	}
	impl := h.impls[kind].Impl
	if err := impl.Validate(n); err != nil {
		return err
	}
	if p, paired := impl.(Paired); paired {
		return p.ValidateWith(h, n)
	}
	return nil
}

// Names of capabilities, Ironic's.
const (
	capBootMode    = "boot_mode"
	capBootOption  = "boot_option"
	capSecureBoot  = "secure_boot"
	capTrustedBoot = "trusted_boot"
)

// fieldBootMode of instance_info is the former name of its capability boot_mode.
const fieldBootMode = "deploy_boot_mode"

// SecureBootAsked reports whether the instance is to run with secure boot.
func SecureBootAsked(n *node.Document) bool {
	return strings.EqualFold(n.InstanceCapability(capSecureBoot), "true")
}

// UEFIAsked reports whether the node or its instance asks for UEFI, which is also what they get without asking.
func UEFIAsked(n *node.Document) bool {
	return n.AskedBootMode() == "uefi"
}

// FieldPreserveEphemeral of instance_info says that a deploy is to keep the ephemeral partition of the one before.
const FieldPreserveEphemeral = "preserve_ephemeral"

// PreservesEphemeral reports whether a deploy of the instance is to keep the ephemeral partition of the one before.
func PreservesEphemeral(n *node.Document) bool {
	return slices.Contains([]string{"1", "t", "true", "on", "y", "yes"}, strings.ToLower(strings.TrimSpace(n.InstanceString(FieldPreserveEphemeral))))
}

// RefusePreserving refuses preserve_ephemeral for a deploy that clears the disk. why says what does.
func RefusePreserving(n *node.Document, why string) error {
	if !PreservesEphemeral(n) {
		return nil
	}
	return fmt.Errorf("node %s: instance_info has %s, and %s: deploy a partition image by the deploy interface direct or iscsi, or remove the field: %w", n.Label(), FieldPreserveEphemeral, why, ErrInvalid)
}

// NetworkBooter is implemented by boot interfaces that send a machine to its instance at each start, also where that is on its disk.
type NetworkBooter interface {
	// BootsInstances does nothing; it tells these interfaces from the others.
	BootsInstances()
}

// NetbootAsked reports whether the instance's machine is to ask the network at each start.
func NetbootAsked(n *node.Document) bool { return n.InstanceCapability(capBootOption) == netboot }

// netboot is the boot_option of an instance whose machine asks the network at each start.
const netboot = "netboot"

// Adopter is implemented by deploy interfaces of instances that need more of their rack than that their disk is booted.
type Adopter interface {
	// Adopts reports whether the node's instance is such a one. It then has to be valid as for a deploy.
	Adopts(n *node.Document) bool
	// TakeOver makes ready what the instance boots, and tells the machine nothing.
	TakeOver(ctx context.Context, t *Task) error
}

// InstanceBooter is implemented by boot interfaces that boot an instance which is no disk: files or an image of instance_info.
type InstanceBooter interface {
	// ValidateInstanceFiles says why it cannot boot those that the node's instance_info names, or that there are none. It wraps
	// ErrInvalid, and looks at the node's fields only.
	ValidateInstanceFiles(n *node.Document) error
}

// InstallerBooter is implemented by boot interfaces whose RamdiskOrder is an installer while FactInstaller says so.
type InstallerBooter interface {
	// BootsInstallers does nothing; it tells these interfaces from the others.
	BootsInstallers()
}

// Reported is what an installer has reported of itself, in Ironic's words.
type Reported struct {
	// Status is start, end or error.
	Status  string `json:"status"`
	Message string `json:"message,omitempty"`
	// Boot is the number of the boot that it was in. Only reports of the newest boot are taken.
	Boot uint64 `json:"boot"`
}

// What installers report.
const (
	InstallerStarted = "start"
	InstallerEnded   = "end"
	InstallerFailed  = "error"
)

// Final reports whether the installer has nothing more to say.
func (r Reported) Final() bool { return r.Status == InstallerEnded || r.Status == InstallerFailed }

// ValidateInstance refuses what the capabilities of an instance ask for and does not happen here. Deploys that boot the
// instance in another way than from its own disk name it as Ironic does.
func ValidateInstance(h *Hardware, n *node.Document, bootOptions ...string) error {
	if part := node.Unreadable(n.InstanceInfo["capabilities"]); part != "" {
		return Refuse("Error parsing capabilities from Node %s instance_info field. A dictionary or a \"jsonified\" dictionary is expected. This part says none: %.80s", n.UUID, part)
	}
	var wrong []string
	bad := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	asked := cmp.Or(n.InstanceCapability(capBootMode), n.InstanceString(fieldBootMode))
	own := n.NodeCapability(capBootMode)
	if asked != "" && own != "" && !strings.EqualFold(asked, own) {
		return Refuse("Node %s boot mode %s violates node properties/capabilities %s", n.UUID, strings.ToLower(asked), strings.ToLower(own))
	}
	if m := cmp.Or(asked, own); m != "" && !strings.EqualFold(m, "uefi") && !strings.EqualFold(m, "bios") {
		bad("the capability boot_mode is %q: give uefi or bios", m)
	}
	_, networks := h.Boot().(NetworkBooter)
	switch o := n.InstanceCapability(capBootOption); {
	case o == "" || o == "local" || slices.Contains(bootOptions, o) || o == netboot && networks:
	case o == netboot:
		bad("the capability boot_option is netboot, but the boot interface %s answers no machine that asks the network at each start", h.impls["boot"].Name)
	default:
		bad("the capability boot_option is %q: this deploy interface boots %s", o, strings.Join(append([]string{"local"}, bootOptions...), " or "))
	}
	switch b := n.InstanceCapability(capTrustedBoot); {
	case strings.EqualFold(b, "true"):
		bad("the capability trusted_boot is set, and no driver supports it")
	case b != "" && !strings.EqualFold(b, "false"):
		bad("the capability trusted_boot is %q: give true or false", b)
	}
	switch s := n.InstanceCapability(capSecureBoot); {
	case s != "" && !strings.EqualFold(s, "true") && !strings.EqualFold(s, "false"):
		bad("the capability secure_boot is %q: give true or false", s)
	case SecureBootAsked(n) && n.AskedBootMode() != "uefi":
		bad("the capability secure_boot is set, but boot_mode is %s: secure boot needs UEFI", n.BootMode())
	case SecureBootAsked(n):
		if _, can := h.Management().(SecureBooter); !can {
			bad("the capability secure_boot is set, but the management interface %s cannot switch it", h.impls["management"].Name)
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("node %s: %s: %w", n.Label(), strings.Join(wrong, "; "), ErrInvalid)
	}
	return nil
}

// factSecureBoot is where a flow keeps how secure boot was before the instance. It goes before the document's.
const factSecureBoot = "secure_boot_before"

// Values of node.Document's SecureBootBefore.
const (
	secureBootOn  = "on"
	secureBootOff = "off"
)

// staysSecure reports whether secure boot was on before the instance: then no instance's end and no ramdisk switches it off. The first
// flow that deploys an instance looks. One that an older rackd has deployed is not known.
func staysSecure(ctx context.Context, t *Task, s SecureBooter) (bool, error) {
	was := cmp.Or(t.Facts[factSecureBoot], t.Node.SecureBootBefore)
	if was == "" && t.Deploys {
		on, err := s.SecureBoot(ctx, t.Node)
		if err != nil && !errors.Is(err, ErrUnsupported) {
			return false, err
		}
		was = map[bool]string{true: secureBootOn, false: secureBootOff}[on && err == nil]
		t.Facts[factSecureBoot] = was
		t.Record.Observe(hardware.Observation{SecureBootBefore: &was})
	}
	return was == secureBootOn, nil
}

// leftSecure reports whether an instance has had secure boot switched on that was off before. Its fields may be changed while it runs, and
// then the node asks for it no more.
func leftSecure(t *Task) bool {
	return cmp.Or(t.Facts[factSecureBoot], t.Node.SecureBootBefore) == secureBootOff
}

// SetSecureBoot switches secure boot for what boots next, where the instance asks for it, and reads back. It is switched off, too, where
// the instance of before has asked for it. A machine without secure boot is an error where it is to be on. It is not switched off where it
// was on before the instance. Who uses a machine does not decide whether its firmware starts what has no signature.
func SetSecureBoot(ctx context.Context, t *Task, on bool) error {
	if !SecureBootAsked(t.Node) && (on || !leftSecure(t)) {
		return nil
	}
	s, can := t.Hardware.Management().(SecureBooter)
	if can {
		if stays, err := staysSecure(ctx, t, s); err != nil || stays && !on {
			return err
		}
	}
	switch {
	case !can && !on: // an older rackd has deployed the instance, and ignored what it asks for
		return nil
	case !can:
		return Unsupported(t.Node, "management", "set_secure_boot_state")
	}
	err := Settle(func() error { return s.SetSecureBoot(ctx, t.Fence, t.Node, on) })
	if errors.Is(err, ErrUnsupported) && !on {
		return nil
	}
	if err != nil {
		return err
	}
	is, err := s.SecureBoot(ctx, t.Node)
	if err != nil {
		return err
	}
	if is != on {
		return fmt.Errorf("node %s: rackd set secure boot to %t, but the BMC reports %t: look for a setup password or missing keys", t.Node.Label(), on, is)
	}
	t.Record.Phase("secure boot", map[bool]string{true: "on, for the instance", false: "off"}[on])
	return nil
}

// factBootMode is where a flow keeps the boot mode in which it has found the machine of a node that asks for none.
const factBootMode = "deploy_boot_mode"

// WithBootMode returns the node with the boot mode that its work has found, which its document may not show yet.
func WithBootMode(n *node.Document, facts map[string]string) *node.Document {
	found := facts[factBootMode]
	if found == "" || found == n.DeployBootMode {
		return n
	}
	now := *n
	now.DeployBootMode = found
	return &now
}

// SetBootMode sets the boot mode that the node or its instance asks for, and tells what the BMC shows then. A node that asks for
// none keeps that of its machine, and goes by it. As in Ironic, hardware that cannot be set fails where it shows another mode
// than was asked for, and is left alone otherwise.
func SetBootMode(ctx context.Context, t *Task) error {
	m, asked := t.Hardware.Management(), t.Node.AskedBootMode()
	was, set := "", false
	err := Settle(func() error {
		is, err := m.BootMode(ctx, t.Node)
		if err != nil && !errors.Is(err, ErrUnsupported) || is == t.Node.BootMode() && is != "" {
			return err
		}
		if was = is; asked == "" && is != "" {
			foundMode(t, is)
			return nil
		}
		set = true
		return m.SetBootMode(ctx, t.Fence, t.Node, t.Node.BootMode())
	})
	if errors.Is(err, ErrUnsupported) {
		if was == "" || asked == "" {
			return nil
		}
		return fmt.Errorf("node %s: its machine is in boot mode %s, and the mode %s that is asked for cannot be set: %w", t.Node.Label(), was, asked, err)
	}
	if err != nil || !set {
		return err
	}
	if is, err := m.BootMode(ctx, t.Node); err == nil && is != "" && is != t.Node.BootMode() {
		t.Record.Phase("boot mode", fmt.Sprintf("set to %s; the BMC shows %s, which some do until the machine starts", t.Node.BootMode(), is))
	}
	return nil
}

// foundMode has the flow go by the boot mode in which the machine is.
func foundMode(t *Task, mode string) {
	t.Facts[factBootMode] = mode
	t.Node = WithBootMode(t.Node, t.Facts)
	t.Record.Observe(hardware.Observation{DeployBootMode: &mode})
	t.Record.Phase("boot mode", mode+", in which the machine is: the node asks for none")
}

// Settle repeats a write whose outcome is unknown. The write must read before it writes, so that one that did arrive is
// not made twice.
func Settle(write func() error) (err error) {
	for range 3 {
		if err = write(); !errors.Is(err, ErrUnknown) {
			return err
		}
	}
	return err
}
