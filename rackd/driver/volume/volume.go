// Package volume is a node's volumes as its machine uses them: which it boots from, where they are, how iPXE or the machine's firmware
// attaches them, and the storage interfaces noop's siblings external and cinder.
//
// It may import rackd/driver, rackd/driver/instancefiles, rackd/bootorder and protocol. Invariants:
//   - What the instance boots from follows from the node's document alone (Boots), so that any rackd of the group says the same.
//   - Secrets of volumes go to the machine's script and to its BMC. They are in no error, log, fact or line of history.
//   - Who attaches a volume to the machine's names at the storage system is the operator. No program here calls Cinder.
package volume

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/bootorder"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/instancefiles"
)

// Names of the storage interfaces that attach volumes, Ironic's.
const (
	nameExternal = "external"
	nameCinder   = "cinder"
)

// Types of volumes, Ironic's.
const (
	typeISCSI = "iscsi"
	typeFC    = "fibre_channel"
)

// typeIQN is the type of a connector that names an iSCSI initiator.
const typeIQN = "iqn"

// Limits of what a boot script and firmware take.
const (
	mostVolumes = 16
	mostPaths   = 8
	defaultPort = 3260 // of iSCSI targets (RFC 7143, section 4.2.7.1)
	maxLUN      = 0xffff
	maxSecret   = 255
)

// Disks are a node's volumes as its machine attaches them. The first is the one that it boots from.
type Disks struct {
	// Initiator is the machine's own name; empty: the one that its firmware has.
	Initiator string
	List      []Disk
}

// Disk is a volume with the ways to it, the best first. All of them have the same credentials.
type Disk struct {
	Target string // UUID of the volume target
	Paths  []driver.ISCSITarget
}

// attaches reports whether the node's storage interface is one that uses volumes.
func attaches(n *node.Document) bool {
	kind := n.Interface("storage")
	return kind == nameExternal || kind == nameCinder
}

// Boots reports whether the node's instance is a volume: a target has boot index 0, and the instance names no image to write to a
// disk, as in Ironic. A deploy of the interface ramdisk boots what it names, also where "autodetect" has chosen it.
func Boots(n *node.Document) bool {
	if _, image := n.InstanceInfo["image_source"]; image || !attaches(n) {
		return false
	}
	if instancefiles.Counts(n) {
		return false
	}
	return slices.ContainsFunc(n.Targets, func(t node.Target) bool { return t.BootIndex == 0 })
}

// Read reads the node's volumes, in the order of their boot index. An error wraps driver.ErrInvalid and names no secret.
func Read(n *node.Document) (d Disks, err error) {
	if d.Initiator, err = initiator(n); err != nil {
		return d, err
	}
	if len(n.Targets) > mostVolumes {
		return d, fmt.Errorf("node %s has %d volume targets: a machine attaches %d at most: %w", n.Label(), len(n.Targets), mostVolumes, driver.ErrInvalid)
	}
	targets := slices.Clone(n.Targets)
	slices.SortStableFunc(targets, func(a, b node.Target) int { return cmp.Compare(a.BootIndex, b.BootIndex) })
	for _, t := range targets {
		disk, err := diskOf(n, t, d.Initiator)
		if err != nil {
			return d, err
		}
		d.List = append(d.List, disk)
	}
	return d, nil
}

// initiator is the machine's iSCSI name, of its first connector of that type, as in Ironic.
func initiator(n *node.Document) (string, error) {
	for _, c := range n.Connectors {
		if c.Type != typeIQN {
			continue
		}
		if !iqn.MatchString(c.ID) || len(c.ID) > maxName {
			return "", fmt.Errorf("node %s: the volume connector %.80q is no name of an iSCSI initiator: %w", n.Label(), c.ID, driver.ErrInvalid)
		}
		return c.ID, nil
	}
	return "", nil
}

// maxName bounds an iSCSI name (RFC 7143, section 4.2.7.1).
const maxName = 223

// iqn is what an iSCSI name consists of (RFC 3722). A boot script splits at colons and at nothing else of it.
var iqn = regexp.MustCompile(`^(iqn|eui|naa)\.[A-Za-z0-9.:_-]+$`)

func diskOf(n *node.Document, t node.Target, initiator string) (d Disk, err error) {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("node %s: volume target %s: %s: %w", n.Label(), t.UUID, fmt.Sprintf(format, args...), driver.ErrInvalid)
	}
	switch t.Type {
	case typeISCSI:
	case typeFC:
		return d, bad("it is configured for 'fibre_channel', and no boot interface attaches Fibre Channel volumes: the host adapter's own configuration does. Give an iSCSI volume, or remove the target")
	default:
		return d, bad("it is of an unknown type '%.40s'. Supported types: 'iscsi'", t.Type)
	}
	portals, names, luns := list(t.Properties, "target_portal"), list(t.Properties, "target_iqn"), list(t.Properties, "target_lun")
	for field, values := range map[string][]string{"target_portal": portals, "target_iqn": names, "target_lun": luns} {
		if len(values) == 0 && field != "target_lun" {
			return d, bad("its properties have no %s", field)
		}
		if len(values) > 1 && len(values) != len(portals) {
			return d, bad("its properties name %d portals, but %d of %s", len(portals), len(values), field)
		}
	}
	if len(portals) > mostPaths {
		return d, bad("its properties name %d portals: a machine tries %d at most", len(portals), mostPaths)
	}
	one := driver.ISCSITarget{Initiator: initiator}
	if err := chap(t.Properties, &one); err != nil {
		return d, bad("%v", err)
	}
	d.Target = t.UUID
	for i, portal := range portals {
		p := one
		if p.Host, p.Port, err = portalOf(portal); err != nil {
			return d, bad("%v", err)
		}
		if p.IQN = at(names, i); !iqn.MatchString(p.IQN) || len(p.IQN) > maxName {
			return d, bad("target_iqn %.80q is no name of an iSCSI target", p.IQN)
		}
		if text := at(luns, i); text != "" {
			if p.LUN, err = strconv.Atoi(text); err != nil || p.LUN < 0 || p.LUN > maxLUN {
				return d, bad("target_lun %.20q is no number from 0 to %d", text, maxLUN)
			}
		}
		d.Paths = append(d.Paths, p)
	}
	return d, nil
}

// list is a property in both forms that Cinder gives: one value under the name, and one for each path under the plural. The single one
// is among the others, or comes first.
func list(properties map[string]any, name string) []string {
	single, several := texts(properties[name]), texts(properties[name+"s"])
	if len(several) == 0 {
		return single
	}
	return several
}

func texts(v any) (all []string) {
	switch v := v.(type) {
	case nil:
	case []any:
		for _, one := range v {
			all = append(all, texts(one)...)
		}
	case float64:
		all = append(all, strconv.FormatFloat(v, 'f', -1, 64))
	case string:
		if v != "" {
			all = append(all, v)
		}
	default:
		all = append(all, fmt.Sprint(v))
	}
	return all
}

// at is the i-th value, or the only one.
func at(values []string, i int) string {
	switch {
	case len(values) == 0:
		return ""
	case i >= len(values):
		return values[0]
	}
	return values[i]
}

// hostname is a DNS name.
var hostname = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*\.?$`)

// portalOf reads host:port; without a port it is iSCSI's.
func portalOf(text string) (host string, port int, err error) {
	text, _, _ = strings.Cut(text, ",") // what follows is the group of the portal
	host, number, err := net.SplitHostPort(text)
	if err != nil {
		host, number = strings.Trim(text, "[]"), strconv.Itoa(defaultPort)
	}
	if port, err = strconv.Atoi(number); err != nil || port < 1 || port > 65535 {
		return "", 0, fmt.Errorf("target_portal %.80q has no port from 1 to 65535", text)
	}
	if a, err := netip.ParseAddr(host); err == nil && a.Zone() == "" {
		return a.String(), port, nil
	}
	if len(host) > 253 || !hostname.MatchString(host) {
		return "", 0, fmt.Errorf("target_portal %.80q names no host", text)
	}
	return host, port, nil
}

// Properties of the account that the target shows in its turn (mutual CHAP). Neither Ironic nor Cinder has names for them.
const (
	mutualUser   = "mutual_auth_username"
	mutualSecret = "mutual_auth_password"
)

// chap reads who the machine is to the target, and the target to the machine. Its errors tell no secret.
func chap(properties map[string]any, t *driver.ISCSITarget) error {
	user, secret := at(list(properties, "auth_username"), 0), at(list(properties, "auth_password"), 0)
	theirs, theirSecret := at(list(properties, mutualUser), 0), at(list(properties, mutualSecret), 0)
	switch method := at(texts(properties["auth_method"]), 0); {
	case !strings.EqualFold(method, "") && !strings.EqualFold(method, "none") && !strings.EqualFold(method, "chap"):
		return fmt.Errorf("auth_method is %.20q: give CHAP, or none", method)
	case strings.EqualFold(method, "chap") && user == "" && secret == "":
		return fmt.Errorf("auth_method is CHAP: give auth_username and auth_password")
	case (user == "") != (secret == ""):
		return fmt.Errorf("give both auth_username and auth_password, or neither")
	case (theirs == "") != (theirSecret == "") || theirs != "" && user == "":
		return fmt.Errorf("give both %s and %s, with auth_username and auth_password, or neither", mutualUser, mutualSecret)
	case theirSecret != "" && theirSecret == secret:
		return fmt.Errorf("%s is the same as auth_password: give the target a secret of its own (RFC 7143, section 9.2.1)", mutualSecret)
	case slices.ContainsFunc([]string{user, secret, theirs, theirSecret}, func(s string) bool { return len(s) > maxSecret }):
		return fmt.Errorf("names and secrets of CHAP have %d bytes at most", maxSecret)
	}
	t.User, t.Secret, t.TargetUser, t.TargetSecret = user, secret, theirs, theirSecret
	return nil
}

// Order has iPXE attach the node's volumes and boot the first. Volumes that cannot be read are a reason why there is nothing to boot.
func Order(n *node.Document) bootorder.Order {
	d, err := Read(n)
	if err != nil {
		return bootorder.Refuse(err.Error())
	}
	v := bootorder.Volumes{Initiator: d.Initiator}
	for _, disk := range d.List {
		first := disk.Paths[0]
		one := bootorder.Volume{Name: disk.Target, User: first.User, Secret: first.Secret, TargetUser: first.TargetUser, TargetSecret: first.TargetSecret}
		for _, p := range disk.Paths {
			one.URIs = append(one.URIs, uri(p))
		}
		v.List = append(v.List, one)
	}
	return bootorder.FromVolumes(v)
}

// uri is a path in the form that iPXE reads (RFC 4173, section 5): the LUN is hexadecimal.
func uri(p driver.ISCSITarget) string {
	host := p.Host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return fmt.Sprintf("iscsi:%s::%d:%x:%s", host, p.Port, p.LUN, p.IQN)
}
