package ilo

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/redfish"
)

// The UEFI firmware of Gen9 and later boots by iSCSI. Its attempts are a resource of the BIOS, with a settings object: what
// is written there counts from the machine's next start. HPE's words.

// biosMode is what Ironic's iLO driver says of a machine in BIOS boot mode.
const biosMode = "iSCSI boot is not supported in the BIOS boot mode"

// source is one attempt.
type source struct {
	AttemptName    string `json:"iSCSIAttemptName"`
	Attempt        int    `json:"iSCSIAttemptInstance"`
	NIC            string `json:"iSCSINicSource"`
	Connection     string `json:"iSCSIConnection"`
	TargetName     string `json:"iSCSITargetName"`
	LUN            string `json:"iSCSILUN"`
	TargetAddress  string `json:"iSCSITargetIpAddress"`
	TargetPort     int    `json:"iSCSITargetTcpPort"`
	AddressType    string `json:"iSCSIIpAddressType"`
	Authentication string `json:"iSCSIAuthenticationMethod"`
	ChapType       string `json:"iSCSIChapType"`
	User           string `json:"iSCSIChapUsername"`
	TargetUser     string `json:"iSCSIReverseChapUsername"`
}

// HPE's words of what an attempt shows and is shown, and of the addresses that it has.
const (
	oneWay, mutual = "OneWay", "Mutual"
	ipv4, ipv6     = "IPv4", "IPv6"
)

// on reports whether the attempt is made.
func (s source) on() bool {
	return s.Connection == "Enabled" && s.TargetName != ""
}

// target is what the attempt boots from.
func (s source) target(initiator string) driver.ISCSITarget {
	t := driver.ISCSITarget{Host: s.TargetAddress, Port: s.TargetPort, IQN: s.TargetName, LUN: lunOf(s.LUN), Initiator: initiator}
	chap := strings.EqualFold(s.Authentication, "Chap") || strings.EqualFold(s.Authentication, "MutualChap")
	if chap {
		t.User = s.User
	}
	if chap && strings.EqualFold(s.ChapType, mutual) {
		t.TargetUser = s.TargetUser
	}
	return t
}

// lunText is a LUN as the firmware reads it: up to four numbers of SAM-2 with dashes between, in hexadecimal. Proliantutils writes the
// decimal number.
func lunText(lun int) string { return strings.ToUpper(strconv.FormatInt(int64(lun), 16)) }

// lunOf is the LUN of such a text, of which the first number counts; -1 for one that has others, or is none.
func lunOf(text string) int {
	first, rest, _ := strings.Cut(text, "-")
	lun, err := strconv.ParseUint(first, 16, 16)
	if err != nil || strings.Trim(rest, "0-") != "" {
		return -1
	}
	return int(lun)
}

// initiator is the machine's software initiator.
type initiator struct {
	Name     string                                `json:"iSCSIInitiatorName"`
	Sources  []source                              `json:"iSCSISources"`
	Settings struct{ SettingsObject redfish.Link } `json:"@Redfish.Settings"`
	// at is where it is written to: its settings object.
	at string
	// nics are the adapters that boot by the network, of the BIOS's mappings.
	nics []string
}

// bios is a machine's BIOS, as far as HPE's links lead on from it.
type bios struct {
	Attributes map[string]any
	Oem        struct {
		Hpe struct {
			Links struct {
				ISCSI    redfish.Link `json:"iScsi"`
				Mappings redfish.Link
				Boot     redfish.Link
			}
		}
	}
	Links struct { // iLO 5 of before 1.30
		ISCSI    redfish.Link `json:"iScsi"`
		Mappings redfish.Link
	}
}

// biosOf reads the BIOS of a turn's machine.
func biosOf(t *redfish.Turn) (b bios, err error) {
	var system struct{ Bios redfish.Link }
	if err := t.Read(t.System.Path, &system); err != nil {
		return b, err
	}
	if system.Bios.Path == "" {
		return b, fmt.Errorf("it shows no BIOS: %w", driver.ErrUnsupported)
	}
	err = t.Read(system.Bios.Path, &b)
	if redfish.Status(err) == 404 {
		return b, fmt.Errorf("it shows no BIOS: %w", driver.ErrUnsupported)
	}
	return b, err
}

// uefi reports whether the machine is in UEFI boot mode.
func (b bios) uefi() bool { return b.Attributes["BootMode"] == "Uefi" }

// initiatorOf reads the initiator as it is to be at the next start, and which adapters it may use.
func initiatorOf(t *redfish.Turn, operation string) (i initiator, err error) {
	b, err := biosOf(t)
	if err != nil {
		return i, err
	}
	if !b.uefi() {
		return i, refused(operation, biosMode)
	}
	link, mappings := b.Oem.Hpe.Links.ISCSI.Path, b.Oem.Hpe.Links.Mappings.Path
	if link == "" {
		link, mappings = b.Links.ISCSI.Path, b.Links.Mappings.Path
	}
	if link == "" {
		return i, refused(operation, "the BIOS shows no iSCSI initiator")
	}
	if err := t.Read(link, &i); err != nil {
		return i, err
	}
	if i.at = i.Settings.SettingsObject.Path; i.at == "" {
		return i, refused(operation, "the iSCSI initiator has no settings to change")
	}
	var staged initiator
	if err := t.Read(i.at, &staged); err != nil {
		return i, err
	}
	if staged.Name != "" {
		i.Name = staged.Name
	}
	if staged.Sources != nil {
		i.Sources = staged.Sources
	}
	i.nics, err = nicsOf(t, mappings)
	return i, err
}

// nicsOf are the BIOS's names of the adapters that boot by the network, in its order.
func nicsOf(t *redfish.Turn, mappings string) (list []string, err error) {
	if mappings == "" {
		return nil, nil
	}
	var found struct {
		BiosPciSettingsMappings []struct {
			Subinstances []struct{ Associations []any }
		}
	}
	if err := t.Read(mappings, &found); err != nil {
		return nil, err
	}
	for _, m := range found.BiosPciSettingsMappings {
		for _, s := range m.Subinstances {
			for _, a := range s.Associations {
				if name, isName := a.(string); isName && strings.Contains(name, "NicBoot") {
					list = append(list, name)
				}
			}
		}
	}
	return list, nil
}

// iscsiBootSupported reports whether the firmware takes iSCSI targets: its settings allow PATCH.
func iscsiBootSupported(t *redfish.Turn) (bool, error) {
	b, err := biosOf(t)
	if err != nil {
		return false, err
	}
	link := b.Oem.Hpe.Links.ISCSI.Path
	if link == "" {
		link = b.Links.ISCSI.Path
	}
	if link == "" {
		return false, nil
	}
	var i initiator
	if err := t.Read(link, &i); err != nil || i.Settings.SettingsObject.Path == "" {
		return false, err
	}
	verbs, err := t.Allows(i.Settings.SettingsObject.Path)
	return slices.Contains(verbs, "PATCH"), err
}

// ISCSIBoot implements driver.ISCSIBooter.
func (m Management) ISCSIBoot(ctx context.Context, n *node.Document) (list []driver.ISCSITarget, err error) {
	err = m.Turn(ctx, nil, n, "read the iSCSI targets", func(t *redfish.Turn) error {
		i, err := initiatorOf(t, "Reading of iSCSI targets for node "+n.UUID)
		for _, s := range i.Sources {
			if s.on() {
				list = append(list, s.target(i.Name))
			}
		}
		return err
	})
	return list, err
}

// ISCSIRoom implements driver.ISCSIBooter: an attempt has one target.
func (Management) ISCSIRoom() driver.ISCSIRoom { return driver.ISCSIRoom{Paths: 1, Mutual: true} }

// SetISCSIBoot implements driver.ISCSIBooter: each adapter that boots by the network gets an attempt.
func (m Management) SetISCSIBoot(ctx context.Context, f driver.Fence, n *node.Document, target driver.ISCSITarget) error {
	if err := cmp.Or(target.Check(n), m.ISCSIRoom().Fits(target, n)); err != nil {
		return err
	}
	operation := fmt.Sprintf("Setting of target IQN %s for node %s", target.IQN, n.UUID)
	err := m.Turn(ctx, f, n, "set the iSCSI target", func(t *redfish.Turn) error {
		i, err := initiatorOf(t, operation)
		if err != nil {
			return err
		}
		if len(i.nics) == 0 {
			return fmt.Errorf("%s: %w", "No nics were found on the system", driver.ErrUnsupported) // Ironic's words
		}
		// An iLO does not tell whether a secret is the same.
		if target.Secret == "" && i.has(target) {
			return nil
		}
		sources := []any{}
		for at, nic := range i.nics {
			s := map[string]any{"iSCSIAttemptName": nic, "iSCSINicSource": nic, "iSCSIAttemptInstance": at + 1, "iSCSITargetName": target.IQN,
				"iSCSILUN": lunText(target.LUN), "iSCSITargetIpAddress": target.Host, "iSCSITargetTcpPort": target.Port,
				"iSCSITargetInfoViaDHCP": false, "iSCSIConnection": "Enabled", "iSCSIAuthenticationMethod": "None"}
			if target.User != "" {
				s["iSCSIAuthenticationMethod"], s["iSCSIChapUsername"], s["iSCSIChapSecret"] = "Chap", target.User, target.Secret
			}
			maps.Copy(s, i.of(nic).besides(target))
			sources = append(sources, s)
		}
		body := map[string]any{"iSCSISources": sources}
		if target.Initiator != "" && target.Initiator != i.Name {
			body["iSCSIInitiatorName"] = target.Initiator
		}
		if _, err := t.Change(i.at, body); err != nil {
			return err
		}
		if i, err = initiatorOf(t, operation); err != nil {
			return fmt.Errorf("read the iSCSI target back: %w", err)
		}
		if !i.has(target) {
			return fmt.Errorf("it accepted the iSCSI target %s and does not show it", target.IQN)
		}
		return nil
	})
	return redfish.HideAll(target.Secrets(), err)
}

// of is the attempt of an adapter; its zero value: it has none.
func (i initiator) of(nic string) source {
	if at := slices.IndexFunc(i.Sources, func(s source) bool { return s.NIC == nic }); at >= 0 {
		return i.Sources[at]
	}
	return source{}
}

// besides are the changes of an attempt that only some targets need: of the kind of its address, and for a target that shows who it is.
// What the attempt has of the target before goes.
func (s source) besides(target driver.ISCSITarget) map[string]any {
	set := map[string]any{}
	kind := ipv4
	if a, err := netip.ParseAddr(target.Host); err == nil && a.Is6() {
		kind = ipv6
	}
	if kind != cmp.Or(s.AddressType, ipv4) {
		set["iSCSIIpAddressType"] = kind
	}
	switch {
	case target.Mutual():
		set["iSCSIChapType"], set["iSCSIReverseChapUsername"], set["iSCSIReverseChapSecret"] = mutual, target.TargetUser, target.TargetSecret
	case strings.EqualFold(s.ChapType, mutual):
		set["iSCSIChapType"] = oneWay
	}
	return set
}

// has reports whether each adapter has the target.
func (i initiator) has(target driver.ISCSITarget) bool {
	for _, nic := range i.nics {
		if !slices.ContainsFunc(i.Sources, func(s source) bool { return s.NIC == nic && s.on() && target.Same(s.target(i.Name)) }) {
			return false
		}
	}
	return len(i.nics) > 0
}

// keeps reports whether the attempt tells of a target that was there.
func (s source) keeps() bool {
	named := func(user string) bool { return user != "" && user != driver.NoISCSIUser }
	return s.TargetName != "" && s.TargetName != driver.NoISCSITarget || named(s.User) || named(s.TargetUser)
}

// forgetting are changes that disable the attempts of all adapters, the best first: the next is for an iLO that refuses the one before.
// Their secrets are emptied, or overwritten.
func (i initiator) forgetting() (bodies []map[string]any) {
	for _, words := range []map[string]any{
		{"iSCSITargetName": "", "iSCSIChapUsername": "", "iSCSIChapSecret": "", "iSCSITargetIpAddress": "0.0.0.0", "iSCSIAuthenticationMethod": "None"},
		{"iSCSITargetName": "", "iSCSIChapUsername": nil, "iSCSIChapSecret": nil, "iSCSITargetIpAddress": "0.0.0.0", "iSCSIAuthenticationMethod": "None"},
		{"iSCSITargetName": driver.NoISCSITarget, "iSCSIChapUsername": driver.NoISCSIUser, "iSCSIChapSecret": rand.Text()[:16], "iSCSITargetIpAddress": "0.0.0.0"},
		{},
	} {
		sources := []any{}
		for at, nic := range i.nics {
			s := map[string]any{"iSCSIAttemptName": nic, "iSCSINicSource": nic, "iSCSIAttemptInstance": at + 1, "iSCSIConnection": "Disabled"}
			maps.Copy(s, words)
			i.of(nic).forgetTarget(s)
			sources = append(sources, s)
		}
		bodies = append(bodies, map[string]any{"iSCSISources": sources})
	}
	return bodies
}

// forgetTarget adds to a change that clears the attempt what it has besides: of a target that shows who it is, and of IPv6.
func (s source) forgetTarget(change map[string]any) {
	user, clears := change["iSCSIChapUsername"]
	if !clears {
		return
	}
	if s.TargetUser != "" {
		change["iSCSIReverseChapUsername"], change["iSCSIReverseChapSecret"] = user, change["iSCSIChapSecret"]
		if user == driver.NoISCSIUser {
			change["iSCSIReverseChapSecret"] = rand.Text()[:16] // one secret for both ways is refused
		} else {
			change["iSCSIChapType"] = oneWay
		}
	}
	if s.AddressType == ipv6 {
		change["iSCSIIpAddressType"] = ipv4
	}
}

// kept are the attempts that tell of a target, also those of adapters that the BIOS does not name any more.
func (i initiator) kept() (nics []string) {
	for at, s := range i.Sources {
		if s.keeps() {
			nics = append(nics, cmp.Or(s.NIC, s.AttemptName, fmt.Sprintf("place %d", at+1)))
		}
	}
	return nics
}

// ClearISCSIBoot implements driver.ISCSIBooter: the attempts of all adapters are disabled, and forget the target.
func (m Management) ClearISCSIBoot(ctx context.Context, f driver.Fence, n *node.Document) error {
	operation := "Unsetting of iSCSI target for node " + n.UUID
	return m.Turn(ctx, f, n, "clear the iSCSI target", func(t *redfish.Turn) error {
		i, err := initiatorOf(t, operation)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(i.Sources, source.on) && len(i.kept()) == 0 {
			return nil
		}
		for _, change := range i.forgetting() {
			if _, err = t.Change(i.at, change); !redfish.RefusesValues(err) {
				break
			}
		}
		if err != nil {
			return err
		}
		if i, err = initiatorOf(t, operation); err != nil {
			return fmt.Errorf("read back: %w", err)
		}
		if slices.ContainsFunc(i.Sources, source.on) {
			return fmt.Errorf("it accepted to clear its iSCSI targets, and still shows one")
		}
		if nics := i.kept(); len(nics) > 0 {
			return fmt.Errorf("its iSCSI attempts of %s still tell of a target, and perhaps have its CHAP secret: change that at the target, or remove the attempts in the firmware's own menu: %w",
				strings.Join(nics, ", "), driver.ErrTargetKept)
		}
		return nil
	})
}

// bootTarget is the boot override of a system, as far as it names a device of UEFI.
type bootTarget struct {
	Boot struct {
		Enabled  string   `json:"BootSourceOverrideEnabled"`
		Target   string   `json:"BootSourceOverrideTarget"`
		Override string   `json:"UefiTargetBootSourceOverride"`
		Devices  []string `json:"UefiTargetBootSourceOverride@Redfish.AllowableValues"`
	}
}

// iscsi reports whether the machine boots by iSCSI next.
func (b bootTarget) iscsi() bool {
	return b.Boot.Target == "UefiTarget" && strings.Contains(b.Boot.Override, "iSCSI") && b.Boot.Enabled != "Disabled"
}

// SupportedBootDevices implements driver.Management.
func (m Management) SupportedBootDevices(ctx context.Context, n *node.Document) ([]driver.BootDevice, error) {
	list, err := m.Management.SupportedBootDevices(ctx, n)
	if err != nil {
		return nil, err
	}
	err = m.Turn(ctx, nil, n, "list the boot devices", func(t *redfish.Turn) error {
		var b bootTarget
		if err := t.Read(t.System.Path, &b); err != nil {
			return err
		}
		if slices.ContainsFunc(b.Boot.Devices, func(d string) bool { return strings.Contains(d, "iSCSI") }) {
			list = append(list, driver.BootISCSI)
		}
		return nil
	})
	return list, err
}

// BootDevice implements driver.Management.
func (m Management) BootDevice(ctx context.Context, n *node.Document) (ask.BootDevice, error) {
	var b bootTarget
	err := m.Turn(ctx, nil, n, "read the boot device", func(t *redfish.Turn) error { return t.Read(t.System.Path, &b) })
	if err != nil {
		return ask.BootDevice{}, err
	}
	if b.iscsi() {
		persistent := b.Boot.Enabled == "Continuous"
		return ask.BootDevice{Device: string(driver.BootISCSI), Persistent: &persistent}, nil
	}
	return m.Management.BootDevice(ctx, n)
}

// SetBootDevice implements driver.Management. An iLO boots by iSCSI from a device of UEFI, which it shows once the machine has
// started with a target.
func (m Management) SetBootDevice(ctx context.Context, f driver.Fence, n *node.Document, device driver.BootDevice, persistent bool) error {
	if device != driver.BootISCSI {
		return m.Management.SetBootDevice(ctx, f, n, device, persistent)
	}
	enabled := "Once"
	if persistent {
		enabled = "Continuous"
	}
	return m.Turn(ctx, f, n, "set the boot device to iscsiboot", func(t *redfish.Turn) error {
		var b bootTarget
		if err := t.Read(t.System.Path, &b); err != nil {
			return err
		}
		if b.iscsi() && b.Boot.Enabled == enabled {
			return nil
		}
		at := slices.IndexFunc(b.Boot.Devices, func(d string) bool { return strings.Contains(d, "iSCSI") })
		if at < 0 {
			return fmt.Errorf("%s: %w", "No UEFI iSCSI bootable device found on system", driver.ErrUnsupported) // Ironic's words
		}
		// The device comes first: an override with no device is refused.
		if b.Boot.Override != b.Boot.Devices[at] {
			if _, err := t.Change(t.System.Path, map[string]any{"Boot": map[string]any{"UefiTargetBootSourceOverride": b.Boot.Devices[at]}}); err != nil {
				return err
			}
		}
		if _, err := t.Change(t.System.Path, map[string]any{"Boot": map[string]any{"BootSourceOverrideTarget": "UefiTarget", "BootSourceOverrideEnabled": enabled}}); err != nil {
			return err
		}
		var now bootTarget
		if err := t.Read(t.System.Path, &now); err != nil {
			return fmt.Errorf("read the boot device back: %w", err)
		}
		if !now.iscsi() || now.Boot.Enabled != enabled {
			return fmt.Errorf("it accepted the boot device iscsiboot, and shows the target %q, %q", now.Boot.Target, now.Boot.Enabled)
		}
		return nil
	})
}
