package ilo

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/credential"
	"github.com/ironyard/ironyard/rackd/driver/ilo/ribcl"
	"github.com/ironyard/ironyard/rackd/driver/redfish"
)

// Auto is the interfaces of the hardware type ilo, whose machines speak Redfish or RIBCL. An iLO without a Redfish service
// answers its root with 404; it is then asked by RIBCL.
type Auto struct {
	Redfish Management
	RIBCL   *ribcl.Driver
	known   *speech
}

// NewAuto returns an Auto that has asked no iLO yet.
func NewAuto(m Management, r *ribcl.Driver) Auto {
	return Auto{m, r, &speech{old: map[string]time.Time{}, health: map[string]time.Time{}}}
}

// speech is which iLOs speak RIBCL only. Safe for concurrent use.
type speech struct {
	mu  sync.Mutex
	old map[string]time.Time // by account, until when that counts
	// health is by account when the health is to be read by RIBCL again.
	health map[string]time.Time
}

// An iLO gets Redfish with a firmware of iLO 4 2.30, so an answer counts for some time.
const speechLasts = time.Hour

// mostSpeech bounds the accounts that are remembered.
const mostSpeech = 10000

func (s *speech) ribclOnly(account string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Before(s.old[account])
}

func (s *speech) learn(account string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.old) >= mostSpeech {
		clear(s.old)
	}
	s.old[account] = time.Now().Add(speechLasts)
}

// healthDue reports whether the health is to be read, at most once in healthEvery.
func (s *speech) healthDue(account string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Now().Before(s.health[account]) {
		return false
	}
	if len(s.health) >= mostSpeech {
		clear(s.health)
	}
	s.health[account] = time.Now().Add(healthEvery)
	return true
}

// either runs one of the two, as the node's iLO speaks.
func (a Auto) either(n *node.Document, modern, old func() error) error {
	account := a.RIBCL.Account(n)
	if a.known.ribclOnly(account) {
		return old()
	}
	err := modern()
	if !errors.Is(err, redfish.ErrNoService) {
		return err
	}
	a.known.learn(account)
	return old()
}

// Properties implements driver.Interface.
func (a Auto) Properties() map[string]string { return a.Redfish.Properties() }

// Validate implements driver.Interface.
func (a Auto) Validate(n *node.Document) error { return a.Redfish.Validate(n) }

// Account implements driver.Accounted.
func (a Auto) Account(n *node.Document) string { return a.Redfish.Account(n) }

// LocatesBMC implements driver.Located.
func (Auto) LocatesBMC() {}

// PowerTargets implements driver.Power.
func (a Auto) PowerTargets() []driver.PowerState { return a.Redfish.PowerTargets() }

// PowerState implements driver.Power.
func (a Auto) PowerState(ctx context.Context, n *node.Document) (s driver.PowerState, err error) {
	err = a.either(n, func() (err error) { s, err = a.Redfish.PowerState(ctx, n); return err }, func() (err error) { s, err = a.RIBCL.PowerState(ctx, n); return err })
	return s, err
}

// SetPower implements driver.Power.
func (a Auto) SetPower(ctx context.Context, f driver.Fence, n *node.Document, target driver.PowerState) error {
	return a.either(n, func() error { return a.Redfish.SetPower(ctx, f, n, target) }, func() error { return a.RIBCL.SetPower(ctx, f, n, target) })
}

// SupportedBootDevices implements driver.Management.
func (a Auto) SupportedBootDevices(ctx context.Context, n *node.Document) (list []driver.BootDevice, err error) {
	err = a.either(n, func() (err error) { list, err = a.Redfish.SupportedBootDevices(ctx, n); return err },
		func() (err error) { list, err = a.RIBCL.SupportedBootDevices(ctx, n); return err })
	return list, err
}

// BootDevice implements driver.Management.
func (a Auto) BootDevice(ctx context.Context, n *node.Document) (d ask.BootDevice, err error) {
	err = a.either(n, func() (err error) { d, err = a.Redfish.BootDevice(ctx, n); return err }, func() (err error) { d, err = a.RIBCL.BootDevice(ctx, n); return err })
	return d, err
}

// SetBootDevice implements driver.Management.
func (a Auto) SetBootDevice(ctx context.Context, f driver.Fence, n *node.Document, d driver.BootDevice, persistent bool) error {
	return a.either(n, func() error { return a.Redfish.SetBootDevice(ctx, f, n, d, persistent) }, func() error { return a.RIBCL.SetBootDevice(ctx, f, n, d, persistent) })
}

// ClearOneStart implements driver.OneStartClearer.
func (a Auto) ClearOneStart(ctx context.Context, f driver.Fence, n *node.Document) error {
	return a.either(n, func() error { return a.Redfish.ClearOneStart(ctx, f, n) }, func() error { return a.RIBCL.ClearOneStart(ctx, f, n) })
}

// BootMode implements driver.Management.
func (a Auto) BootMode(ctx context.Context, n *node.Document) (mode string, err error) {
	err = a.either(n, func() (err error) { mode, err = a.Redfish.BootMode(ctx, n); return err }, func() (err error) { mode, err = a.RIBCL.BootMode(ctx, n); return err })
	return mode, err
}

// SetBootMode implements driver.Management.
func (a Auto) SetBootMode(ctx context.Context, f driver.Fence, n *node.Document, mode string) error {
	return a.either(n, func() error { return a.Redfish.SetBootMode(ctx, f, n, mode) }, func() error { return a.RIBCL.SetBootMode(ctx, f, n, mode) })
}

// Identity implements driver.Management.
func (a Auto) Identity(ctx context.Context, n *node.Document) (id driver.Identity, err error) {
	err = a.either(n, func() (err error) { id, err = a.Redfish.Identity(ctx, n); return err }, func() (err error) { id, err = a.RIBCL.Identity(ctx, n); return err })
	return id, err
}

// DetectVendor implements driver.VendorDetector.
func (a Auto) DetectVendor(ctx context.Context, n *node.Document) (vendor string, err error) {
	err = a.either(n, func() (err error) { vendor, err = a.Redfish.DetectVendor(ctx, n); return err }, func() error { vendor = "HP"; return nil })
	return vendor, err
}

// InjectNMI implements driver.Management.
func (a Auto) InjectNMI(ctx context.Context, f driver.Fence, n *node.Document) error {
	return a.either(n, func() error { return a.Redfish.InjectNMI(ctx, f, n) }, func() error { return a.RIBCL.InjectNMI(ctx, f, n) })
}

// Media implements driver.VirtualMedia.
func (a Auto) Media(ctx context.Context, n *node.Document) (list []hardware.Media, err error) {
	err = a.either(n, func() (err error) { list, err = a.Redfish.Media(ctx, n); return err }, func() (err error) { list, err = a.RIBCL.Media(ctx, n); return err })
	return list, err
}

// AttachMedia implements driver.VirtualMedia.
func (a Auto) AttachMedia(ctx context.Context, f driver.Fence, n *node.Document, mediaType, url string) error {
	return a.either(n, func() error { return a.Redfish.AttachMedia(ctx, f, n, mediaType, url) }, func() error { return a.RIBCL.AttachMedia(ctx, f, n, mediaType, url) })
}

// DetachMedia implements driver.VirtualMedia.
func (a Auto) DetachMedia(ctx context.Context, f driver.Fence, n *node.Document, types []string) error {
	return a.either(n, func() error { return a.Redfish.DetachMedia(ctx, f, n, types) }, func() error { return a.RIBCL.DetachMedia(ctx, f, n, types) })
}

// EjectImage implements driver.VirtualMedia.
func (a Auto) EjectImage(ctx context.Context, f driver.Fence, n *node.Document, mediaType string, meant func(string) bool) error {
	return a.either(n, func() error { return a.Redfish.EjectImage(ctx, f, n, mediaType, meant) }, func() error { return a.RIBCL.EjectImage(ctx, f, n, mediaType, meant) })
}

// no is what an iLO that speaks RIBCL only cannot do.
func no(n *node.Document, what string) func() error {
	return func() error { return driver.Unsupported(n, "management", what) }
}

// SecureBoot implements driver.SecureBooter.
func (a Auto) SecureBoot(ctx context.Context, n *node.Document) (on bool, err error) {
	err = a.either(n, func() (err error) { on, err = a.Redfish.SecureBoot(ctx, n); return err }, no(n, "get_secure_boot_state"))
	return on, err
}

// SetSecureBoot implements driver.SecureBooter.
func (a Auto) SetSecureBoot(ctx context.Context, f driver.Fence, n *node.Document, on bool) error {
	return a.either(n, func() error { return a.Redfish.SetSecureBoot(ctx, f, n, on) }, no(n, "set_secure_boot_state"))
}

// ISCSIBoot implements driver.ISCSIBooter.
func (a Auto) ISCSIBoot(ctx context.Context, n *node.Document) (list []driver.ISCSITarget, err error) {
	err = a.either(n, func() (err error) { list, err = a.Redfish.ISCSIBoot(ctx, n); return err }, no(n, "iscsi boot"))
	return list, err
}

// ISCSIRoom implements driver.ISCSIBooter.
func (a Auto) ISCSIRoom() driver.ISCSIRoom { return a.Redfish.ISCSIRoom() }

// SetISCSIBoot implements driver.ISCSIBooter.
func (a Auto) SetISCSIBoot(ctx context.Context, f driver.Fence, n *node.Document, target driver.ISCSITarget) error {
	return a.either(n, func() error { return a.Redfish.SetISCSIBoot(ctx, f, n, target) }, no(n, "set_iscsi_boot_target"))
}

// ClearISCSIBoot implements driver.ISCSIBooter.
func (a Auto) ClearISCSIBoot(ctx context.Context, f driver.Fence, n *node.Document) error {
	return a.either(n, func() error { return a.Redfish.ClearISCSIBoot(ctx, f, n) }, no(n, "clear_iscsi_boot_target"))
}

// Start implements driver.StartTeller. By RIBCL an iLO tells nothing of it.
func (a Auto) Start(ctx context.Context, n *node.Document) (far driver.Start, err error) {
	err = a.either(n, func() (err error) { far, err = a.Redfish.Start(ctx, n); return err }, func() error { far = driver.StartUntold; return nil })
	return far, err
}

// Kept implements driver.Keeper.
func (a Auto) Kept(n *node.Document) json.RawMessage { return a.Redfish.Kept(n) }

// ofILO5 are the steps for an iLO 5. The hardware type ilo5 has them alone, as in Ironic.
var ofILO5 = []string{eraseDevices, clearCA, oneButtonErase}

// NamedSteps lists the steps; those of Redfish end with an error where an iLO speaks RIBCL only. A new password is for both.
func (a Auto) NamedSteps(n *node.Document) []driver.Step {
	others := slices.DeleteFunc(a.Redfish.NamedSteps(n), func(s driver.Step) bool { return s.Name == resetCredential || slices.Contains(ofILO5, s.Name) })
	modern := a.Redfish.credential()
	return append(others, credentialSteps(n, credential.Change{Field: fieldPassword, Asks: fieldNewPassword,
		Tell: func(ctx context.Context, f driver.Fence, n *node.Document, password string) error {
			return a.either(n, func() error { return modern.Tell(ctx, f, n, password) }, func() error { return redfish.Hide(password, a.RIBCL.SetPassword(ctx, f, n, password)) })
		},
		Accepts: func(ctx context.Context, n *node.Document) error {
			return a.either(n, func() error { return modern.Accepts(ctx, n) }, func() error { _, err := a.RIBCL.PowerState(ctx, n); return err })
		}})...)
}

// AutoInspection is the inspect interface ilo.
type AutoInspection struct {
	Auto
	Modern Inspection
	Drives Drives
}

// Source implements driver.Sourced.
func (AutoInspection) Source() work.Source { return work.FromBMC }

// InspectSteps implements driver.Inspect.
func (i AutoInspection) InspectSteps(n *node.Document) []driver.Step {
	steps := i.Modern.InspectSteps(n)
	steps[0].Run = func(ctx context.Context, t *driver.Task) (out driver.Outcome, err error) {
		err = i.either(t.Node, func() (err error) { out, err = i.Modern.Inspect(ctx, t); return err },
			func() (err error) { out, err = i.RIBCL.Inspect(ctx, t, i.Drives.Size); return err })
		return out, err
	}
	return steps
}
