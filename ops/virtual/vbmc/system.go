package vbmc

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"
)

// actionTimeout bounds a power action, whose caller may have left already.
const actionTimeout = 45 * time.Second

var (
	resetTypes  = []string{"On", "ForceOff", "GracefulShutdown", "GracefulRestart", "ForceRestart", "PowerCycle", "Nmi"}
	bootTargets = []string{"None", "Pxe", "Hdd", "Cd"}
	bootEnabled = []string{"Disabled", "Once", "Continuous"}
)

func (b *BMC) bootMode() string {
	if b.cfg.UEFI {
		return "UEFI"
	}
	return "Legacy"
}

// boot translates the computer's override into Redfish's three properties.
func (b *BMC) boot() (target, enabled string) {
	device, once := b.computer.BootOverride()
	target = map[string]string{Network: "Pxe", Disk: "Hdd", Media: "Cd"}[device]
	switch {
	case target == "":
		return "None", "Disabled"
	case once:
		return target, "Once"
	}
	return target, "Continuous"
}

func (b *BMC) system() object {
	on := b.computer.On()
	target, enabled := b.boot()
	return resource(systemPath, "ComputerSystem.v1_13_0.ComputerSystem", "1", b.cfg.Name, object{
		"SystemType": "Physical", "HostName": b.cfg.Name, "UUID": b.cfg.UUID, "Manufacturer": b.cfg.Manufacturer,
		"Model": b.cfg.Product, "SerialNumber": b.cfg.Serial, "PowerState": powerState(on), "Status": healthy(on),
		"Boot": object{
			"BootSourceOverrideTarget": target, "BootSourceOverrideEnabled": enabled, "BootSourceOverrideMode": b.bootMode(),
			"BootSourceOverrideTarget@Redfish.AllowableValues":  bootTargets,
			"BootSourceOverrideEnabled@Redfish.AllowableValues": bootEnabled,
			"BootSourceOverrideMode@Redfish.AllowableValues":    []string{b.bootMode()},
		},
		"ProcessorSummary":   object{"Count": 1, "LogicalProcessorCount": 1, "Model": "QEMU TCG", "Status": healthy(true)},
		"MemorySummary":      object{"TotalSystemMemoryGiB": float64(b.cfg.MemoryMiB) / 1024, "Status": healthy(true)},
		"EthernetInterfaces": link(systemPath + "/EthernetInterfaces"),
		"Links":              object{"Chassis": []object{link(chassisPath)}, "ManagedBy": []object{link(managerPath)}},
		"Actions": object{"#ComputerSystem.Reset": object{
			"target":                            systemPath + "/Actions/ComputerSystem.Reset",
			"ResetType@Redfish.AllowableValues": resetTypes,
		}},
	})
}

func (b *BMC) patchSystem(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Boot *struct {
			BootSourceOverrideTarget, BootSourceOverrideEnabled, BootSourceOverrideMode *string
		}
	}
	if !decode(w, r, &body) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if match := r.Header.Get("If-Match"); match != "" && match != "*" && strings.TrimPrefix(match, "W/") != etag(b.system()) {
		refusal{http.StatusPreconditionFailed, "PreconditionFailed", "The ETag supplied did not match the ETag required to change this resource."}.write(w)
		return
	}
	if body.Boot == nil {
		refusal{http.StatusBadRequest, "PropertyNotWritable", "Only the property Boot of this resource can be changed."}.write(w)
		return
	}
	target, enabled := b.boot()
	mode := b.bootMode()
	for _, p := range []struct {
		name    string
		value   *string
		into    *string
		allowed []string
	}{
		{"BootSourceOverrideTarget", body.Boot.BootSourceOverrideTarget, &target, bootTargets},
		{"BootSourceOverrideEnabled", body.Boot.BootSourceOverrideEnabled, &enabled, bootEnabled},
		{"BootSourceOverrideMode", body.Boot.BootSourceOverrideMode, &mode, []string{b.bootMode()}},
	} {
		// Clients that send a whole Boot object leave what they do not set empty.
		if p.value == nil || *p.value == "" {
			continue
		}
		if !slices.Contains(p.allowed, *p.value) {
			refusal{http.StatusBadRequest, "PropertyValueNotInList",
				"The value '" + *p.value + "' for the property " + p.name + " is not in the list of acceptable values."}.write(w)
			return
		}
		*p.into = *p.value
	}
	device := map[string]string{"Pxe": Network, "Hdd": Disk, "Cd": Media}[target]
	if enabled == "Disabled" {
		device = ""
	}
	if err := b.computer.SetBootOverride(device, enabled == "Once"); err != nil {
		b.failed(w, "setting the boot override", err)
		return
	}
	write(w, http.StatusOK, b.system())
}

func (b *BMC) resetSystem(w http.ResponseWriter, r *http.Request) {
	var body struct{ ResetType string }
	if !decode(w, r, &body) {
		return
	}
	on := b.computer.On()
	var action func(context.Context) error
	switch body.ResetType {
	case "On":
		action = b.computer.Start
	case "ForceOff":
		action = b.computer.Stop
	case "GracefulShutdown":
		if action = b.computer.Shutdown; !on {
			action = b.computer.Stop // off is what was asked for
		}
	case "GracefulRestart":
		action = b.computer.Restart
	case "ForceRestart", "PowerCycle":
		action = b.computer.Reset
	case "Nmi":
		action = b.computer.Interrupt
	default:
		refusal{http.StatusBadRequest, "ActionParameterValueNotInList",
			"The value '" + body.ResetType + "' for the parameter ResetType in the action ComputerSystem.Reset is not in the list of acceptable values."}.write(w)
		return
	}
	if !on && slices.Contains([]string{"GracefulRestart", "ForceRestart", "PowerCycle", "Nmi"}, body.ResetType) {
		refusal{http.StatusConflict, "ActionNotSupported", "The action " + body.ResetType + " cannot be done while the system is off."}.write(w)
		return
	}
	// An action once begun is done, even if the caller hangs up.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), actionTimeout)
	defer cancel()
	if err := action(ctx); err != nil {
		b.failed(w, body.ResetType, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (b *BMC) failed(w http.ResponseWriter, what string, err error) {
	b.cfg.Log.Error("BMC action failed", "action", what, "error", err)
	refusal{http.StatusInternalServerError, "InternalError", "The request failed due to an internal service error: " + err.Error()}.write(w)
}
