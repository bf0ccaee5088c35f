package ilo

import (
	"context"
	"strings"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/redfish"
)

// Capabilities reads the capabilities of a machine in the words of Ironic's iLO driver. One that cannot be read is left out.
func Capabilities(t *redfish.Turn) map[string]string {
	found := map[string]string{}
	put := func(name, value string) {
		value = strings.NewReplacer(",", " ", ":", " ").Replace(strings.TrimSpace(value))
		if value != "" {
			found[name] = value
		}
	}
	put("server_model", t.System.Model)
	put("rom_firmware_version", t.System.BIOSVersion)
	var k struct{ FirmwareVersion string }
	if _, err := t.Manager(&k); err == nil {
		put("ilo_firmware_version", k.FirmwareVersion)
	}
	if b, err := biosOf(t); err == nil {
		for name, is := range map[string]bool{"sriov_enabled": b.Attributes["Sriov"] == "Enabled", "cpu_vt": b.Attributes["ProcVirtualization"] == "Enabled"} {
			if is {
				put(name, "true")
			}
		}
	}
	if can, err := iscsiBootSupported(t); err == nil && can {
		put("iscsi_boot", "true")
	}
	var secure struct{ SecureBoot redfish.Link }
	if err := t.Read(t.System.Path, &secure); err == nil && secure.SecureBoot.Path != "" {
		if err := t.Read(secure.SecureBoot.Path, &struct{}{}); err == nil {
			put("secure_boot", "true")
		}
	}
	return found
}

// Inspection is the inspect interface ilo of machines whose iLO speaks Redfish.
type Inspection struct{ redfish.Inspection }

// Inspect is the run of its step.
func (i Inspection) Inspect(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
	return i.InspectSteps(t.Node)[0].Run(ctx, t)
}
