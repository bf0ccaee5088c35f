package ingest

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
)

// observe takes in what a rack read from a machine: into n, which the caller writes,
// and into the rows of its settings and components.
func observe(ctx context.Context, tx *store.Tx, n *store.Node, o *hardware.Observation) error {
	if o.BootMode != nil {
		n.BootMode = *o.BootMode
	}
	if o.SecureBoot != nil {
		n.SecureBoot = o.SecureBoot
	}
	if o.Health != nil {
		n.Health = *o.Health
	}
	if o.ConsoleEnabled != nil {
		n.ConsoleEnabled = *o.ConsoleEnabled
	}
	if o.RAID != nil {
		if err := forgetDisks(n, o.RAID); err != nil {
			return err
		}
		n.RAIDConfig = o.RAID
	}
	if o.Kept != nil {
		if _, err := mergeInternal(n, map[string]json.RawMessage{node.KeptKey: o.Kept}); err != nil {
			return err
		}
	}
	for key, text := range map[string]*string{node.BootSetKey: o.BootSet, node.LogMarkKey: o.LogMark, node.DeployBootModeKey: o.DeployBootMode, node.SecureBootBeforeKey: o.SecureBootBefore} {
		if err := keepText(n, key, text); err != nil {
			return err
		}
	}
	if err := keepFiles(n, o.InstanceFiles); err != nil {
		return err
	}
	if o.BIOS != nil {
		if err := setSettings(ctx, tx, n.UUID, o.BIOS); err != nil {
			return err
		}
	}
	if o.Firmware != nil {
		return setComponents(ctx, tx, n, o.Firmware)
	}
	return nil
}

// maxMark bounds a mark of an event log, and what is told of an instance's files, in bytes.
const maxMark = 16 << 10

// keepText puts a text into driver_internal_info; an empty one is removed, nil leaves what is there.
func keepText(n *store.Node, key string, text *string) error {
	if text == nil {
		return nil
	}
	if len(*text) > maxMark {
		return contentError{fmt.Errorf("driver_internal_info %s of node %s would have %d bytes, more than %d", key, n.UUID, len(*text), maxMark)}
	}
	raw, err := json.Marshal(*text)
	if *text == "" {
		raw = []byte("null")
	}
	if err != nil {
		return contentError{err}
	}
	_, err = mergeInternal(n, map[string]json.RawMessage{key: raw})
	return err
}

// keepFiles puts which files an instance boots into driver_internal_info; an empty list is removed, nil leaves what is there.
func keepFiles(n *store.Node, files map[string]string) error {
	if files == nil {
		return nil
	}
	raw, err := json.Marshal(files)
	switch {
	case err != nil:
		return contentError{err}
	case len(files) == 0:
		raw = []byte("null")
	case len(raw) > maxMark:
		return contentError{fmt.Errorf("driver_internal_info %s of node %s would have %d bytes, more than %d", node.InstanceFilesKey, n.UUID, len(raw), maxMark)}
	}
	_, err = mergeInternal(n, map[string]json.RawMessage{node.InstanceFilesKey: raw})
	return err
}

// forgetDisks forgets what the last inspection found of disks if the machine's RAID is another than
// it was: volumes have come or gone since.
func forgetDisks(n *store.Node, now map[string]any) error {
	same := reflect.DeepEqual(n.RAIDConfig["logical_disks"], now["logical_disks"])
	if same || n.DriverInternalInfo[node.DisksKey] == nil {
		return nil
	}
	_, err := mergeInternal(n, map[string]json.RawMessage{node.DisksKey: json.RawMessage("null")})
	return err
}

func setSettings(ctx context.Context, tx *store.Tx, id string, settings []hardware.Setting) error {
	items := make([]*store.HardwareItem, 0, len(settings))
	for _, s := range settings {
		item, err := itemOf(id, s.Name, s)
		if err != nil {
			return err
		}
		items = append(items, item)
	}
	return tx.SetHardware(ctx, id, store.BIOSSetting, once(items))
}

// powerOn is a power state.
const powerOn = "power on"

// setComponents keeps which version an update by us has written last: a machine does
// not tell who has flashed it. Many BMCs show adapters, drives and power supplies only while the machine runs: what is missing of one that
// is not seen to run stays as it was.
func setComponents(ctx context.Context, tx *store.Tx, n *store.Node, components []hardware.Component) error {
	id := n.UUID
	before, err := tx.Hardware(ctx, id, store.FirmwareComponent)
	if err != nil {
		return err
	}
	flashed := map[string]string{}
	for _, item := range before {
		var c hardware.Component
		if json.Unmarshal([]byte(item.Data), &c) == nil {
			flashed[item.Name] = c.Flashed
		}
		if c.IsPart() && n.PowerState != powerOn && len(components) < maxItems {
			components = append(components, c) // once drops those that are told
		}
	}
	items := make([]*store.HardwareItem, 0, len(components))
	for _, c := range components {
		if c.Flashed == "" {
			c.Flashed = flashed[c.Name]
		}
		item, err := itemOf(id, c.Name, c)
		if err != nil {
			return err
		}
		item.Initial = c.Current
		items = append(items, item)
	}
	return tx.SetHardware(ctx, id, store.FirmwareComponent, once(items))
}

func itemOf(id, name string, v any) (*store.HardwareItem, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, contentError{fmt.Errorf("hardware %s of node %s: %w", name, id, err)}
	}
	return &store.HardwareItem{Name: name, Data: string(data)}, nil
}

// once drops items whose name came before, or is too long for an index: one statement cannot write a row twice, and
// a BMC's list must not stop a site's events.
func once(items []*store.HardwareItem) []*store.HardwareItem {
	seen, kept := map[string]bool{}, items[:0]
	for _, item := range items {
		if item.Name != "" && len(item.Name) <= maxWord && !seen[item.Name] {
			seen[item.Name] = true
			kept = append(kept, item)
		}
	}
	return kept
}
