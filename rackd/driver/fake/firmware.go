package fake

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

type firmware struct{ base }

// delivered are the versions of a fake machine as it is delivered.
var delivered = []hardware.Component{
	{Name: "bios", Current: "1.0.0", Vendor: "Fake", Model: "fake machine"},
	{Name: "bmc", Current: "1.0.0", Vendor: "Fake", Model: "fake BMC"},
}

func (f firmware) Components(ctx context.Context, n *node.Document) (list []hardware.Component, err error) {
	err = f.use(ctx, n, "firmware_components", func(m *machine) {
		for _, c := range delivered {
			c.Serial = "FAKE-" + n.UUID
			if v, flashed := m.Versions[c.Name]; flashed {
				c.Current, c.Flashed = v, v
			}
			list = append(list, c)
		}
		for _, name := range slices.Sorted(maps.Keys(m.Versions)) {
			if !slices.ContainsFunc(delivered, func(c hardware.Component) bool { return c.Name == name }) {
				list = append(list, hardware.Component{Name: name, Current: m.Versions[name], Flashed: m.Versions[name]})
			}
		}
	})
	return list, err
}

// update is the effect of the step of that name. The version is the file's name
// without what follows its last dot.
func (f firmware) update(ctx context.Context, t *driver.Task) error {
	versions, err := images(t.Node, t.Args["settings"])
	if err != nil {
		return err
	}
	if err := f.change(ctx, t.Fence, t.Node, "update_firmware", func(s *state) {
		for component, version := range versions {
			put(&s.Versions, component, version)
		}
	}); err != nil {
		return err
	}
	list, err := f.Components(ctx, t.Node)
	if err != nil {
		return err
	}
	f.observe(t, hardware.Observation{Firmware: list})
	return nil
}

// images reads the argument settings of update. Components that the machine does not
// know are new ones: clients' tests make up theirs.
func images(n *node.Document, arg any) (map[string]string, error) {
	list, isList := arg.([]any)
	if !isList {
		return nil, fmt.Errorf("node %s: settings is not a list of updates: %w", n.Label(), driver.ErrInvalid)
	}
	out := map[string]string{}
	for i, item := range list {
		m, _ := item.(map[string]any)
		component, _ := m["component"].(string)
		text, _ := m["url"].(string)
		u, err := url.Parse(text)
		if err != nil || text == "" || component == "" {
			return nil, fmt.Errorf("node %s: firmware update %d: give component and url: %w", n.Label(), i+1, driver.ErrInvalid)
		}
		file := path.Base(u.Path)
		out[component] = strings.TrimSuffix(file, path.Ext(file))
	}
	return out, nil
}
