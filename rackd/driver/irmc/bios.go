package irmc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/redfish"
)

// BIOS is the BIOS interface irmc. The names of the settings in a request say by which way they are set: Ironic's names by eLCM, those
// of the BIOS's attributes by Redfish.
type BIOS struct {
	redfish.BIOS
	SCCI *SCCI
}

// NamedSteps lists Redfish's steps. apply_configuration takes the names of eLCM as well.
func (b BIOS) NamedSteps(n *node.Document) []driver.Step {
	steps := b.BIOS.NamedSteps(n)
	for i, s := range steps {
		if s.Name != "apply_configuration" {
			steps[i].Run = func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
				out, err := s.Run(ctx, t)
				return out, withoutRedfish(err, "by eLCM no BIOS is reset: restore a backup (management."+restoreBIOS+"), or reset it in its setup")
			}
			continue
		}
		steps[i].Takes = maps.Clone(s.Takes)
		steps[i].Takes["settings"] = driver.Argument{Required: true, Description: "A list of BIOS settings, each with name and value: " +
			"Ironic's names, such as hyper_threading_enabled, by eLCM, or those of Redfish's attributes. The machine is restarted."}
		steps[i].Check = func(n *node.Document, args map[string]any) error {
			if err := s.Check(n, args); err != nil {
				return err
			}
			_, _, err := settingsOf(n, args)
			return err
		}
		steps[i].Run = func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
			if err := s.Check(t.Node, t.Args); err != nil {
				return driver.Outcome{}, err
			}
			wanted, byELCM, err := settingsOf(t.Node, t.Args)
			switch {
			case err != nil:
				return driver.Outcome{}, err
			case byELCM:
				return b.byELCM(ctx, t, wanted)
			}
			out, err := s.Run(ctx, t)
			return out, withoutRedfish(err, "by eLCM its BIOS has these settings: "+strings.Join(slices.Sorted(maps.Keys(settingNames)), ", "))
		}
	}
	return steps
}

// withoutRedfish adds to an error that the iRMC has no Redfish service what can be done.
func withoutRedfish(err error, todo string) error {
	if !errors.Is(err, redfish.ErrNoService) {
		return err
	}
	return fmt.Errorf("%w; %s", err, todo)
}

// settingsOf are the settings of a request that redfish.BIOS has checked, by name. byELCM: they have Ironic's names.
func settingsOf(n *node.Document, args map[string]any) (wanted map[string]any, byELCM bool, err error) {
	list, _ := args["settings"].([]any)
	wanted = map[string]any{}
	var others []string
	for _, item := range list {
		setting, _ := item.(map[string]any)
		name, _ := setting["name"].(string)
		if _, known := settingNames[name]; !known {
			others = append(others, name)
		}
		wanted[name] = setting["value"]
	}
	if _, asked := wanted[settingOfOnce]; asked {
		return nil, false, driver.Refuse("node %s: BIOS settings: the BIOS forgets %s once it has carried it out, so that nothing shows "+
			"whether it has: set it in the BIOS's setup", n.Label(), settingOfOnce)
	}
	if len(others) > 0 && len(others) < len(wanted) {
		return nil, false, driver.Refuse("node %s: BIOS settings: %.200s are no settings of eLCM, as the others of the request are: "+
			"ask for those in a step of their own", n.Label(), strings.Join(others, ", "))
	}
	return wanted, len(others) == 0, nil
}

// settingOfOnce is an order to the BIOS rather than a setting.
const settingOfOnce = "pending_tpm_operation"

// configuring is the handle of a step by eLCM.
type configuring struct {
	Stage   string  `json:"stage"`
	Session session `json:"elcm_session,omitzero"`
	powered
	// Want are the settings to change, of their types, by name. Empty: nothing is to be changed.
	Want     map[string]any  `json:"want,omitempty"`
	Versions profileVersions `json:"versions,omitzero"`
	// Put: the iRMC has told that the settings are made. Lost is how many orders have left no trace.
	Put  bool `json:"put,omitempty"`
	Lost int  `json:"lost,omitempty"`
}

// stageSet is the stage in which settings are put into the machine.
const stageSet = "set"

// byELCM brings the step forward by a look at its session, or by an order.
func (b BIOS) byELCM(ctx context.Context, t *driver.Task, wanted map[string]any) (driver.Outcome, error) {
	const doing = "set BIOS settings by eLCM"
	h := configuring{Stage: stageLook}
	if err := resume(t, doing, &h); err != nil {
		return driver.Outcome{}, err
	}
	save := func(ctx context.Context) error { return t.Record.SaveHandle(ctx, h) }
	if h.Stage == stagePower {
		return h.restore(ctx, t, b.Bringup, save)
	}
	if err := h.note(ctx, t); err != nil {
		return driver.Outcome{}, err
	}
	if !h.Session.begun() && t.HandsOff() {
		t.Record.Idle()
		return driver.Wait(sessionEvery), nil
	}
	var found *biosConfig
	over, out, err := b.SCCI.session(ctx, t, &h.Session, h.order(&found), save)
	if err != nil && !h.Session.begun() {
		err = h.failed(ctx, t, b.Bringup, err)
	}
	if err != nil || !over {
		return out, err
	}
	unseen := h.Session.Unseen
	h.Session = session{}
	switch {
	case h.Stage == stageLook && found != nil:
		err = b.decide(ctx, t, &h, *found, wanted)
	case h.Stage == stageSet:
		h.Stage, h.Put = stageLook, !unseen
		if unseen {
			h.Lost++
		}
		if h.Lost >= mostLost {
			err = lostOrders(t.Node, doing, h.Lost)
		}
	}
	if err != nil {
		return driver.Outcome{}, h.failed(ctx, t, b.Bringup, err)
	}
	return driver.Wait(sessionPause), save(ctx)
}

// order is what the stage asks of the iRMC. A look leaves what it has found.
func (h *configuring) order(found **biosConfig) order {
	if h.Stage == stageSet {
		return order{doing: "set BIOS settings", profile: biosProfile, looks: true, give: func(e elcm) (string, error) {
			raw, err := settingOrder(h.Versions, h.Want)
			if err != nil {
				return "", err
			}
			return e.putIn(raw)
		}}
	}
	return order{doing: "read the BIOS settings", profile: biosProfile, give: elcm.readOut, done: func(e elcm) (bool, error) {
		var raw json.RawMessage
		if err := e.stored(biosProfile, &raw); err != nil {
			return false, err
		}
		c, err := readBIOS(raw, e.clean)
		*found = &c
		return true, err
	}}
}

// decide compares what the BIOS shows with what is wanted, and says what comes next. A setting that it has already is not set.
func (b BIOS) decide(ctx context.Context, t *driver.Task, h *configuring, c biosConfig, wanted map[string]any) error {
	want, wrong := c.typed(wanted)
	if len(wrong) > 0 {
		return driver.Refuse("node %s: BIOS settings: %s", t.Node.Label(), strings.Join(wrong, "; "))
	}
	unlike := c.unlike(want)
	switch {
	case len(unlike) == 0:
		h.Stage = stagePower
		t.Record.Observe(hardware.Observation{BIOS: b.cached(ctx, t.Node, c)})
		return nil
	case h.Put:
		return fmt.Errorf("node %s: set BIOS settings: the iRMC's session has ended well, and the BIOS does not show them: %s. "+
			"Nothing is reported as set: look at the iRMC's log, then repeat the request", t.Node.Label(), strings.Join(unlike, "; "))
	}
	h.Stage, h.Versions, h.Want = stageSet, c.versions, map[string]any{}
	for name, value := range want {
		if !reflect.DeepEqual(c.settings[name], value) {
			h.Want[name] = value
		}
	}
	return nil
}

// cached are the settings that the API shows: all of Redfish where the iRMC has them there, else those of eLCM.
func (b BIOS) cached(ctx context.Context, n *node.Document, c biosConfig) []hardware.Setting {
	if list, err := b.Settings(ctx, n); err == nil && len(list) > 0 {
		return list
	}
	return c.list()
}
