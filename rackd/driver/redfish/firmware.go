package redfish

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"time"

	"github.com/stmcginnis/gofish/redfish"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bringup"
)

// Firmware is the firmware interface of machines whose BMC speaks Redfish: the versions
// of BIOS and BMC, and updates that the BMC fetches by itself.
type Firmware struct {
	*Driver
	// Bringup restarts machines whose BMC writes firmware only then.
	Bringup bringup.Settings
}

// Components reads the versions.
func (f Firmware) Components(ctx context.Context, n *node.Document) (list []hardware.Component, err error) {
	err = f.read(ctx, n, "read the firmware's versions", func(s *redfish.ComputerSystem) error {
		if list, err = versions(s); err == nil && len(list) == 0 {
			err = fmt.Errorf("it reports the version of neither BIOS nor BMC: %w", driver.ErrUnsupported)
		}
		return err
	})
	return list, err
}

// versions are those that the system tells.
func versions(s *redfish.ComputerSystem) (list []hardware.Component, err error) {
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
			Description: "A list of updates in the order in which to make them, each with component (bios or bmc) and the url that the BMC is to fetch. wait says for how many seconds the new version is looked for before the machine is restarted for a bios, and before a bmc counts as unchanged."}}}}
}

// update is one wanted update.
type update struct {
	Component, URL string
	shown          string // of the URL: who is allowed to read a file may stand in it
	wait           int    // for how many looks the new version may take to show; 0: as usual
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
		if u.Component != "bios" && u.Component != "bmc" {
			return nil, invalid(n, "firmware update %d: there is no component %q, give bios or bmc", i+1, u.Component)
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
		u.shown = parsed.Host + parsed.Path
		list = append(list, u)
	}
	if len(list) == 0 {
		return nil, invalid(n, "settings is not a list of firmware updates")
	}
	return list, nil
}
