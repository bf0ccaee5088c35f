package volume

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// Storage is a storage interface that uses the node's volumes. Immutable, safe for concurrent use.
type Storage struct{ cinder bool }

// External is the interface of volumes that the operator, or a program of his, attaches to the machine's names.
func External() Storage { return Storage{} }

// Cinder is the interface of volumes of Cinder. Cinder is not called: a client, such as Nova, has to attach a volume and to write its
// connection into the target's properties.
func Cinder() Storage { return Storage{cinder: true} }

// Properties is empty.
func (Storage) Properties() map[string]string { return nil }

// NamedSteps is empty.
func (Storage) NamedSteps(*node.Document) []driver.Step { return nil }

// name is the interface's.
func (s Storage) name() string {
	if s.cinder {
		return nameCinder
	}
	return nameExternal
}

// refuse begins as Ironic's refusals of the interface do.
func (s Storage) refuse(n *node.Document, format string, args ...any) error {
	return driver.Refuse("Failed to validate %s storage interface for node %s. %s", s.name(), n.UUID, fmt.Sprintf(format, args...))
}

// Validate looks at connectors and targets.
func (s Storage) Validate(n *node.Document) error {
	if s.cinder {
		if err := s.validateCinder(n); err != nil {
			return err
		}
	}
	if _, err := Read(n); err != nil {
		return s.refuse(n, "%v", err)
	}
	return nil
}

// ValidateWith asks for a boot interface that boots volumes, where the instance is one.
func (s Storage) ValidateWith(h *driver.Hardware, n *node.Document) error {
	if !Boots(n) {
		return nil
	}
	b, can := h.Boot().(driver.VolumeBooter)
	if !can {
		return s.refuse(n, "The boot interface must be one that boots volumes, such as ``ipxe``: %q does not.", h.Kinds()["boot"].Name)
	}
	return b.ValidateVolume(h, n)
}

// validateCinder makes Ironic's checks of what Cinder would be told, with Ironic's words.
func (s Storage) validateCinder(n *node.Document) error {
	count := func(kind string) (found int) {
		for _, c := range n.Connectors {
			if c.Type == kind {
				found++
			}
		}
		return found
	}
	iqns, wwpns, wwnns := count(typeIQN), count("wwpn"), count("wwnn")
	iscsiBoot, fcBoot := truth(n.Capability("iscsi_boot")), truth(n.Capability("fibre_channel_boot"))
	switch {
	case wwpns != wwnns:
		return s.refuse(n, "Cinder requires both wwnn and wwpn entries for FCoE connections. There must be a wwpn entry for every wwnn entry. There are %d wwpn entries and %d wwnn entries.", wwpns, wwnns)
	case iscsiBoot && iqns == 0:
		return s.refuse(n, "In order to enable the 'iscsi_boot' capability for the node, an associated volume_connector type must be valid for iSCSI (iqn).")
	case fcBoot && wwpns == 0:
		return s.refuse(n, "In order to enable the 'fibre_channel_boot' capability for the node, an associated volume_connector type must be valid for Fibre Channel (wwpn, wwnn).")
	}
	for _, t := range n.Targets {
		switch {
		case t.VolumeID == "":
			return s.refuse(n, "volume_id missing from target %s.", t.UUID)
		case t.Type == typeISCSI && !iscsiBoot && t.BootIndex == 0:
			return s.refuse(n, "Volume target %s is configured for 'iscsi', however the capability 'iscsi_boot' is not set for the node.", t.UUID)
		case t.Type == typeISCSI && iqns == 0:
			return s.refuse(n, "Volume target %s is configured for 'iscsi', however no iSCSI connectors are configured for the node.", t.UUID)
		case t.Type == typeISCSI && (len(list(t.Properties, "target_portal")) == 0 || len(list(t.Properties, "target_iqn")) == 0):
			return s.refuse(n, "Volume target %s has no connection: rackd does not call Cinder to attach volume %.36s. Attach it by Cinder's API to the node's connectors, and write target_portal, target_iqn and target_lun of the answer into the target's properties.", t.UUID, t.VolumeID)
		}
	}
	return nil
}

// truth reads a capability as Ironic does.
func truth(text string) bool {
	return slices.Contains([]string{"1", "t", "true", "on", "y", "yes"}, strings.ToLower(text))
}
