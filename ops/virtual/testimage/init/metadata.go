package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// metadata is what the marker needs of openstack/latest/meta_data.json.
type metadata struct {
	UUID     string `json:"uuid"`
	Hostname string `json:"hostname"`
	Name     string `json:"name"`
}

func parseMetadata(data []byte) (metadata, error) {
	var m metadata
	if err := json.Unmarshal(data, &m); err != nil {
		return metadata{}, fmt.Errorf("meta_data.json: %w", err)
	}
	if m.Hostname == "" {
		m.Hostname = m.Name
	}
	return m, nil
}

// marker is the line for which tests wait. Values are made one word each.
func marker(m metadata, root string) string {
	word := func(s string) string { return strings.Join(strings.Fields(s), "_") }
	return fmt.Sprintf("IRONYARD-INSTANCE-UP hostname=%s uuid=%s root=%s", word(m.Hostname), word(m.UUID), word(root))
}

// bootTable is a line of what the iSCSI Boot Firmware Table says: the initiator's name and each target's, with its portal, LUN and the
// name for CHAP. It is empty where there is no table.
func bootTable(folder string) string {
	value := func(path ...string) string {
		text, _ := os.ReadFile(filepath.Join(append([]string{folder}, path...)...)) // one that is not in the table has no file
		return strings.Join(strings.Fields(string(text)), "_")
	}
	targets, _ := filepath.Glob(filepath.Join(folder, "target*"))
	if len(targets) == 0 {
		return ""
	}
	line := "IRONYARD-INSTANCE-IBFT initiator=" + value("initiator", "initiator-name")
	for _, t := range targets {
		t = filepath.Base(t)
		line += fmt.Sprintf(" %s=%s,%s:%s,lun=%s,chap=%s,reverse=%s", t, value(t, "target-name"), value(t, "ip-addr"), value(t, "port"), value(t, "lun"), value(t, "chap-name"), value(t, "rev-chap-name"))
	}
	return line
}
