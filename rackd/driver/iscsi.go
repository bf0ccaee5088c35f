package driver

import (
	"context"
	"strings"

	"github.com/ironyard/ironyard/protocol/node"
)

// BootISCSI is the boot device that a machine's firmware reaches by iSCSI.
const BootISCSI BootDevice = "iscsiboot"

// ISCSITarget is a volume that a machine's firmware attaches by iSCSI and boots from.
type ISCSITarget struct {
	// Host is the portal's address, Port its TCP port.
	Host string
	Port int
	IQN  string
	LUN  int
	// User and Secret are those of CHAP; both are empty where the target asks for none.
	User, Secret string
	// Initiator is the machine's own name; empty: it stays as it is.
	Initiator string
}

// ISCSIBooter gives a machine's firmware, or its network adapters, a target to boot from by iSCSI. It says nothing of the
// boot device: SetBootDevice with BootISCSI does.
type ISCSIBooter interface {
	// ISCSIBoot reads the targets that the machine has at its next start, one for each network adapter that has one. Secrets cannot be read.
	ISCSIBoot(ctx context.Context, n *node.Document) ([]ISCSITarget, error)
	// SetISCSIBoot sets the target for each network adapter of the node's ports that can, and reads it back. A target that
	// is set already is not written, unless it has a secret. It counts from the machine's next start. It wraps ErrUnsupported
	// for machines that cannot, or not in their boot mode.
	SetISCSIBoot(ctx context.Context, f Fence, n *node.Document, target ISCSITarget) error
	// ClearISCSIBoot takes the targets away, and reads back.
	ClearISCSIBoot(ctx context.Context, f Fence, n *node.Document) error
}

// Check refuses what no firmware takes.
func (t ISCSITarget) Check(n *node.Document) error {
	switch {
	case !strings.HasPrefix(t.IQN, "iqn.") && !strings.HasPrefix(t.IQN, "eui.") && !strings.HasPrefix(t.IQN, "naa."), len(t.IQN) > 223, strings.ContainsAny(t.IQN, " \t\r\n"):
		return Refuse("Failed to get iSCSI target info for node %s. Error: target_iqn is no name of an iSCSI target", n.UUID)
	case (t.User == "") != (t.Secret == ""):
		return Refuse("Failed to get iSCSI target info for node %s. Error: give both auth_username and auth_password, or neither", n.UUID)
	case t.Host == "" || t.Port < 1 || t.Port > 65535 || t.LUN < 0:
		return Refuse("Failed to get iSCSI target info for node %s. Error: the portal or the LUN is missing", n.UUID)
	}
	return nil
}

// Same reports whether two targets are the same, as far as that can be read.
func (t ISCSITarget) Same(other ISCSITarget) bool {
	t.Secret, other.Secret = "", ""
	if t.Initiator == "" || other.Initiator == "" {
		t.Initiator, other.Initiator = "", ""
	}
	return t == other
}

// MediaBooter is implemented by management interfaces of machines for which a virtual drive is another boot device than a real one.
type MediaBooter interface {
	// SetMediaBoot makes the virtual drive of that type (cdrom, floppy) the boot device, and reads back.
	SetMediaBoot(ctx context.Context, f Fence, n *node.Document, device BootDevice, persistent bool) error
}
