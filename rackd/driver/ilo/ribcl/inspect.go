package ribcl

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/rackd/driver"
)

// SizeOf tells the size of a machine's disk, in GiB; 0: none is known.
type SizeOf func(context.Context, *driver.Task) (int64, error)

// Inspect is the run of a step that reads what the machine is made of, from its health. An iLO tells the disks of some
// controllers only; an iLO of a G7 calls some things by other names. Where it tells the size of none, sizeOf is asked.
func (d *Driver) Inspect(ctx context.Context, t *driver.Task, sizeOf SizeOf) (driver.Outcome, error) {
	var found map[string]any
	var size int64
	err := d.with(ctx, nil, t.Node, "inspect the machine", func(at *turn) error {
		self, err := at.describe()
		if err != nil {
			return err
		}
		health, err := at.read(server, "GET_EMBEDDED_HEALTH", nil, "GET_EMBEDDED_HEALTH_DATA")
		if err != nil {
			return err
		}
		found, size = inventory(self, health)
		return nil
	})
	if err != nil {
		return driver.Outcome{}, err
	}
	if size == 0 {
		if size, err = sizeOf(ctx, t); err != nil {
			return driver.Outcome{}, err
		}
	}
	sent, err := json.Marshal(found)
	if err != nil {
		return driver.Outcome{}, fmt.Errorf("node %s: the inventory that the iLO tells: %w", t.Node.Label(), err)
	}
	told := map[string]any{"local_gb": size}
	if model, _ := found["system_vendor"].(map[string]any)["product_name"].(string); model != "" {
		told["capabilities"] = map[string]any{"server_model": model}
	}
	plugin, err := json.Marshal(told)
	if err != nil {
		return driver.Outcome{}, fmt.Errorf("node %s: what the iLO tells besides: %w", t.Node.Label(), err)
	}
	nics, _ := found["interfaces"].([]any)
	t.Record.Inventory(agentapi.Inventory{Sent: sent, PluginData: plugin})
	t.Record.Phase("inventory", fmt.Sprintf("by RIBCL: %d NICs, also those that no cable is in", len(nics)))
	return driver.Done(), nil
}

var threads = regexp.MustCompile(`(\d+)\s*threads`)

// inventory is what the machine is made of, in the words in which ramdisks tell it. size is that of the smallest volume, in
// GiB less one; 0: it tells none.
func inventory(self, health element) (found map[string]any, size int64) {
	found = map[string]any{"interfaces": nics(health)}
	if mb := memory(health); mb > 0 {
		found["memory"] = map[string]any{"physical_mb": mb}
	}
	cpu := map[string]any{"architecture": ""}
	count := int64(0)
	for _, p := range health.all("PROCESSOR") {
		if m := threads.FindStringSubmatch(p.value("EXECUTION_TECHNOLOGY")); m != nil {
			n, _ := strconv.ParseInt(m[1], 10, 64)
			count += n
		}
		if name := p.value("NAME"); name != "" && cpu["model_name"] == nil {
			cpu["model_name"] = name
		}
		if strings.HasPrefix(p.value("MEMORY_TECHNOLOGY"), "64-bit") {
			cpu["architecture"] = "x86_64" // iLO 3 and 4 are in machines of no other kind
		}
	}
	cpu["count"] = count
	found["cpu"] = cpu
	vendor := map[string]any{"manufacturer": "HP"}
	for key, value := range map[string]string{"product_name": self.text("HSI", "SPN"), "serial_number": self.text("HSI", "SBSN"), "system_uuid": self.text("HSI", "cUUID")} {
		if value != "" {
			vendor[key] = value
		}
	}
	found["system_vendor"] = vendor
	for _, v := range health.all("LOGICAL_DRIVE") {
		if gib := megabytes(v.value("CAPACITY")) >> 10; gib > 4 && (size == 0 || gib-1 < size) {
			size = gib - 1
		}
	}
	return found, size
}

// nics are the machine's network adapters; the iLO's own is none of them.
func nics(health element) []any {
	list := []any{}
	for _, of := range []string{"NIC_INFORMATION", "NIC_INFOMATION"} { // the latter is what a G7's iLO writes
		in, _ := health.find(of)
		for _, n := range in.Children {
			if n.XMLName.Local != "NIC" {
				continue
			}
			mac, err := net.ParseMAC(n.value("MAC_ADDRESS"))
			if err != nil || len(mac) != 6 {
				continue
			}
			list = append(list, map[string]any{"name": strings.TrimSpace(n.value("LOCATION") + " " + n.value("NETWORK_PORT")), "mac_address": mac.String()})
		}
	}
	return list
}

// memory is the sum of what the processors, or the slots, hold.
func memory(health element) (mb int64) {
	in, _ := health.find("MEMORY")
	for _, e := range in.all("TOTAL_MEMORY_SIZE") {
		mb += megabytes(e.attribute("VALUE"))
	}
	if mb > 0 {
		return mb
	}
	for _, e := range in.all("MEMORY_SIZE") {
		mb += megabytes(e.attribute("VALUE"))
	}
	return mb
}

// megabytes reads a size such as "8192 MB" or "279 GB"; 0: it is none.
func megabytes(text string) int64 {
	number, unit, _ := strings.Cut(strings.TrimSpace(text), " ")
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || v < 0 {
		return 0
	}
	switch strings.ToUpper(strings.TrimSpace(unit)) {
	case "MB":
		return int64(v)
	case "GB":
		return int64(v * 1024)
	case "TB":
		return int64(v * 1024 * 1024)
	}
	return 0
}
