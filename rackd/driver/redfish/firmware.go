package redfish

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/stmcginnis/gofish"
	"github.com/stmcginnis/gofish/redfish"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// Firmware is the firmware interface of machines whose BMC speaks Redfish: the versions
// of BIOS and BMC, and updates that the BMC fetches by itself.
type Firmware struct{ *Driver }

// Components reads the versions.
func (f Firmware) Components(ctx context.Context, n *node.Document) (list []hardware.Component, err error) {
	err = f.read(ctx, n, "read the firmware's versions", func(s *redfish.ComputerSystem) error {
		list = nil
		if s.BIOSVersion != "" {
			list = append(list, hardware.Component{Name: "bios", Current: s.BIOSVersion, Vendor: s.Manufacturer, Model: s.Model, Serial: s.SerialNumber})
		}
		managers, err := s.ManagedBy()
		if err != nil {
			return err
		}
		for _, m := range managers {
			if m.FirmwareVersion != "" {
				list = append(list, hardware.Component{Name: "bmc", Current: m.FirmwareVersion, Vendor: m.Manufacturer, Model: m.Model, Serial: m.SerialNumber})
				break
			}
		}
		if len(list) == 0 {
			return fmt.Errorf("it tells the version of neither BIOS nor BMC: %w", driver.ErrUnsupported)
		}
		return nil
	})
	return list, err
}

// NamedSteps lists the step that writes firmware.
func (f Firmware) NamedSteps(*node.Document) []driver.Step {
	return []driver.Step{{Interface: "firmware", Name: "update", Kind: driver.Reattachable, Retries: 4, Pause: jobPoll, NoRamdisk: true, Run: f.update,
		Takes: map[string]driver.Argument{"settings": {Required: true,
			Description: "A list of updates in the order in which to make them, each with component (bios or bmc) and the url that the BMC is to fetch."}}}}
}

// update is one wanted update.
type update struct {
	Component, URL string
	shown          string // of the URL: who is allowed to read a file may stand in it
}

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
		u.shown = parsed.Host + parsed.Path
		list = append(list, u)
	}
	if len(list) == 0 {
		return nil, invalid(n, "settings is not a list of firmware updates")
	}
	return list, nil
}

// updating is the handle of the step.
type updating struct {
	At  int    `json:"at"` // of the list
	Job string `json:"job,omitempty"`
	// Staged are the components whose new firmware waits for a restart.
	Staged []string `json:"staged,omitempty"`
}

func (f Firmware) update(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
	list, err := updates(t.Node, t.Args["settings"])
	if err != nil {
		return driver.Outcome{}, err
	}
	var h updating
	if raw := t.Record.Handle(); raw != nil {
		if err := json.Unmarshal(raw, &h); err != nil {
			return driver.Outcome{}, fmt.Errorf("node %s: the handle %q of the firmware update cannot be read: %w", t.Node.Label(), raw, err)
		}
	}
	for ; h.At < len(list); h.At, h.Job = h.At+1, "" {
		u := list[h.At]
		doing := "update the firmware of the " + u.Component
		if h.Job == "" {
			// Asked for again after a takeover it is refused, or does no harm: the BMC
			// makes one update at a time.
			if h.Job, err = f.begin(ctx, t, doing, u); err != nil {
				return driver.Outcome{}, err
			}
			t.Record.Phase("firmware", "the BMC fetches "+u.shown)
			if h.Job != "" {
				return driver.Wait(jobPoll), t.Record.SaveHandle(ctx, h)
			}
			continue
		}
		switch is, err := f.job(ctx, t, doing, h.Job); {
		case err != nil:
			return driver.Outcome{}, err
		case is == running:
			return driver.Wait(jobPoll), nil
		case is == staged:
			h.Staged = append(h.Staged, u.Component)
			t.Record.Phase("firmware", u.Component+": the new version takes effect when the machine restarts")
		}
	}
	return driver.Done(), f.tell(ctx, t, list, h.Staged)
}

func (f Firmware) begin(ctx context.Context, t *driver.Task, doing string, u update) (job string, err error) {
	err = f.pool.with(ctx, t.Fence, t.Node, doing, func(_ *bmc, _ account, c *gofish.APIClient) error {
		var root struct{ UpdateService ref }
		if err := fetch(c, "/redfish/v1", &root); err != nil {
			return err
		}
		var service struct {
			Actions struct {
				Simple struct {
					Target string `json:"target"`
				} `json:"#UpdateService.SimpleUpdate"`
			}
		}
		if root.UpdateService.Path != "" {
			if err := fetch(c, root.UpdateService.Path, &service); err != nil {
				return err
			}
		}
		if service.Actions.Simple.Target == "" {
			return fmt.Errorf("it fetches no firmware by itself: %w", driver.ErrUnsupported)
		}
		scheme, _, _ := strings.Cut(u.URL, ":")
		job, err = order(c, http.MethodPost, service.Actions.Simple.Target, map[string]any{"ImageURI": u.URL, "TransferProtocol": strings.ToUpper(scheme)})
		return err
	})
	return job, err
}

// tell reports the versions that are there now.
func (f Firmware) tell(ctx context.Context, t *driver.Task, made []update, staged []string) error {
	list, err := f.Components(ctx, t.Node)
	if err != nil {
		return err
	}
	for i, c := range list {
		for _, u := range made {
			if u.Component == c.Name && !slices.Contains(staged, c.Name) {
				list[i].Flashed = c.Current
			}
		}
	}
	t.Record.Observe(hardware.Observation{Firmware: list})
	return nil
}
