package redfish

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/stmcginnis/gofish"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
)

// Inspection is the inspect interface "redfish": the BMC says what the machine is made of. The
// machine's power stays as it is, and no ramdisk boots. What the BMC leaves out is left out of
// the inventory; central says what must not be missing.
type Inspection struct {
	*Driver
	// Capabilities reads capabilities of a vendor's machines, by name; nil: none are read.
	Capabilities func(*Turn) map[string]string
	// SizeOf tells the size of the disk, in GiB, where the BMC tells none by Redfish; nil: nothing does.
	SizeOf func(context.Context, *driver.Task) (int64, error)
}

// Source implements driver.Sourced.
func (Inspection) Source() work.Source { return work.FromBMC }

// InspectSteps is one step, which only reads.
func (i Inspection) InspectSteps(*node.Document) []driver.Step {
	return []driver.Step{{Interface: "inspect", Name: "inspect_hardware", Kind: driver.Repeatable, Retries: 4, Pause: 5 * time.Second, NoRamdisk: true, Run: i.inspect}}
}

func (i Inspection) inspect(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
	var found map[string]any
	var missing []string
	size := int64(0)
	var capable map[string]string
	err := i.pool.with(ctx, nil, t.Node, "inspect the machine", func(b *session, a account, c *gofish.APIClient) error {
		s, err := b.system(c, a)
		if err != nil {
			return err
		}
		v := &survey{c: c}
		found, size, err = v.inventory(s)
		missing = v.missing
		if err == nil && i.Capabilities != nil {
			capable = i.Capabilities(&Turn{b, a, c, s})
		}
		return err
	})
	if err != nil {
		return driver.Outcome{}, err
	}
	if size == 0 && i.SizeOf != nil {
		if size, err = i.SizeOf(ctx, t); err != nil {
			return driver.Outcome{}, err
		}
	}
	var inv agentapi.Inventory
	sent, err := json.Marshal(found)
	if err != nil {
		return driver.Outcome{}, fmt.Errorf("node %s: the inventory that the BMC tells: %w", t.Node.Label(), err)
	}
	told := map[string]any{"local_gb": size}
	if len(capable) > 0 {
		told["capabilities"] = capable
	}
	plugin, err := json.Marshal(told)
	if err != nil {
		return driver.Outcome{}, fmt.Errorf("node %s: what the BMC tells of disks and capabilities: %w", t.Node.Label(), err)
	}
	inv.Sent, inv.PluginData = sent, plugin
	t.Record.Inventory(inv)
	nics, _ := found["interfaces"].([]any)
	disks, _ := found["disks"].([]any)
	t.Record.Phase("inventory", fmt.Sprintf("by Redfish: %d NICs, %d disks", len(nics), len(disks)))
	if len(nics) == 0 {
		missing = append(missing, "it tells the MAC address of no NIC: create ports, or inspect by the agent")
	}
	for at, what := range missing {
		if at == mostMissing {
			t.Record.Phase("inventory incomplete", fmt.Sprintf("and %d more", len(missing)-at))
			break
		}
		t.Record.Phase("inventory incomplete", bmc.Clean(what))
	}
	return driver.Done(), nil
}

// mostMissing is how much of what is missing the history tells.
const mostMissing = 10

// survey is one reading of a machine. A link that leads nowhere costs what it leads to, and no more.
type survey struct {
	c       *gofish.APIClient
	missing []string // what was left out, for people
	// expand is the query with which the BMC tells a collection together with its members; empty: it does not.
	expand string
}

// expansion is that query. It saves a question for each member, which counts where machines are asked every minute.
func expansion(c *gofish.APIClient) string {
	root := c.GetService()
	if root == nil {
		return ""
	}
	switch can := root.ProtocolFeaturesSupported.ExpandQuery; {
	case can.NoLinks:
		return "?$expand=."
	case can.ExpandAll:
		return "?$expand=*"
	}
	return ""
}

// dangling notes a link that leads nowhere. It reports whether err is of one.
func (v *survey) dangling(path string, err error) bool {
	if code := status(err); code != http.StatusNotFound && code != http.StatusGone {
		return false
	}
	v.missing = append(v.missing, "the BMC links to "+path+", and has no such resource")
	return true
}

// architectures are the words of inventories for Redfish's instruction sets.
var architectures = map[string]string{"x86-64": "x86_64", "x86": "i686", "ARM-A64": "aarch64", "ARM-A32": "arm", "IA-64": "ia64",
	"MIPS32": "mips", "MIPS64": "mips64"}

// parts are the links of a system to what it is made of.
type parts struct {
	EthernetInterfaces, Processors, Storage, SimpleStorage ref
	MemorySummary                                          struct{ TotalSystemMemoryGiB quantity }
	Links                                                  struct{ Chassis []ref }
}

// inventory reads what the machine is made of, in the words in which ramdisks tell it, and the
// size of the disk that an image would be written to (GiB, less one for partition tables; 0:
// none of 4 GiB or more).
func (v *survey) inventory(s *System) (found map[string]any, localGB int64, err error) {
	var p parts
	if err := json.Unmarshal(s.raw, &p); err != nil {
		return nil, 0, fmt.Errorf("its system cannot be read: %w", err)
	}
	found = map[string]any{}
	if gib := p.MemorySummary.TotalSystemMemoryGiB; gib > 0 {
		found["memory"] = map[string]any{"physical_mb": int64(math.Round(float64(gib) * 1024))}
	}
	if found["cpu"], err = processors(v, p.Processors.Path); err != nil {
		return nil, 0, err
	}
	if found["interfaces"], err = v.interfaces(s, p); err != nil {
		return nil, 0, err
	}
	disks, size, err := v.disksAndSize(p)
	if err != nil {
		return nil, 0, err
	}
	if len(disks) > 0 {
		found["disks"] = disks
	}
	vendor := map[string]any{}
	for key, value := range map[string]string{"product_name": s.Model, "serial_number": s.SerialNumber, "manufacturer": s.Manufacturer, "system_uuid": s.UUID} {
		if value != "" {
			vendor[key] = value
		}
	}
	if len(vendor) > 0 {
		found["system_vendor"] = vendor
	}
	for mode, m := range modes {
		if m == s.Boot.BootSourceOverrideMode {
			found["boot"] = map[string]any{"current_boot_mode": mode}
		}
	}
	return found, max(size>>30-1, 0), nil
}

// each reads the members of a collection one after the other; a path that is empty, or leads
// nowhere, is that of a collection without members.
func each[T any](v *survey, path string, take func(T)) error {
	if path == "" {
		return nil
	}
	var all struct{ Members []json.RawMessage }
	err := fetch(v.c, path+v.expand, &all)
	if code := status(err); v.expand != "" && code >= 400 && code < 500 && code != http.StatusNotFound {
		v.expand = "" // it says that it can, and cannot
		err = fetch(v.c, path, &all)
	}
	if status(err) == http.StatusNotFound {
		return nil
	}
	if err != nil {
		return err
	}
	for _, raw := range all.Members {
		var fields map[string]json.RawMessage
		var at ref
		var item T
		if err := errors.Join(json.Unmarshal(raw, &fields), json.Unmarshal(raw, &at)); err != nil {
			return fmt.Errorf("its answer at %s cannot be read: %w", path, err)
		}
		if len(fields) <= 1 { // a link
			err = items(v, []ref{at}, take)
		} else if err = json.Unmarshal(raw, &item); err == nil {
			take(item)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// items reads what links lead to, one after the other.
func items[T any](v *survey, list []ref, take func(T)) error {
	for _, m := range list {
		var item T
		err := fetch(v.c, m.Path, &item)
		if v.dangling(m.Path, err) {
			continue
		}
		if err != nil {
			return err
		}
		take(item)
	}
	return nil
}

// processors counts the threads of all processors; the rest is told of the first.
func processors(v *survey, path string) (map[string]any, error) {
	type processor struct {
		Model, InstructionSet     string
		MaxSpeedMHz, TotalThreads quantity
	}
	first, threads, cpu := true, int64(0), map[string]any{"architecture": ""}
	err := each(v, path, func(p processor) {
		if first {
			first = false
			cpu["architecture"] = architectures[p.InstructionSet]
			if p.Model != "" {
				cpu["model_name"] = p.Model
			}
			if p.MaxSpeedMHz > 0 {
				cpu["frequency"] = int64(p.MaxSpeedMHz)
			}
		}
		threads += int64(p.TotalThreads)
	})
	cpu["count"] = threads
	return cpu, err
}

// device is a drive as it is told of either kind of storage.
type device struct {
	Name, Manufacturer, Model, SerialNumber, MediaType string
	CapacityBytes                                      quantity
}

// disksAndSize reads the drives of the system's storage, or, where it has none, of its simple
// storage. size is that of the smallest one of 4 GiB or more, in bytes, where volumes come
// before the drives that they are made of.
func (v *survey) disksAndSize(p parts) (disks []any, size int64, err error) {
	var volumes, drives, simple []int64
	var failed error // of what is below a member
	err = each(v, p.Storage.Path, func(k struct {
		Drives  []ref
		Volumes ref
	}) {
		failed = errors.Join(failed, items(v, k.Drives, func(d device) {
			found := map[string]any{"name": d.Name, "size": int64(d.CapacityBytes), "vendor": d.Manufacturer, "model": d.Model, "serial": d.SerialNumber}
			if d.MediaType != "" {
				found["rotational"] = d.MediaType == "HDD"
			}
			disks, drives = append(disks, found), append(drives, int64(d.CapacityBytes))
		}), each(v, k.Volumes.Path, func(d device) { volumes = append(volumes, int64(d.CapacityBytes)) }))
	})
	if err = errors.Join(err, failed); err != nil {
		return nil, 0, err
	}
	full := len(disks) > 0
	err = each(v, p.SimpleStorage.Path, func(k struct{ Devices []device }) {
		for _, d := range k.Devices {
			if !full {
				disks = append(disks, map[string]any{"name": d.Name, "size": int64(d.CapacityBytes)})
			}
			simple = append(simple, int64(d.CapacityBytes))
		}
	})
	size = smallest(volumes)
	if size == 0 {
		size = smallest(drives)
	}
	if other := smallest(simple); size == 0 || other > 0 && other < size {
		size = other
	}
	return disks, size, err
}

// smallest is the least size of 4 GiB or more, 0 for none.
func smallest(sizes []int64) (least int64) {
	for _, size := range sizes {
		if size >= 4<<30 && (least == 0 || size < least) {
			least = size
		}
	}
	return least
}
