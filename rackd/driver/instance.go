package driver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/protocol/node"
)

// Paired is implemented by interfaces that need something of another of the node's interfaces.
type Paired interface {
	// ValidateWith is Validate's second half: it looks at the node's fields and at which interfaces the node has.
	ValidateWith(h *Hardware, n *node.Document) error
}

// Validate returns why the node's interface of a kind cannot be used; it touches no hardware.
func (h *Hardware) Validate(kind string, n *node.Document) error {
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

// SecureBootAsked reports whether the instance is to run with secure boot.
func SecureBootAsked(n *node.Document) bool {
	return strings.EqualFold(n.InstanceCapability(capSecureBoot), "true")
}

// UEFIAsked reports whether the node or its instance asks for UEFI, which is also what they get without asking.
func UEFIAsked(n *node.Document) bool {
	return n.Capability(capBootMode) == "uefi" || SecureBootAsked(n)
}

// ValidateInstance refuses what the capabilities of an instance ask for and does not happen here. Deploys that boot the
// instance in another way than from its own disk name it as Ironic does.
func ValidateInstance(h *Hardware, n *node.Document, bootOptions ...string) error {
	if part := node.Unreadable(n.InstanceInfo["capabilities"]); part != "" {
		return Refuse("Error parsing capabilities from Node %s instance_info field. A dictionary or a \"jsonified\" dictionary is expected. This part says none: %.80s", n.UUID, part)
	}
	var wrong []string
	bad := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	if m := n.Capability(capBootMode); m != "" && m != "uefi" && m != "bios" {
		bad("the capability boot_mode is %q: give uefi or bios", m)
	}
	if o := n.InstanceCapability(capBootOption); o != "" && o != "local" && !slices.Contains(bootOptions, o) {
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
	case SecureBootAsked(n) && n.BootMode() != "uefi":
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

// SetSecureBoot switches secure boot for what boots next, where the instance asks for it, and reads back. A machine
// without secure boot is an error where it is to be on.
func SetSecureBoot(ctx context.Context, t *Task, on bool) error {
	if !SecureBootAsked(t.Node) {
		return nil
	}
	s, can := t.Hardware.Management().(SecureBooter)
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

// SetBootMode sets the node's boot mode; hardware that has only one is left alone.
func SetBootMode(ctx context.Context, t *Task) error {
	m, want := t.Hardware.Management(), t.Node.BootMode()
	err := Settle(func() error {
		is, err := m.BootMode(ctx, t.Node)
		if err != nil || is == want {
			return err
		}
		return m.SetBootMode(ctx, t.Fence, t.Node, want)
	})
	if errors.Is(err, ErrUnsupported) {
		return nil
	}
	return err
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
