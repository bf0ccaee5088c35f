package irmc

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/ironyard/ironyard/protocol/hardware"
)

// biosConfig is the settings that a profile BiosConfig shows, by Ironic's names.
type biosConfig struct {
	settings map[string]any
	versions profileVersions
}

// readBIOS reads a profile BiosConfig. clean makes texts of it fit to show.
func readBIOS(raw []byte, clean func(string) string) (c biosConfig, err error) {
	var p struct {
		Server struct {
			Version      numeral `json:"@Version"`
			SystemConfig struct{ BiosConfig map[string]json.RawMessage }
		}
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		return c, fmt.Errorf("the profile BiosConfig cannot be read: %w", err)
	}
	sections := p.Server.SystemConfig.BiosConfig
	if len(sections) == 0 {
		return c, errors.New("the profile BiosConfig has no settings")
	}
	var version numeral
	if text, there := sections["@Version"]; there {
		if err := json.Unmarshal(text, &version); err != nil {
			return c, fmt.Errorf("the version of the profile BiosConfig cannot be read: %w", err)
		}
	}
	c = biosConfig{map[string]any{}, profileVersions{clean(string(p.Server.Version)), clean(string(version))}}
	for name, at := range settingNames {
		var section map[string]any
		if json.Unmarshal(sections[at.section], &section) != nil {
			continue
		}
		switch value := section[at.key].(type) {
		case bool, float64:
			c.settings[name] = value
		case string:
			c.settings[name] = clean(value)
		}
	}
	return c, nil
}

// typed gives the settings of a request the types that the BIOS has. wrong says which it would not take.
func (c biosConfig) typed(wanted map[string]any) (want map[string]any, wrong []string) {
	want = map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		text := textOf(wanted[name])
		var err error
		switch c.settings[name].(type) {
		case nil:
			wrong = append(wrong, "this machine's BIOS has no "+name+": leave it out")
			continue
		case bool:
			if want[name], err = strconv.ParseBool(strings.ToLower(text)); err != nil {
				wrong = append(wrong, fmt.Sprintf("%s is true or false, not %.60q", name, text))
			}
		case float64:
			number, err := strconv.ParseFloat(text, 64)
			want[name] = number
			if err != nil || math.IsNaN(number) || math.IsInf(number, 0) {
				wrong = append(wrong, fmt.Sprintf("%s is a number, not %.60q", name, text))
			}
		default:
			want[name] = text
		}
	}
	return want, wrong
}

// unlike says which settings are others than wanted.
func (c biosConfig) unlike(want map[string]any) (list []string) {
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if is := c.settings[name]; !reflect.DeepEqual(is, want[name]) {
			list = append(list, fmt.Sprintf("%s is %.60s, asked for was %.60s", name, textOf(is), textOf(want[name])))
		}
	}
	return list
}

// list is the settings as the API shows them.
func (c biosConfig) list() []hardware.Setting {
	list := []hardware.Setting{}
	for _, name := range slices.Sorted(maps.Keys(c.settings)) {
		text := textOf(c.settings[name])
		list = append(list, hardware.Setting{Name: name, Value: &text})
	}
	return list
}

// textOf is a value as the API shows it. Booleans are as Ironic's are.
func textOf(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case bool:
		return map[bool]string{true: "True", false: "False"}[v]
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return fmt.Sprint(value)
}

// settingOrder is a profile that has settings made.
func settingOrder(v profileVersions, want map[string]any) ([]byte, error) {
	config := map[string]any{"@Processing": "execute"}
	for name, value := range want {
		at := settingNames[name]
		section, _ := config[at.section].(map[string]any)
		if section == nil {
			section = map[string]any{}
			config[at.section] = section
		}
		section[at.key] = value
	}
	server := map[string]any{"SystemConfig": map[string]any{biosProfile: config}}
	if v.Part != "" {
		config["@Version"] = v.Part
	}
	if v.Server != "" {
		server["@Version"] = v.Server
	}
	return json.Marshal(map[string]any{"Server": server})
}
