package asrockrack

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/bmc-toolbox/common"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bringup"
)

// The components whose firmware is read and written.
const (
	bios = "bios"
	bmcs = "bmc"
)

// Firmware is the firmware interface: the versions of BIOS and BMC, and updates of both. Rackd fetches each file and hands it
// to the BMC: these BMCs fetch nothing by themselves.
type Firmware struct {
	*Driver
	// Bringup restarts machines, which show their new BIOS only then.
	Bringup bringup.Settings
}

// Components reads the versions.
func (f Firmware) Components(ctx context.Context, n *node.Document) ([]hardware.Component, error) {
	device, err := f.device(ctx, n, "read the firmware's versions")
	if err != nil {
		return nil, err
	}
	list := components(device)
	if len(list) == 0 {
		return nil, fmt.Errorf("node %s: read the firmware's versions: the BMC tells none: %w", n.Label(), driver.ErrUnsupported)
	}
	return list, nil
}

// components are those that show a version.
func components(d *common.Device) (list []hardware.Component) {
	add := func(name string, c common.Common) {
		if c.Firmware != nil && strings.TrimSpace(c.Firmware.Installed) != "" {
			list = append(list, hardware.Component{Name: name, Current: c.Firmware.Installed, Vendor: d.Vendor, Model: d.Model, Serial: d.Serial})
		}
	}
	if d.BIOS != nil {
		add(bios, d.BIOS.Common)
	}
	if d.BMC != nil {
		add(bmcs, d.BMC.Common)
	}
	return list
}

// versionOf is what a component shows, empty for nothing.
func versionOf(d *common.Device, component string) string {
	for _, c := range components(d) {
		if c.Name == component {
			return c.Current
		}
	}
	return ""
}

// NamedSteps lists the step that writes firmware.
func (f Firmware) NamedSteps(*node.Document) []driver.Step {
	return []driver.Step{{Interface: "firmware", Name: "update", Kind: driver.Reattachable, Retries: 4, Pause: lookPause, NoRamdisk: true, Run: f.update,
		Check: func(n *node.Document, args map[string]any) error { _, err := updates(n, args["settings"]); return err },
		Takes: map[string]driver.Argument{"settings": {Required: true,
			Description: "A list of updates in the order in which to make them, each with component (bios or bmc), url and checksum (sha256 or sha512). " +
				"The rack fetches each file, compares it with its checksum and hands it to the BMC."}}}}
}

// update is one wanted update.
type update struct {
	component string
	source    driver.ImageSource
	shown     string // of the URL: who is allowed to read a file may stand in it
}

// updates reads the argument.
func updates(n *node.Document, arg any) (list []update, err error) {
	items, _ := arg.([]any)
	for i, item := range items {
		m, _ := item.(map[string]any)
		u, wrong := updateOf(m)
		if wrong != "" {
			return nil, fmt.Errorf("node %s: firmware update %d: %s: %w", n.Label(), i+1, wrong, driver.ErrInvalid)
		}
		list = append(list, u)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("node %s: settings is not a list of firmware updates: %w", n.Label(), driver.ErrInvalid)
	}
	return list, nil
}

// updateOf reads one update, and says what is wrong with it. It repeats no URL, which may hold a password.
func updateOf(m map[string]any) (u update, wrong string) {
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if key != "component" && key != "url" && key != "checksum" {
			return u, fmt.Sprintf("there is no %.60q, give component, url and checksum", key)
		}
	}
	text := func(key string) string { v, _ := m[key].(string); return v }
	u.component = text("component")
	if u.component != bios && u.component != bmcs {
		return u, fmt.Sprintf("there is no component %.80q, give bios or bmc", u.component)
	}
	at, err := url.Parse(text("url"))
	if err != nil || !slices.Contains([]string{"http", "https", "file"}, strings.ToLower(at.Scheme)) || at.Scheme != "file" && at.Host == "" {
		return u, "its url is none of http, https or file: the rack fetches the file itself"
	}
	u.source = driver.ImageSource{URL: text("url"), HashValue: strings.ToLower(text("checksum"))}
	u.source.HashAlgo = map[int]string{64: "sha256", 128: "sha512"}[len(u.source.HashValue)]
	if u.source.HashAlgo == "" || strings.Trim(u.source.HashValue, "0123456789abcdef") != "" {
		return u, "its checksum is no sha256 (64 hexadecimal digits) and no sha512 (128)"
	}
	u.shown = hardware.WithoutCodes(at.Host + at.Path)
	return u, ""
}
