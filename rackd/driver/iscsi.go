package driver

import (
	"context"
	"errors"
	"net/netip"
	"strings"

	"github.com/ironyard/ironyard/protocol/node"
)

// ErrTargetKept means that a machine's firmware attaches no target any more, and keeps the name of one, or its account.
var ErrTargetKept = errors.New("the BMC keeps a target that it no longer attaches")

// BootISCSI is the boot device that a machine's firmware reaches by iSCSI.
const BootISCSI BootDevice = "iscsiboot"

// What takes the place of a target's name and of its users where a BMC takes nothing empty. No volume has that name.
const NoISCSITarget, NoISCSIUser = "iqn.2000-01.invalid:none", "none"

// ISCSITarget is a volume that a machine's firmware attaches by iSCSI and boots from.
type ISCSITarget struct {
	// Host is the portal's address, Port its TCP port.
	Host string
	Port int
	IQN  string
	LUN  int
	// User and Secret are those of CHAP; both are empty where the target asks for none.
	User, Secret string
	// TargetUser and TargetSecret are what the target shows in its turn; both are empty where it need not.
	TargetUser, TargetSecret string
	// Second is another way to the volume, with the same accounts, for when the first is dead; its zero value is none.
	Second ISCSIPath
	// Initiator is the machine's own name; empty: it stays as it is.
	Initiator string
}

// ISCSIPath is a further way to a volume.
type ISCSIPath struct {
	Host string
	Port int
	IQN  string
	LUN  int
}

// Mutual reports whether the target shows who it is.
func (t ISCSITarget) Mutual() bool { return t.TargetUser != "" || t.TargetSecret != "" }

// Secrets are those of its accounts.
func (t ISCSITarget) Secrets() []string { return []string{t.Secret, t.TargetSecret} }

// ISCSIRoom is what the settings of a machine's firmware have room for.
type ISCSIRoom struct {
	// Paths is how many ways to a volume it tries.
	Paths int
	// Mutual is whether it has the target show who it is.
	Mutual bool
}

// ISCSIBooter gives a machine's firmware, or its network adapters, a target to boot from by iSCSI. It says nothing of the
// boot device: SetBootDevice with BootISCSI does.
type ISCSIBooter interface {
	// ISCSIRoom says what of a target may be set. SetISCSIBoot refuses what is beyond, too.
	ISCSIRoom() ISCSIRoom
	// ISCSIBoot reads the targets that the machine has at its next start, one for each network adapter that has one. Secrets cannot be read.
	ISCSIBoot(ctx context.Context, n *node.Document) ([]ISCSITarget, error)
	// SetISCSIBoot sets the target for each network adapter of the node's ports that can, and reads it back. A target that
	// is set already is not written, unless it has a secret. It counts from the machine's next start. It wraps ErrUnsupported
	// for machines that cannot, or not in their boot mode.
	SetISCSIBoot(ctx context.Context, f Fence, n *node.Document, target ISCSITarget) error
	// ClearISCSIBoot takes the targets away, with their names and accounts, and reads back. What is so already is not written. Its error
	// wraps ErrTargetKept where no target is attached any more, and the BMC refuses to forget one.
	ClearISCSIBoot(ctx context.Context, f Fence, n *node.Document) error
}

// StartTeller is implemented by management interfaces whose BMCs may tell how far a machine's start has come.
type StartTeller interface {
	// Start reads it from the machine's BMC.
	Start(ctx context.Context, n *node.Document) (Start, error)
}

// Start is how far a machine's start has come.
type Start int

// How far it may be.
const (
	StartUntold  Start = iota // the BMC does not tell
	InFirmware                // the firmware initializes the machine
	PastFirmware              // the firmware has done so: it looks for a system, or one runs
)

// Check refuses what no firmware takes.
func (t ISCSITarget) Check(n *node.Document) error {
	switch {
	case !nameOfTarget(t.IQN):
		return Refuse("Failed to get iSCSI target info for node %s. Error: target_iqn is no name of an iSCSI target", n.UUID)
	case (t.User == "") != (t.Secret == ""):
		return Refuse("Failed to get iSCSI target info for node %s. Error: give both auth_username and auth_password, or neither", n.UUID)
	case (t.TargetUser == "") != (t.TargetSecret == "") || t.Mutual() && t.User == "":
		return Refuse("Failed to get iSCSI target info for node %s. Error: give mutual_auth_username and mutual_auth_password with auth_username and auth_password, or neither", n.UUID)
	case t.Second != ISCSIPath{} && (!nameOfTarget(t.Second.IQN) || t.Second.Host == "" || t.Second.Port < 1 || t.Second.Port > 65535 || t.Second.LUN < 0):
		return Refuse("Failed to get iSCSI target info for node %s. Error: the second path's name, portal or LUN is missing", n.UUID)
	case t.Host == "" || t.Port < 1 || t.Port > 65535 || t.LUN < 0:
		return Refuse("Failed to get iSCSI target info for node %s. Error: the portal or the LUN is missing", n.UUID)
	}
	return t.checkAddresses(n)
}

// checkAddresses refuses portals that firmware is not told: names, and addresses of both versions of IP.
func (t ISCSITarget) checkAddresses(n *node.Document) error {
	var first netip.Addr
	for _, host := range []string{t.Host, t.Second.Host} {
		if host == "" {
			continue
		}
		a, err := netip.ParseAddr(host)
		switch {
		case err != nil:
			return Refuse("Failed to get iSCSI target info for node %s. Error: target_portal has the name %.80q, and firmware is told addresses alone: give the address, or let iPXE attach the volume", n.UUID, host)
		case first.IsValid() && a.Is4() != first.Is4():
			return Refuse("Failed to get iSCSI target info for node %s. Error: one portal has an IPv4 address and the other an IPv6 address, and this machine's firmware is told one kind: give both of one kind, or let iPXE attach the volume", n.UUID)
		}
		first = a
	}
	return nil
}

func nameOfTarget(name string) bool {
	known := strings.HasPrefix(name, "iqn.") || strings.HasPrefix(name, "eui.") || strings.HasPrefix(name, "naa.")
	return known && len(name) <= 223 && !strings.ContainsAny(name, " \t\r\n")
}

// Fits refuses what the firmware's settings have no room for, by name.
func (r ISCSIRoom) Fits(t ISCSITarget, n *node.Document) error {
	switch {
	case t.Mutual() && !r.Mutual:
		return Refuse("Failed to get iSCSI target info for node %s. Error: rackd sets no mutual CHAP in this machine's firmware: remove mutual_auth_username and mutual_auth_password, or let iPXE attach the volume", n.UUID)
	case t.Second != ISCSIPath{} && r.Paths < 2:
		return Refuse("Failed to get iSCSI target info for node %s. Error: rackd sets one path in this machine's firmware: name one target_portal, or let iPXE attach the volume", n.UUID)
	}
	return nil
}

// Same reports whether two targets are the same, as far as that can be read.
func (t ISCSITarget) Same(other ISCSITarget) bool {
	t.Secret, other.Secret, t.TargetSecret, other.TargetSecret = "", "", "", ""
	if t.Initiator == "" || other.Initiator == "" {
		t.Initiator, other.Initiator = "", ""
	}
	return t == other
}

// MediaBooter is implemented by management interfaces of machines for which a virtual drive is another boot device than a real one.
type MediaBooter interface {
	// SetMediaBoot makes the virtual drive of that type (cdrom, floppy, usb) the boot device, and reads back.
	SetMediaBoot(ctx context.Context, f Fence, n *node.Document, device BootDevice, persistent bool) error
}
