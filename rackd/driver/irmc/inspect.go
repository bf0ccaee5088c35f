package irmc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"strings"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
	"github.com/ironyard/ironyard/rackd/driver/redfish"
	"github.com/ironyard/ironyard/rackd/driver/snmp/snmpclient"
)

// Objects of Fujitsu's SC2.mib, for the unit of the machine itself, which is number 1.
const (
	sc2         = "1.3.6.1.4.1.231.2.10.2.2.10."
	modelName   = sc2 + "2.3.1.4.1"
	nodeClass   = sc2 + "3.1.1.8.1" // a column, as nodeMAC
	nodeMAC     = sc2 + "3.1.1.9.1"
	bmcName     = sc2 + "3.4.1.3.1.1"
	bmcFirmware = sc2 + "3.4.1.4.1.1"
	biosVersion = sc2 + "4.1.1.11.1"
)

// primaryNode is the class of the machine's own network adapters. The others are management controllers.
const primaryNode = 2

// Inspection is the inspect interface irmc: by Redfish, or by the report of SCCI, by SNMP and by IPMI where the iRMC has no Redfish
// service. The machine's power stays as it is.
type Inspection struct {
	redfish.Inspection
	own    Interface
	agents *snmpclient.Reader
}

// NewInspection returns the interface. own knows which iRMCs have no Redfish service, and speaks SCCI with them. Redfish tells of the
// others whether their firmware takes an iSCSI target.
func NewInspection(modern redfish.Inspection, own Interface, agents *snmpclient.Reader) Inspection {
	modern.Capabilities = redfish.Capabilities
	return Inspection{modern, own, agents}
}

// InspectSteps implements driver.Inspect.
func (i Inspection) InspectSteps(n *node.Document) []driver.Step {
	steps := i.Inspection.InspectSteps(n)
	modern := steps[0].Run
	steps[0].Run = func(ctx context.Context, t *driver.Task) (out driver.Outcome, err error) {
		err = i.own.either(t.Node, func() (err error) { out, err = modern(ctx, t); return err },
			func(*node.Document) (err error) { out, err = i.older(ctx, t); return err })
		return out, err
	}
	return steps
}

// older inspects a machine whose iRMC has no Redfish service.
func (i Inspection) older(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
	target, err := readSNMP(t.Node)
	if err != nil {
		return driver.Outcome{}, fmt.Errorf("node %s: %w", t.Node.Label(), err)
	}
	r, err := i.own.scci.report(ctx, t.Node, "inspect the machine")
	if err != nil {
		return driver.Outcome{}, err
	}
	var told mib
	err = i.agents.Read(ctx, t.Node, "inspect the machine", target, func(ctx context.Context, s *snmpclient.Session) (err error) {
		told, err = readMIB(ctx, s, append(target.Secrets(), t.Node.DriverString(fieldPassword)))
		return err
	})
	if err != nil {
		return driver.Outcome{}, err
	}
	devices, err := i.own.lan.PCIDevices(ctx, byIPMI(t.Node))
	switch {
	case ctx.Err() != nil:
		return driver.Outcome{}, err
	case err != nil:
		told.strange = append(told.strange, fmt.Sprintf("it lists no PCI devices by IPMI, so none is counted: %.300s", err))
	}
	sent, err := json.Marshal(inventory(r, told, devices))
	if err != nil {
		return driver.Outcome{}, fmt.Errorf("node %s: the inventory that the iRMC tells: %w", t.Node.Label(), err)
	}
	besides := map[string]any{"local_gb": r.localGB()}
	if len(told.capabilities) > 0 {
		besides["capabilities"] = told.capabilities
	}
	plugin, err := json.Marshal(besides)
	if err != nil {
		return driver.Outcome{}, fmt.Errorf("node %s: what the iRMC tells of disks and capabilities: %w", t.Node.Label(), err)
	}
	t.Record.Inventory(agentapi.Inventory{Sent: sent, PluginData: plugin})
	found := fmt.Sprintf("by SCCI and SNMP: %d NICs, %d drives", len(told.nics), len(r.driveMB))
	if len(devices) > 0 {
		found += fmt.Sprintf("; %d PCI devices by IPMI", len(devices))
	}
	t.Record.Phase("inventory", found)
	for _, what := range bounded(missing(r, told)) {
		t.Record.Phase("inventory incomplete", bmc.Clean(what, t.Node.DriverString(fieldPassword)))
	}
	return driver.Done(), nil
}

// inventory is what the machine is made of, in the words in which ramdisks tell it.
func inventory(r report, told mib, devices []driver.PCIDevice) map[string]any {
	nics := []any{}
	for _, n := range told.nics {
		nics = append(nics, map[string]any{"name": "node " + n.index, "mac_address": n.mac})
	}
	// Each PRIMERGY with SCCI is an x86, and the report does not say so.
	found := map[string]any{"interfaces": nics, "cpu": map[string]any{"count": r.cores, "architecture": "x86_64"}}
	if r.memoryMB > 0 {
		found["memory"] = map[string]any{"physical_mb": r.memoryMB}
	}
	if model := told.capabilities["server_model"]; model != "" {
		found["system_vendor"] = map[string]any{"product_name": model}
	}
	if len(devices) > 0 {
		pci := make([]any, len(devices))
		for i, d := range devices {
			pci[i] = map[string]any{"vendor_id": fmt.Sprintf("%04x", d.Vendor), "product_id": fmt.Sprintf("%04x", d.Product)}
		}
		found["pci_devices"] = pci
	}
	return found
}

// missing is what the iRMC leaves out, and what to do about it.
func missing(r report, told mib) (list []string) {
	if r.memoryMB == 0 || r.cores == 0 {
		list = append(list, "its report tells no memory or no processor: switch the machine on once, an iRMC learns them when it starts")
	}
	if len(r.driveMB) == 0 {
		list = append(list, "its report tells no drive, which it does where ServerView RAID runs: "+
			"set properties/local_gb, or inspect by the agent")
	}
	if len(told.nics) == 0 {
		list = append(list, "it tells the MAC address of no NIC: create ports, or inspect by the agent")
	}
	return append(append(list, r.strange...), told.strange...)
}

// mostMissing is how much of what is missing the history tells.
const mostMissing = 10

func bounded(list []string) []string {
	if over := len(list) - mostMissing; over > 0 {
		return append(list[:mostMissing], fmt.Sprintf("and %d more", over))
	}
	return list
}

// mib is what the iRMC tells by SNMP.
type mib struct {
	capabilities map[string]string
	nics         []nic
	// strange are the rows that are left out.
	strange []string
}

// nic is a network adapter of the machine, a "node" in words of the MIB.
type nic struct{ index, mac string }

// readMIB reads it. An object or a table that is not there is left out; an agent that does not answer is an error.
func readMIB(ctx context.Context, s *snmpclient.Session, secrets []string) (m mib, err error) {
	texts := map[string]string{}
	for _, object := range []string{biosVersion, bmcName, bmcFirmware, modelName} {
		text, err := s.Text(ctx, object)
		if err != nil && !errors.Is(err, snmpclient.ErrAbsent) {
			return m, err
		}
		// Commas and colons divide capabilities.
		texts[object] = strings.TrimSpace(strings.NewReplacer(",", " ", ":", " ").Replace(bmc.Clean(text, secrets...)))
	}
	firmware := texts[bmcName]
	if firmware != "" && texts[bmcFirmware] != "" {
		firmware += "-"
	}
	firmware += texts[bmcFirmware]
	m.capabilities = map[string]string{"rom_firmware_version": texts[biosVersion], "irmc_firmware_version": firmware, "server_model": texts[modelName]}
	maps.DeleteFunc(m.capabilities, func(_, value string) bool { return value == "" })
	classes, err := s.Column(ctx, nodeClass)
	if err != nil {
		return m, err
	}
	cells, err := s.Column(ctx, nodeMAC)
	if err != nil {
		return m, err
	}
	addresses := map[string]snmpclient.Cell{}
	for _, c := range cells {
		addresses[c.Index] = c
	}
	seen := map[string]bool{}
	for _, c := range classes {
		if class, is := snmpclient.Integer(c.Value); !is || class != primaryNode {
			continue
		}
		raw, _ := addresses[c.Index].Value.Value.([]byte)
		mac := net.HardwareAddr(raw).String()
		switch {
		case len(raw) != 6 || raw[0]&1 == 1 || mac == "00:00:00:00:00:00":
			m.strange = append(m.strange, fmt.Sprintf("its network adapter %s has no MAC address (%.40q)", c.Index, mac))
		case !seen[mac]:
			seen[mac] = true
			m.nics = append(m.nics, nic{c.Index, mac})
		}
	}
	return m, nil
}
