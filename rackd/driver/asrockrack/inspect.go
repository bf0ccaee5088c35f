package asrockrack

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/bmc-toolbox/common"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// Inspection is the inspect interface: the BMC says what the machine is made of. The machine's power stays as it is, and no ramdisk boots.
// These BMCs tell neither MAC addresses nor the number of processors' threads nor the size of drives.
type Inspection struct{ *Driver }

// Source implements driver.Sourced.
func (Inspection) Source() work.Source { return work.FromBMC }

// InspectSteps is one step, which only reads.
func (i Inspection) InspectSteps(*node.Document) []driver.Step {
	return []driver.Step{{Interface: "inspect", Name: "inspect_hardware", Kind: driver.Repeatable, Retries: 4, Pause: 5 * time.Second, NoRamdisk: true, Run: i.inspect}}
}

func (i Inspection) inspect(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
	device, err := i.device(ctx, t.Node, "inspect the machine")
	if err != nil {
		return driver.Outcome{}, err
	}
	found, missing := inventory(device)
	sent, err := json.Marshal(found)
	if err != nil {
		return driver.Outcome{}, fmt.Errorf("node %s: the inventory that the BMC tells: %w", t.Node.Label(), err)
	}
	// The BMC tells no size of a drive, so that the one which an operator has set stays.
	size, _ := strconv.ParseInt(fmt.Sprint(t.Node.Properties["local_gb"]), 10, 64)
	plugin, err := json.Marshal(map[string]any{"local_gb": size})
	if err != nil {
		return driver.Outcome{}, fmt.Errorf("node %s: what the BMC tells of drives: %w", t.Node.Label(), err)
	}
	t.Record.Inventory(agentapi.Inventory{Sent: sent, PluginData: plugin})
	t.Record.Phase("inventory", fmt.Sprintf("by the BMC: %d processors, %d memory modules, %d drives", len(device.CPUs), len(device.Memory), len(device.Drives)))
	for _, what := range missing {
		t.Record.Phase("inventory incomplete", what)
	}
	return driver.Done(), nil
}

// inventory is what the machine is made of, in the words in which ramdisks tell it, and what is missing there, with what to do.
func inventory(d *common.Device) (found map[string]any, missing []string) {
	vendor := map[string]any{}
	for key, value := range map[string]string{"manufacturer": d.Vendor, "product_name": d.Model, "serial_number": d.Serial} {
		if value != "" {
			vendor[key] = value
		}
	}
	found = map[string]any{"system_vendor": vendor, "interfaces": []any{}}
	mb, untold := memory(d)
	if mb > 0 && untold == 0 {
		found["memory"] = map[string]any{"physical_mb": mb}
	} else {
		missing = append(missing, fmt.Sprintf("of %d memory modules it tells the size of %d: set properties/memory_mb, or inspect by the agent", len(d.Memory), len(d.Memory)-untold))
	}
	if len(d.CPUs) > 0 {
		found["cpu"] = map[string]any{"model_name": d.CPUs[0].Model, "architecture": architecture(d.CPUs[0])}
	}
	disks := []any{}
	for _, drive := range d.Drives {
		disks = append(disks, map[string]any{"vendor": drive.Vendor, "model": drive.ProductName, "serial": drive.Serial})
	}
	if len(disks) > 0 {
		found["disks"] = disks
	}
	return found, append(missing, "it tells no size of a drive: set properties/local_gb, or inspect by the agent",
		"it tells the MAC address of no NIC: create ports, or inspect by the agent")
}

var gigabytes = regexp.MustCompile(`\b([0-9]+) ?GB\b`)

// memory is the size of all modules, in MiB, and how many of them tell none.
func memory(d *common.Device) (mb int64, untold int) {
	for _, m := range d.Memory {
		size := gigabytes.FindStringSubmatch(m.Description)
		if size == nil {
			untold++
			continue
		}
		gb, _ := strconv.ParseInt(size[1], 10, 32)
		mb += gb << 10
	}
	return mb, untold
}

// architecture is that of a processor, empty where its maker does not say.
func architecture(c *common.CPU) string {
	if maker := strings.ToLower(c.Vendor + " " + c.Model); strings.Contains(maker, "intel") || strings.Contains(maker, "amd") {
		return "x86_64"
	}
	return ""
}
