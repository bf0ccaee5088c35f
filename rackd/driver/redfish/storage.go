package redfish

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"

	"github.com/stmcginnis/gofish"

	"github.com/ironyard/ironyard/rackd/driver"
)

// controller is a storage controller that makes volumes.
type controller struct {
	ID, Name string
	at       string   // of its volumes
	applies  []string // when it makes volumes, if it says so
	drives   []drive
	volumes  []volume
}

type drive struct {
	ref
	ID            string `json:"Id"`
	Name          string
	MediaType     string // HDD or SSD
	Protocol      string
	CapacityBytes int64
}

type volume struct {
	ref
	ID                   string `json:"Id"`
	Name, DisplayName    string
	VolumeType, RAIDType string
	CapacityBytes        int64
	Links                struct{ Drives []ref }
}

// raw: the volume is nothing but a drive that the controller shows as it is.
func (v volume) raw() bool { return v.VolumeType == "RawDevice" && v.RAIDType == "" }

// controllers reads the system's storage controllers with their drives and volumes.
func controllers(b *session, a account, c *gofish.APIClient) (list []controller, err error) {
	s, err := b.system(c, a)
	if err != nil {
		return nil, err
	}
	var system struct{ Storage ref }
	if err := json.Unmarshal(s.raw, &system); err != nil || system.Storage.Path == "" {
		return nil, fmt.Errorf("it shows no storage controllers: %w", driver.ErrUnsupported)
	}
	found, err := members(c, system.Storage.Path)
	if err != nil {
		return nil, err
	}
	for _, f := range found {
		var raw struct {
			ID      string `json:"Id"`
			Name    string
			Drives  []ref
			Volumes ref
		}
		if err := fetch(c, f.Path, &raw); err != nil {
			return nil, err
		}
		if raw.Volumes.Path == "" {
			continue
		}
		k := controller{ID: raw.ID, Name: raw.Name, at: raw.Volumes.Path}
		for _, link := range raw.Drives {
			d := drive{}
			if err := fetch(c, link.Path, &d); status(err) == http.StatusNotFound {
				continue // some link to drives that they do not show
			} else if err != nil {
				return nil, err
			}
			d.Path = link.Path
			k.drives = append(k.drives, d)
		}
		var all struct {
			Members []ref
			Applies struct{ SupportedValues []string } `json:"@Redfish.OperationApplyTimeSupport"`
		}
		if err := fetch(c, k.at, &all); err != nil {
			return nil, err
		}
		k.applies = all.Applies.SupportedValues
		for _, link := range all.Members {
			v := volume{}
			if err := fetch(c, link.Path, &v); err != nil {
				return nil, err
			}
			v.Path = link.Path
			k.volumes = append(k.volumes, v)
		}
		list = append(list, k)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("none of its storage controllers makes volumes: %w", driver.ErrUnsupported)
	}
	return list, nil
}

// levels are the RAID levels with the fewest drives that each takes, and how many of n
// drives hold data.
var levels = map[string]struct {
	redfish string
	least   int
	data    func(n int) int
}{
	"JBOD": {"RAID0", 1, func(n int) int { return n }},
	"0":    {"RAID0", 1, func(n int) int { return n }},
	"1":    {"RAID1", 2, func(int) int { return 1 }},
	"5":    {"RAID5", 3, func(n int) int { return n - 1 }},
	"6":    {"RAID6", 4, func(n int) int { return n - 2 }},
	"1+0":  {"RAID10", 4, func(n int) int { return n / 2 }},
	"5+0":  {"RAID50", 6, func(n int) int { return n - 2 }},
	"6+0":  {"RAID60", 8, func(n int) int { return n - 4 }},
}

// wanted is a volume as the BMC is asked for it.
type wanted struct {
	at     string // of the controller's volumes
	Level  string `json:"level"`
	Drives []ref  `json:"drives"`
	Bytes  int64  `json:"bytes,omitempty"` // 0: as large as may be
	Name   string `json:"name,omitempty"`
	// Apply is when the controller is told to make it; empty: it is not told.
	Apply string `json:"apply,omitempty"`
}

// body is the request for the volume.
func (w wanted) body() map[string]any {
	body := map[string]any{"RAIDType": w.Level, "Links": map[string]any{"Drives": w.Drives}}
	if w.Bytes > 0 {
		body["CapacityBytes"] = w.Bytes
	}
	if w.Name != "" {
		body["Name"] = w.Name
	}
	if w.Apply != "" {
		body["@Redfish.OperationApplyTime"] = w.Apply
	}
	return body
}

// The times at which a controller may make a volume.
const (
	applyNow     = "Immediate"
	applyAtReset = "OnReset"
)

// applyTime picks the time at which a controller is told to make a volume: at once where it can.
func (k controller) applyTime() string {
	for _, when := range []string{applyNow, applyAtReset} {
		if slices.Contains(k.applies, when) {
			return when
		}
	}
	return ""
}

// layout picks a controller and drives for a logical disk, and says what to ask for.
// Drives that no volume uses come first in the order in which the BMC lists them.
func layout(all []controller, disk map[string]any) (w wanted, err error) {
	text := func(key string) string { s, _ := disk[key].(string); return s }
	level, known := levels[text("raid_level")]
	if !known {
		return w, fmt.Errorf("there is no RAID level %s in Redfish: %w", text("raid_level"), driver.ErrUnsupported)
	}
	named, _ := disk["physical_disks"].([]any)
	count := max(number(disk["number_of_physical_disks"]), len(named), level.least)
	if len(named) > 0 {
		count = len(named)
	}
	for _, k := range all {
		if want := text("controller"); want != "" && want != k.ID && want != k.Name {
			continue
		}
		var free []drive
		for _, d := range k.drives {
			if fits(d, disk, named) && (disk["share_physical_disks"] == true || !k.uses(d)) {
				free = append(free, d)
			}
		}
		if len(free) < count || count < level.least {
			continue
		}
		free = free[:count]
		smallest := int64(math.MaxInt64)
		links := []ref{}
		for _, d := range free {
			smallest = min(smallest, d.CapacityBytes)
			links = append(links, d.ref)
		}
		w = wanted{at: k.at, Level: level.redfish, Drives: links, Name: text("volume_name"), Apply: k.applyTime()}
		if gib := number(disk["size_gb"]); gib > 0 {
			if int64(gib)<<30 > smallest*int64(level.data(count)) {
				continue
			}
			w.Bytes = int64(gib) << 30
		}
		return w, nil
	}
	return w, fmt.Errorf("no controller has %d free drives for a logical disk with RAID level %s and size %v: %w", count, text("raid_level"), disk["size_gb"], driver.ErrInvalid)
}

func (k controller) uses(d drive) bool {
	return slices.ContainsFunc(k.volumes, func(v volume) bool { return !v.raw() && slices.Contains(v.Links.Drives, d.ref) })
}

func fits(d drive, disk map[string]any, named []any) bool {
	if len(named) > 0 && !slices.Contains(named, any(d.ID)) && !slices.Contains(named, any(d.Name)) {
		return false
	}
	for key, has := range map[string]string{"disk_type": d.MediaType, "interface_type": d.Protocol} {
		if want, _ := disk[key].(string); want != "" && !strings.EqualFold(want, has) {
			return false
		}
	}
	return true
}

// number reads a whole number out of JSON, 0 for anything else.
func number(v any) int {
	switch v := v.(type) {
	case float64:
		return int(v)
	case json.Number:
		n, _ := v.Int64()
		return int(n)
	case int:
		return v
	}
	return 0
}
