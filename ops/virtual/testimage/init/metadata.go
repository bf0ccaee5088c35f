package main

import (
	"encoding/json"
	"fmt"
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
