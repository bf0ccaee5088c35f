package inspection

import (
	"maps"
	"reflect"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/smbios"
)

// keepMachine keeps in the node which machine the inspection has found, for the rack: later work
// fails on another one. An inventory that says nothing of that leaves nothing to compare with.
func (s *Subject) keepMachine() {
	vendor, _ := s.Inventory["system_vendor"].(map[string]any)
	text := func(key string) string {
		t, _ := vendor[key].(string)
		return cut(t)
	}
	found := smbios.System{UUID: text("system_uuid"), Serial: text("serial_number")}.Telling()
	kept := map[string]any{}
	for name, t := range map[string]string{"uuid": found.UUID, "serial": found.Serial} {
		if t != "" {
			kept[name] = t
		}
	}
	before, was := s.Node.DriverInternalInfo[node.MachineKey]
	if len(kept) == 0 && !was || reflect.DeepEqual(before, any(kept)) {
		return
	}
	info := maps.Clone(s.Node.DriverInternalInfo)
	if info == nil {
		info = map[string]any{}
	}
	info[node.MachineKey] = kept
	if len(kept) == 0 {
		delete(info, node.MachineKey)
	}
	s.Node.DriverInternalInfo, s.machineChanged = info, true
}

// longest bounds what is kept of a text that a ramdisk has told, in bytes.
const longest = 256

func cut(s string) string { return s[:min(len(s), longest)] }
