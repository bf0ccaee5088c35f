package redfish

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/stmcginnis/gofish"
	"github.com/stmcginnis/gofish/schemas"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// override is a boot override: as it is shown, or as it is to be. What is empty is not told.
type override struct {
	BootSourceOverrideTarget  schemas.BootSource                `json:",omitempty"`
	BootSourceOverrideEnabled schemas.BootSourceOverrideEnabled `json:",omitempty"`
	BootSourceOverrideMode    schemas.BootSourceOverrideMode    `json:",omitempty"`
	// HTTPBootURI that is shown as null is none: the firmware takes what DHCP says. One that is wanted as nil stays as it is.
	HTTPBootURI *string `json:"HttpBootUri"`
}

// bootPlace is where a system shows its override and takes another. Some systems take parts of it at a settings
// object, and show them there until they start.
type bootPlace struct {
	path, settings string
	now            override
	inSettings     map[string]json.RawMessage // Boot of the settings object
}

// SetBootDevice overrides the boot device for one boot or for good, in the boot mode of the node. What is already so is
// not written. A BMC that knows no override for good gets one for the next boot, and once more before each start.
func (d *Driver) SetBootDevice(ctx context.Context, f driver.Fence, n *node.Document, device driver.BootDevice, persistent bool) error {
	if device == driver.BootISCSI {
		return d.setISCSIDevice(ctx, f, n, persistent)
	}
	return d.setBoot(ctx, f, n, device, "", persistent)
}

// SetHTTPBoot implements driver.HTTPBooter.
func (d *Driver) SetHTTPBoot(ctx context.Context, f driver.Fence, n *node.Document, uri string, persistent bool) error {
	if u, err := url.Parse(uri); uri != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		return invalid(n, "boot by UEFI HTTP: this is not an http or https URL")
	}
	return d.setBoot(ctx, f, n, "uefihttp", uri, persistent)
}

func (d *Driver) setBoot(ctx context.Context, f driver.Fence, n *node.Document, device driver.BootDevice, uri string, persistent bool) error {
	if bootTargets[string(device)] == nil {
		return fmt.Errorf("node %s: Redfish knows no boot device %q: %w", n.Label(), device, driver.ErrUnsupported)
	}
	doing := fmt.Sprintf("set the boot device to %s", device)
	return d.pool.with(ctx, f, n, doing, func(b *session, a account, c *gofish.APIClient) error {
		s, err := b.system(c, a)
		if err != nil {
			return err
		}
		want, err := overrideFor(c, s, n, device, uri)
		if err != nil {
			return err
		}
		again := ""
		if persistent && canContinue(s) {
			want.BootSourceOverrideEnabled = schemas.ContinuousBootSourceOverrideEnabled
		} else if persistent {
			again = string(device)
		}
		shown, err := writeBoot(ctx, b, a, c, s, want)
		if persistent && again == "" && status(err) == http.StatusBadRequest {
			want.BootSourceOverrideEnabled = schemas.OnceBootSourceOverrideEnabled
			shown, err = writeBoot(ctx, b, a, c, s, want)
		}
		if persistent && shown == schemas.OnceBootSourceOverrideEnabled {
			again = string(device)
		}
		if err == nil {
			d.again.set(n, again)
		}
		return err
	})
}

// ClearOneStart implements driver.OneStartClearer.
func (d *Driver) ClearOneStart(ctx context.Context, f driver.Fence, n *node.Document) error {
	return d.pool.with(ctx, f, n, "take back the boot device of one start", func(b *session, a account, c *gofish.APIClient) error {
		s, err := b.system(c, a)
		if err != nil {
			return err
		}
		p, err := bootOf(c, s)
		if err != nil || p.now.BootSourceOverrideEnabled != schemas.OnceBootSourceOverrideEnabled {
			return err
		}
		if kept := d.again.Of(n).BootDevice; kept != "" && slices.Contains(bootTargets[kept], p.now.BootSourceOverrideTarget) {
			return nil // it is set again before each start
		}
		want := override{BootSourceOverrideEnabled: schemas.DisabledBootSourceOverrideEnabled, BootSourceOverrideMode: p.now.BootSourceOverrideMode}
		if makerOf(c, s).needs(wholeBoot) {
			want.BootSourceOverrideTarget = p.now.BootSourceOverrideTarget
		}
		shown, err := writeBoot(ctx, b, a, c, s, want)
		if err == nil && shown == schemas.OnceBootSourceOverrideEnabled {
			err = fmt.Errorf("it accepted that no device is set for one start, and shows %s as before: set a device for all starts, or look at the BMC",
				p.now.BootSourceOverrideTarget)
		}
		return err
	})
}

// canContinue reports whether the BMC may know an override for good.
func canContinue(s *System) bool {
	list := allowed[schemas.BootSourceOverrideEnabled](s, "BootSourceOverrideEnabled")
	return list == nil || slices.Contains(list, schemas.ContinuousBootSourceOverrideEnabled)
}

// overrideFor is the override for one boot from the device, in the node's boot mode.
func overrideFor(c *gofish.APIClient, s *System, n *node.Document, device driver.BootDevice, uri string) (want override, err error) {
	want.BootSourceOverrideEnabled = schemas.OnceBootSourceOverrideEnabled
	want.BootSourceOverrideMode = modes[n.BootMode()]
	if device == "uefihttp" {
		want.BootSourceOverrideMode = schemas.UEFIBootSourceOverrideMode
		want.HTTPBootURI = &uri
	}
	want.BootSourceOverrideTarget, err = targetFor(s, makerOf(c, s), device)
	return want, err
}

// targetFor is what the BMC calls a boot device.
func targetFor(s *System, m maker, device driver.BootDevice) (schemas.BootSource, error) {
	names := bootTargets[string(device)]
	known := allowed[schemas.BootSource](s, "BootSourceOverrideTarget")
	if known == nil {
		return names[0], nil
	}
	if slices.Contains(names, usbCDTarget) && slices.Contains(known, usbCDTarget) && m.needs(usbCD) {
		return usbCDTarget, nil
	}
	for _, name := range names {
		if slices.Contains(known, name) {
			return name, nil
		}
	}
	return "", fmt.Errorf("it boots from %v, not from %s: %w", known, names[0], driver.ErrUnsupported)
}

// bootOf reads where a system has its override, and the override.
func bootOf(c *gofish.APIClient, s *System) (p bootPlace, err error) {
	var system struct {
		Boot     override
		Settings struct{ SettingsObject ref } `json:"@Redfish.Settings"`
	}
	if err := json.Unmarshal(s.raw, &system); err != nil {
		return p, fmt.Errorf("its system cannot be read: %w", err)
	}
	p = bootPlace{path: s.Path, now: system.Boot}
	if p.settings = system.Settings.SettingsObject.Path; p.settings == "" {
		return p, nil
	}
	var settings struct{ Boot map[string]json.RawMessage }
	err = fetch(c, p.settings, &settings)
	if status(err) == http.StatusNotFound || len(settings.Boot) == 0 {
		p.settings = ""
		return p, nil
	}
	if err != nil {
		return p, err
	}
	p.inSettings = settings.Boot
	raw, err := json.Marshal(settings.Boot)
	if err == nil {
		err = json.Unmarshal(raw, &p.now)
	}
	return p, err
}

// differs says in which of what is wanted the override is another, empty: in nothing. A mode that the BMC does not
// report is not compared.
func (p bootPlace) differs(want override) string {
	is := p.now
	switch {
	case want.BootSourceOverrideTarget != "" && is.BootSourceOverrideTarget != want.BootSourceOverrideTarget:
		return fmt.Sprintf("the target %q", is.BootSourceOverrideTarget)
	case want.BootSourceOverrideEnabled != "" && is.BootSourceOverrideEnabled != want.BootSourceOverrideEnabled:
		return fmt.Sprintf("an override that is %q", is.BootSourceOverrideEnabled)
	case is.BootSourceOverrideMode != "" && want.BootSourceOverrideMode != "" && is.BootSourceOverrideMode != want.BootSourceOverrideMode:
		return fmt.Sprintf("the boot mode %q", is.BootSourceOverrideMode)
	case want.HTTPBootURI != nil && uriOf(is) != uriOf(want):
		return "another HttpBootUri than it was given"
	}
	return ""
}

// uriOf is the URL that the firmware boots, empty for that which DHCP tells.
func uriOf(o override) string {
	if o.HTTPBootURI == nil {
		return ""
	}
	return *o.HTTPBootURI
}

// body is what is sent for an override. Without whole the mode goes along only where it differs. A BMC that does not report the
// mode does not take it either, unless it is one that wants all.
func (p bootPlace) body(want override, whole bool) map[string]any {
	body := map[string]any{}
	if want.BootSourceOverrideTarget != "" {
		body["BootSourceOverrideTarget"] = want.BootSourceOverrideTarget
	}
	if want.BootSourceOverrideEnabled != "" {
		body["BootSourceOverrideEnabled"] = want.BootSourceOverrideEnabled
	}
	if is := p.now.BootSourceOverrideMode; whole || is != "" && is != want.BootSourceOverrideMode {
		body["BootSourceOverrideMode"] = want.BootSourceOverrideMode
	}
	if uri := uriOf(want); uri != "" {
		body["HttpBootUri"] = uri
	} else if uri == "" && want.HTTPBootURI != nil && uriOf(p.now) != "" {
		body["HttpBootUri"] = nil // one that is left would be booted again
	}
	return body
}

// send writes the parts of an override to where the BMC takes them.
func (p bootPlace) send(c *gofish.APIClient, m maker, body map[string]any) error {
	now, later := map[string]any{}, map[string]any{}
	for name, value := range body {
		if _, there := p.inSettings[name]; there && p.settings != "" {
			later[name] = value
		} else {
			now[name] = value
		}
	}
	if len(later) > 0 {
		if _, err := patch(c, m, p.settings, map[string]any{"Boot": later}); err != nil {
			return err
		}
	}
	if len(now) == 0 {
		return nil
	}
	_, err := patch(c, m, p.path, map[string]any{"Boot": now})
	return err
}

// A BMC that has accepted an override shows it within looksAtBoot looks, bootLook apart.
const looksAtBoot = 4

// bootLook is a variable for tests alone.
var bootLook = time.Second

// writeBoot brings the override to what is wanted, and reads it back. It returns for how long the BMC then shows it: some take
// an override for one boot for good, and some the other way round.
func writeBoot(ctx context.Context, b *session, a account, c *gofish.APIClient, s *System, want override) (schemas.BootSourceOverrideEnabled, error) {
	p, err := bootOf(c, s)
	if err != nil {
		return "", err
	}
	// A settings object may go on showing an override for one boot that the machine has used up.
	usedUp := p.settings != "" && want.BootSourceOverrideEnabled == schemas.OnceBootSourceOverrideEnabled
	if p.differs(want) == "" && !usedUp {
		return p.now.BootSourceOverrideEnabled, nil
	}
	m := makerOf(c, s)
	body := p.body(want, m.needs(wholeBoot))
	err = p.send(c, m, body)
	mode, withMode := body["BootSourceOverrideMode"]
	if withMode && len(body) > 1 && status(err) == http.StatusBadRequest {
		// Of one family of firmware some want the mode along, and others refuse it there.
		delete(body, "BootSourceOverrideMode")
		if err = p.send(c, m, body); err == nil && p.now.BootSourceOverrideMode != "" && p.now.BootSourceOverrideMode != want.BootSourceOverrideMode {
			err = p.send(c, m, map[string]any{"BootSourceOverrideMode": mode})
		}
	}
	if err != nil {
		return "", err
	}
	return awaitBoot(ctx, b, a, c, want)
}

// awaitBoot waits until the BMC shows the override.
func awaitBoot(ctx context.Context, b *session, a account, c *gofish.APIClient, want override) (schemas.BootSourceOverrideEnabled, error) {
	differs := ""
	for look := range looksAtBoot {
		if look > 0 {
			if err := driver.Pause(ctx, bootLook); err != nil {
				return "", err
			}
		}
		s, err := b.system(c, a)
		if err != nil {
			return "", fmt.Errorf("read the boot override back: %w", err)
		}
		p, err := bootOf(c, s)
		if err != nil {
			return "", fmt.Errorf("read the boot override back: %w", err)
		}
		is := p.now.BootSourceOverrideEnabled
		if is == schemas.OnceBootSourceOverrideEnabled || is == schemas.ContinuousBootSourceOverrideEnabled {
			p.now.BootSourceOverrideEnabled = want.BootSourceOverrideEnabled // for how long is told, and no error
		}
		if differs = p.differs(want); differs == "" {
			return is, nil
		}
	}
	return "", fmt.Errorf("it accepted the boot override %s, %s, and %s later shows %s",
		want.BootSourceOverrideTarget, want.BootSourceOverrideEnabled, (looksAtBoot-1)*bootLook, differs)
}

// bootAgain gives a machine whose BMC knows no override for good the override for its next start. What fails stops no
// start: the machine's own order of devices then decides.
func (d *Driver) bootAgain(ctx context.Context, b *session, a account, c *gofish.APIClient, s *System, n *node.Document) error {
	device := d.again.Of(n).BootDevice
	if device == "" {
		return nil
	}
	want, err := overrideFor(c, s, n, driver.BootDevice(device), "")
	want.HTTPBootURI = nil // the firmware has it
	if err == nil {
		_, err = writeBoot(ctx, b, a, c, s, want)
	}
	if err == nil || errors.Is(err, driver.ErrFenced) {
		return err
	}
	d.pool.opts.Log.Warn("the boot device was not set again: the machine's own order decides", "node", n.UUID, "device", device, "error", a.clean(err.Error()))
	return nil
}
