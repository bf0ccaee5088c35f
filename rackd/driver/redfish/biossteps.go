package redfish

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/stmcginnis/gofish"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// applying is the order to take the settings of a request.
type applying []asked

func (applying) doing() string { return "apply_configuration" }

func (o applying) give(c *gofish.APIClient, m maker, r biosResource, known map[string]attribute, n *node.Document, h *configuring, save func() error) (job string, given bool, err error) {
	want, wrong := attributesFor(o, r, known)
	if len(wrong) > 0 {
		return "", false, fmt.Errorf("invalid value for setting(s): %s: %w", strings.Join(wrong, "; "), driver.ErrInvalid)
	}
	stays := len(unlike(want, r.Attributes)) == 0 && !contradicts(r.pending, want)
	if stays {
		return "", h.Written, nil // of an order whose answer was lost, the effect is there already
	}
	if h.Asked && len(unlike(want, r.pending)) == 0 {
		return "", true, nil // it was taken
	}
	if err := save(); err != nil {
		return "", false, err
	}
	at, body := r.Path, map[string]any{"Attributes": want}
	if r.Settings.SettingsObject.Path != "" {
		at = r.Settings.SettingsObject.Path
	}
	if slices.Contains(r.Settings.SupportedApplyTimes, applyAtReset) {
		body["@Redfish.SettingsApplyTime"] = map[string]any{"@odata.type": "#Settings.v1_0_0.PreferredApplyTime", "ApplyTime": applyAtReset}
	}
	job, err = patch(c, m, at, body)
	return job, true, err
}

// contradicts reports whether something else than what is wanted is pending for it.
func contradicts(pending, want map[string]any) bool {
	for name, value := range want {
		if staged, there := pending[name]; there && !reflect.DeepEqual(staged, value) {
			return true
		}
	}
	return false
}

func (o applying) left(r biosResource, known map[string]attribute, _ *configuring) (left string, enough bool, said string) {
	want, wrong := attributesFor(o, r, known)
	for _, name := range unlike(want, r.Attributes) {
		wrong = append(wrong, fmt.Sprintf("%s is %.60s", name, textOf(r.Attributes[name])))
	}
	if len(wrong) == 0 {
		return "", false, ""
	}
	slices.Sort(wrong)
	return "Attributes are not updated: " + strings.Join(wrong, "; "), false, ""
}

// resetting is the order to take the factory's settings. Which they are the registry says; machines may have others of their own.
type resetting struct{}

func (resetting) doing() string { return "factory_reset" }

func (resetting) give(c *gofish.APIClient, _ maker, r biosResource, known map[string]attribute, _ *node.Document, h *configuring, save func() error) (job string, given bool, err error) {
	target := r.Actions.Reset.Target
	if target == "" {
		return "", false, fmt.Errorf("it does not reset its BIOS settings: it has no action ResetBios: %w", driver.ErrUnsupported)
	}
	if !h.Written {
		defaults := resettable(r, known)
		h.Compared, h.Before = len(defaults) > 0, map[string]any{}
		for _, name := range unlike(defaults, r.Attributes) {
			h.Before[name] = r.Attributes[name]
		}
	}
	if err := save(); err != nil {
		return "", false, err
	}
	job, err = order(c, http.MethodPost, target, map[string]any{})
	return job, true, err
}

func (resetting) left(r biosResource, known map[string]attribute, h *configuring) (left string, enough bool, said string) {
	if !h.Compared {
		return "it does not say what the factory's settings are", true, "the BMC said that it has reset them; it does not say what the factory's settings are, so they are not compared"
	}
	defaults, still, changed := resettable(r, known), []string{}, false
	for name, before := range h.Before {
		if now, there := r.Attributes[name]; there && !reflect.DeepEqual(now, defaults[name]) {
			still = append(still, fmt.Sprintf("%s is %.60s", name, textOf(now)))
		}
		changed = changed || !reflect.DeepEqual(r.Attributes[name], before)
	}
	if len(still) == 0 {
		return "", true, ""
	}
	left = "other than the registry's defaults: " + some(still)
	return left, changed, "reset. These are other than the registry's defaults, which the machine's maker may have changed: " + some(still)
}

// pendingOf tells what is pending at the BMC and differs from what there is.
func pendingOf(r biosResource, known map[string]attribute) string {
	var list []string
	for name, value := range r.pending {
		if now, there := r.Attributes[name]; there && !known[name].isPassword(name, value) && !reflect.DeepEqual(now, value) {
			list = append(list, fmt.Sprintf("%s is to be %.60s", name, textOf(value)))
		}
	}
	return some(list)
}

// some joins the first of a list for people.
func some(list []string) string {
	const most = 20
	slices.Sort(list)
	if len(list) <= most {
		return strings.Join(list, "; ")
	}
	return fmt.Sprintf("%s; and %d more", strings.Join(list[:most], "; "), len(list)-most)
}
