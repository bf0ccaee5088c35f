package volume

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

const secret = "a secret of a volume"

// withVolume is a node that boots from a volume; change changes its properties.
func withVolume(change map[string]any) *node.Document {
	p := map[string]any{"target_iqn": "iqn.2026-11.org.example:boot", "target_portal": "10.0.0.9:3260", "target_lun": 1.0,
		"auth_method": "CHAP", "auth_username": "m1", "auth_password": secret}
	for name, v := range change {
		if v == nil {
			delete(p, name)
			continue
		}
		p[name] = v
	}
	return &node.Document{UUID: "u", Interfaces: map[string]string{"storage": "external"}, InstanceInfo: map[string]any{},
		Connectors: []node.Connector{{Type: "mac", ID: "x"}, {Type: "iqn", ID: "iqn.2026-11.org.example:m1"}},
		Targets:    []node.Target{{UUID: "t", Type: "iscsi", VolumeID: "v", Properties: p}}}
}

// An instance is a volume if one has boot index 0, the storage interface uses volumes, and there is no image.
func TestBoots(t *testing.T) {
	for name, change := range map[string]func(*node.Document){
		"":             func(*node.Document) {},
		"noop":         func(n *node.Document) { n.Interfaces["storage"] = "noop" },
		"no interface": func(n *node.Document) { n.Interfaces = nil },
		"an image":     func(n *node.Document) { n.InstanceInfo["image_source"] = "http://x/i" },
		"data only":    func(n *node.Document) { n.Targets[0].BootIndex = 1 },
		"ramdisk":      func(n *node.Document) { n.Interfaces["deploy"] = "ramdisk" },
		"autodetect": func(n *node.Document) {
			n.Interfaces["deploy"] = "autodetect"
			n.InstanceInfo = map[string]any{"ironic_ramdisk_deploy": true, "kernel": "http://x/k", "ramdisk": "http://x/r"}
		},
		"none": func(n *node.Document) { n.Targets = nil },
	} {
		n := withVolume(nil)
		change(n)
		if got := Boots(n); got != (name == "") {
			t.Errorf("%s: boots from a volume: %t", name, got)
		}
	}
}

// Every form in which Cinder tells where a volume is becomes what iPXE reads. LUNs are hexadecimal there.
func TestOrder(t *testing.T) {
	for _, c := range []struct {
		change map[string]any
		want   string
	}{
		{nil, "iscsi:10.0.0.9::3260:1:iqn.2026-11.org.example:boot"},
		{map[string]any{"target_portal": "10.0.0.9", "target_lun": "26"}, "iscsi:10.0.0.9::3260:1a:iqn.2026-11.org.example:boot"},
		{map[string]any{"target_portal": "[2001:db8::9]:3261,1", "target_lun": nil}, "iscsi:[2001:db8::9]::3261:0:iqn.2026-11.org.example:boot"},
		{map[string]any{"target_portals": []any{"10.0.0.9:3260", "san.example:1"}, "target_iqns": []any{"iqn.2026-11.org.example:a", "iqn.2026-11.org.example:b"}, "target_luns": []any{1.0, 2.0}},
			"iscsi:10.0.0.9::3260:1:iqn.2026-11.org.example:a iscsi:san.example::1:2:iqn.2026-11.org.example:b"},
	} {
		o := Order(withVolume(c.change))
		if o.Volumes == nil || strings.Join(o.Volumes.List[0].URIs, " ") != c.want || o.Volumes.Initiator != "iqn.2026-11.org.example:m1" ||
			o.Volumes.List[0].User != "m1" || o.Volumes.List[0].Secret != secret {
			t.Errorf("%v: %+v, want %s", c.change, o, c.want)
		}
	}
	n := withVolume(nil)
	n.Targets = append([]node.Target{{UUID: "d", Type: "iscsi", BootIndex: 2, Properties: map[string]any{"target_iqn": "iqn.2026-11.org.example:d", "target_portal": "10.0.0.9"}}}, n.Targets...)
	if o := Order(n); o.Volumes.List[0].Name != "t" || o.Volumes.List[1].Name != "d" || o.Volumes.List[1].User != "" {
		t.Errorf("the order of two volumes: %+v", o.Volumes)
	}
}

// What no machine can attach is refused, and no refusal tells a secret.
func TestRefusals(t *testing.T) {
	many := make([]any, mostPaths+1)
	for i := range many {
		many[i] = "10.0.0.9"
	}
	for _, c := range []struct {
		change map[string]any
		want   string
	}{
		{map[string]any{"target_iqn": nil}, "no target_iqn"},
		{map[string]any{"target_portal": nil}, "no target_portal"},
		{map[string]any{"target_portal": "10.0.0.9:http"}, "no port"},
		{map[string]any{"target_portal": "a b:3260"}, "names no host"},
		{map[string]any{"target_portal": "x\nshell:3260"}, "names no host"},
		{map[string]any{"target_iqn": "iqn.x ${net0/mac}"}, "no name of an iSCSI target"},
		{map[string]any{"target_lun": "one"}, "no number"},
		{map[string]any{"target_lun": 1e9}, "no number"},
		{map[string]any{"target_portals": many}, "at most"},
		{map[string]any{"target_portals": []any{"10.0.0.9", "10.0.0.8"}, "target_luns": []any{1.0, 2.0, 3.0}}, "3 of target_lun"},
		{map[string]any{"auth_method": "Kerberos"}, "give CHAP"},
		{map[string]any{"auth_username": nil}, "give both"},
		{map[string]any{"auth_username": nil, "auth_password": nil}, "auth_method is CHAP"},
		{map[string]any{"auth_password": strings.Repeat(secret, 20)}, "bytes at most"},
		{map[string]any{"mutual_auth_username": "t"}, "give both mutual_auth_username"},
		{map[string]any{"mutual_auth_username": "t", "mutual_auth_password": "x", "auth_method": nil, "auth_username": nil, "auth_password": nil}, "with auth_username"},
		{map[string]any{"mutual_auth_username": "t", "mutual_auth_password": secret}, "a secret of its own"},
	} {
		n := withVolume(c.change)
		err := External().Validate(n)
		if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "Failed to validate external storage interface for node u. ") {
			t.Errorf("%v: %v, want %q", c.change, err, c.want)
		}
		if strings.Contains(fmt.Sprint(err), secret) || !Order(n).Refuses() || strings.Contains(Order(n).Reason, secret) {
			t.Errorf("%v: a secret is told, or the machine boots: %v", c.change, err)
		}
	}
	for kind, want := range map[string]string{"fibre_channel": "'fibre_channel'", "nvme": "unknown type 'nvme'"} {
		n := withVolume(nil)
		n.Targets[0].Type = kind
		if err := External().Validate(n); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", kind, err)
		}
	}
	n := withVolume(nil)
	n.Connectors[1].ID = "not an iqn"
	if err := External().Validate(n); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "initiator") {
		t.Errorf("a connector: %v", err)
	}
}

// Cinder's interface makes Ironic's checks, and says that rackd does not call Cinder where a volume has no connection yet.
func TestCinder(t *testing.T) {
	able := func(n *node.Document) { n.Properties = map[string]any{"capabilities": "iscsi_boot:True"} }
	for want, change := range map[string]func(*node.Document){
		"": able,
		"however the capability 'iscsi_boot' is not set for the node.": func(*node.Document) {},
		"must be valid for iSCSI (iqn).":                               func(n *node.Document) { able(n); n.Connectors = nil },
		"There are 1 wwpn entries and 0 wwnn entries.": func(n *node.Document) {
			able(n)
			n.Connectors = append(n.Connectors, node.Connector{Type: "wwpn", ID: "1"})
		},
		"volume_id missing from target t.": func(n *node.Document) { able(n); n.Targets[0].VolumeID = "" },
		"rackd does not call Cinder":       func(n *node.Document) { able(n); n.Targets[0].Properties = nil },
		"'fibre_channel'":                  func(n *node.Document) { able(n); n.Targets[0].Type = "fibre_channel" },
	} {
		n := withVolume(nil)
		n.Interfaces["storage"] = "cinder"
		change(n)
		err := Cinder().Validate(n)
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || !errors.Is(err, driver.ErrInvalid) || !strings.HasPrefix(err.Error(), "Failed to validate cinder storage interface")) {
			t.Errorf("want %q: %v", want, err)
		}
	}
}

func TestPathsShareCredentials(t *testing.T) {
	d, err := Read(withVolume(map[string]any{"target_portals": []any{"10.0.0.9", "10.0.0.8"}}))
	if err != nil {
		t.Fatal(err)
	}
	if len(d.List[0].Paths) != 2 || slices.ContainsFunc(d.List[0].Paths, func(p driver.ISCSITarget) bool { return p.Secret != secret || p.Initiator == "" }) {
		t.Errorf("%d paths", len(d.List[0].Paths))
	}
}

// What the target shows goes to iPXE, and with two ways to firmware that has room for it. Other firmware, and a third way, are refused.
func TestWhatFirmwareHasRoomFor(t *testing.T) {
	n := withVolume(map[string]any{"mutual_auth_username": "t", "mutual_auth_password": "theirs", "target_portals": []any{"10.0.0.9", "10.0.0.8:3261"}})
	if v := Order(n).Volumes.List[0]; v.TargetUser != "t" || v.TargetSecret != "theirs" || len(v.URIs) != 2 {
		t.Errorf("iPXE is told %+v", v)
	}
	d, err := Read(n)
	if err != nil {
		t.Fatal(err)
	}
	all := driver.ISCSIRoom{Paths: 2, Mutual: true}
	if is, err := forFirmware(n, d.List[0], all); err != nil || is.TargetUser != "t" || is.Second != (driver.ISCSIPath{Host: "10.0.0.8", Port: 3261, IQN: is.IQN, LUN: is.LUN}) {
		t.Errorf("%+v, %v", is, err)
	}
	for want, room := range map[string]driver.ISCSIRoom{"no mutual CHAP": {Paths: 2}, "one path": {Paths: 1, Mutual: true}} {
		if _, err := forFirmware(n, d.List[0], room); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "theirs") {
			t.Errorf("%+v: %v, want %q", room, err, want)
		}
	}
	d.List[0].Paths = append(d.List[0].Paths, d.List[0].Paths[0])
	if _, err := forFirmware(n, d.List[0], all); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "3 portals") {
		t.Errorf("three ways: %v", err)
	}
}
