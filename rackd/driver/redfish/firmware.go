package redfish

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/stmcginnis/gofish"
	"github.com/stmcginnis/gofish/schemas"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bringup"
)

// Firmware is the firmware interface of machines whose BMC speaks Redfish: the versions
// of BIOS, BMC, network adapters, drives and power supplies, and updates that the BMC fetches by itself.
type Firmware struct {
	*Driver
	// Bringup restarts machines whose BMC writes firmware only then.
	Bringup bringup.Settings
}

// Components reads the versions.
func (f Firmware) Components(ctx context.Context, n *node.Document) (list []hardware.Component, err error) {
	found, err := f.found(ctx, n)
	return found.components(), err
}

// found is what a machine shows of its firmware.
type found struct {
	system []hardware.Component // BIOS and BMC
	parts  []part               // also those without a version
	off    bool                 // the machine is
	cut    bool                 // there are more parts than rackd reads
}

// components are those that show a version.
func (o found) components() (list []hardware.Component) {
	list = slices.Clone(o.system)
	for _, p := range o.parts {
		if p.Current != "" {
			list = append(list, p.Component)
		}
	}
	return list
}

// found reads what the machine shows. It is an ErrUnsupported where that is nothing.
func (f Firmware) found(ctx context.Context, n *node.Document) (o found, err error) {
	err = f.change(ctx, nil, n, "read the firmware's versions", func(s *System, c *gofish.APIClient) error {
		o = found{}
		if o.system, err = versions(s); err != nil {
			return err
		}
		v, err := partsOf(c, s)
		if err != nil {
			return err
		}
		o.parts, o.cut, o.off = v.list, v.cut, s.PowerState == schemas.OffPowerState
		if len(o.components()) == 0 {
			return fmt.Errorf("it reports the version of neither BIOS nor BMC, and of no part: %w", driver.ErrUnsupported)
		}
		return nil
	})
	return o, err
}

// versions are those that the system tells.
func versions(s *System) (list []hardware.Component, err error) {
	if s.BIOSVersion != "" {
		list = append(list, hardware.Component{Name: "bios", Current: s.BIOSVersion, Vendor: s.Manufacturer, Model: s.Model, Serial: s.SerialNumber})
	}
	managers, err := managersOf(s)
	if err != nil {
		return nil, err
	}
	for _, m := range managers {
		if m.FirmwareVersion != "" {
			return append(list, hardware.Component{Name: "bmc", Current: m.FirmwareVersion, Vendor: m.Manufacturer, Model: m.Model, Serial: m.SerialNumber}), nil
		}
	}
	return list, nil
}

// NamedSteps lists the step that writes firmware.
func (f Firmware) NamedSteps(*node.Document) []driver.Step {
	return []driver.Step{{Interface: "firmware", Name: "update", Kind: driver.Reattachable, Retries: 4, Pause: jobPoll, NoRamdisk: true, Run: f.update,
		Check: func(n *node.Document, args map[string]any) error { _, err := updates(n, args["settings"]); return err },
		Takes: map[string]driver.Argument{"settings": {Required: true,
			Description: "A list of updates in the order in which to make them, each with component (bios, bmc, nic:SERIAL, nic:ID, drive:ID or psu:ID, as the node's firmware is listed) and the url that the BMC is to fetch. wait says for how many seconds the new version is looked for before the machine is restarted, and before a bmc counts as unchanged."}}}}
}

// update is one wanted update.
type update struct {
	Component, URL string
	shown          string // of the URL: who is allowed to read a file may stand in it
	wait           int    // for how many looks the new version may take to show; 0: as usual
	rest           int    // for how many looks the BMC is left alone once its task has ended
	like           string // component of an earlier update with the same file; empty: none
}

// isPart: the component is none of BIOS and BMC.
func (u update) isPart() bool { return kindOf(u.Component) != "" }

// restarts reports whether the firmware may begin to work at a restart of the machine only.
func (u update) restarts() bool { return u.Component != "bmc" }

// kindOf is the kind of part that a component's name begins with, empty for one that is no part's.
func kindOf(component string) string {
	kind, id, _ := strings.Cut(component, ":")
	if id == "" || len(component) > longestName || !slices.Contains(partKinds, kind) {
		return ""
	}
	return kind
}

// longestWait bounds what an update may say of its wait: for as long a BMC may say that it works.
const longestWait = 2 * time.Hour

func updates(n *node.Document, arg any) (list []update, err error) {
	items, _ := arg.([]any)
	for i, item := range items {
		m, _ := item.(map[string]any)
		u := update{}
		u.Component, _ = m["component"].(string)
		u.URL, _ = m["url"].(string)
		parsed, err := url.Parse(u.URL)
		if err != nil || parsed.Scheme == "" || parsed.Host == "" || u.Component == "" {
			return nil, invalid(n, "firmware update %d: give component and url, an absolute URL", i+1)
		}
		if u.Component != "bios" && u.Component != "bmc" && !u.isPart() {
			return nil, invalid(n, "firmware update %d: there is no component %.80q, give bios, bmc, nic:SERIAL, nic:ID, drive:ID or psu:ID", i+1, u.Component)
		}
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if key != "component" && key != "url" && key != "wait" {
				return nil, invalid(n, "firmware update %d: there is no %.60q, give component, url and wait", i+1, key)
			}
		}
		if v, given := m["wait"]; given {
			seconds := number(v)
			if seconds < 1 || seconds > int(longestWait.Seconds()) {
				return nil, invalid(n, "firmware update %d: its wait is %.60v: give seconds, from 1 to %.0f", i+1, v, longestWait.Seconds())
			}
			u.wait = 1 + (seconds-1)/int(jobPoll.Seconds())
		}
		u.shown = hardware.WithoutCodes(parsed.Host + parsed.Path)
		if same := slices.IndexFunc(list, func(before update) bool { return before.URL == u.URL }); same >= 0 {
			u.like = list[same].Component
		}
		list = append(list, u)
	}
	if len(list) == 0 {
		return nil, invalid(n, "settings is not a list of firmware updates")
	}
	return list, nil
}
