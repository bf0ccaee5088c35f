package node

import (
	"encoding/json"
	"testing"
)

func TestCapability(t *testing.T) {
	for _, c := range []struct {
		properties, instance, key, want string
	}{
		{`{"capabilities":"boot_mode:bios, secure_boot:true"}`, `{}`, "secure_boot", "true"},
		{`{"capabilities":"boot_mode:bios"}`, `{"capabilities":{"boot_mode":"uefi"}}`, "boot_mode", "uefi"},
		{`{"capabilities":"boot_mode:bios"}`, `{"capabilities":"{\"secure_boot\":true}"}`, "boot_mode", "bios"},
		{`{"capabilities":"{\"a\":1}"}`, `{}`, "a", "1"},
		{`{"capabilities":"nonsense"}`, `{}`, "nonsense", ""},
		{`{"capabilities":7}`, `{}`, "a", ""},
		{`{}`, `{}`, "a", ""},
	} {
		var d Document
		if err := json.Unmarshal([]byte(c.properties), &d.Properties); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(c.instance), &d.InstanceInfo); err != nil {
			t.Fatal(err)
		}
		if got := d.Capability(c.key); got != c.want {
			t.Errorf("%s, %s: capability %s is %q, want %q", c.properties, c.instance, c.key, got, c.want)
		}
	}
}

func TestBootModeIsUEFIUnlessToldOtherwise(t *testing.T) {
	for caps, want := range map[string]string{"": "uefi", "boot_mode:bios": "bios", "boot_mode:uefi": "uefi", "boot_mode:x": "uefi"} {
		d := Document{Properties: map[string]any{"capabilities": caps}}
		if got := d.BootMode(); got != want {
			t.Errorf("capabilities %q: boot mode %s, want %s", caps, got, want)
		}
	}
}
