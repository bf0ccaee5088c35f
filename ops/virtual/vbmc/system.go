package vbmc

import (
	"context"
	"net/http"
	"slices"
	"time"
)

// actionTimeout bounds a power action, whose caller may have left already.
const actionTimeout = 45 * time.Second

var (
	resetTypes  = []string{"On", "ForceOff", "GracefulShutdown", "GracefulRestart", "ForceRestart", "PowerCycle", "Nmi"}
	bootEnabled = []string{"Disabled", "Once", "Continuous"}
)

// targets pairs Redfish's boot sources with the devices of a Computer.
var targets = map[string]string{"Pxe": Network, "Hdd": Disk, "Cd": Media, "Usb": Stick, httpTarget: HTTP}

const httpTarget = "UefiHttp"

// bootTargets are the boot sources that the computer has.
func (b *BMC) bootTargets() []string {
	list := []string{"None", "Pxe"}
	if !b.cfg.Diskless {
		list = append(list, "Hdd")
	}
	if !b.cfg.NoCD && !b.is(Dell) {
		list = append(list, "Cd")
	}
	if _, ok := b.diskDrive(stickSlot); ok {
		list = append(list, "Usb")
	}
	if _, ok := b.httpBooter(); ok {
		list = append(list, httpTarget)
	}
	if _, ok := b.bootOrderer(); ok && b.is(HPE) {
		list = append(list, uefiTarget)
	}
	return list
}

func (b *BMC) bootMode() string {
	if b.cfg.UEFI {
		return "UEFI"
	}
	return "Legacy"
}

// boot translates the computer's override into Redfish's three properties.
func (b *BMC) boot() (target, enabled string) {
	if _, on := b.uefi.get(); on {
		return uefiTarget, "Continuous"
	}
	device, once := b.computer.BootOverride()
	for name, d := range targets {
		if d == device {
			target = name
		}
	}
	switch {
	case target == "":
		return "None", "Disabled"
	case once:
		return target, "Once"
	}
	return target, "Continuous"
}

// bootObject is the system's property Boot.
func (b *BMC) bootObject() object {
	target, enabled := b.boot()
	o := object{
		"BootSourceOverrideTarget": target, "BootSourceOverrideEnabled": enabled, "BootSourceOverrideMode": b.bootMode(),
		"BootSourceOverrideTarget@Redfish.AllowableValues":  b.bootTargets(),
		"BootSourceOverrideEnabled@Redfish.AllowableValues": bootEnabled,
		"BootSourceOverrideMode@Redfish.AllowableValues":    []string{b.bootMode()},
	}
	if h, ok := b.httpBooter(); ok {
		uri, err := h.HTTPBootURI()
		if o["HttpBootUri"] = uri; err != nil || uri == "" {
			o["HttpBootUri"] = nil
		}
	}
	if orderer, ok := b.bootOrderer(); ok {
		names, err := order(orderer)
		if o["BootOrder"], o["BootOptions"] = names, link(optionsPath); err != nil {
			o["BootOrder"] = nil
		}
	}
	b.hpeBoot(o)
	return o
}

func (b *BMC) system() object {
	on := b.computer.On()
	o := object{
		"SystemType": "Physical", "HostName": b.cfg.Name, "UUID": b.cfg.UUID, "Manufacturer": b.cfg.Manufacturer,
		"Model": b.cfg.Product, "SerialNumber": b.cfg.Serial, "PowerState": powerState(on), "Status": healthy(on),
		"Boot":               b.bootObject(),
		"ProcessorSummary":   object{"Count": 1, "LogicalProcessorCount": 1, "Model": "QEMU TCG", "Status": healthy(true)},
		"MemorySummary":      object{"TotalSystemMemoryGiB": float64(b.cfg.MemoryMiB) / 1024, "Status": healthy(true)},
		"EthernetInterfaces": link(systemPath + "/EthernetInterfaces"),
		"Links":              object{"Chassis": []object{link(chassisPath)}, "ManagedBy": []object{link(managerPath)}},
		"Actions": object{"#ComputerSystem.Reset": object{
			"target":                            systemPath + "/Actions/ComputerSystem.Reset",
			"ResetType@Redfish.AllowableValues": resetTypes,
		}},
	}
	if _, ok := b.computer.(BootCounter); ok {
		o["BiosVersion"] = b.version(BIOSFirmware)
	}
	if b.is(HPE) {
		o["Bios"] = link(biosPath)
	}
	if _, ok := b.secureBooter(); ok {
		o["SecureBoot"] = link(secureBootPath)
	}
	if teller, ok := b.computer.(ProgressTeller); ok {
		if far, err := teller.Progress(); err == nil {
			o["BootProgress"] = object{"LastState": far}
		}
	}
	return resource(systemPath, "ComputerSystem.v1_13_0.ComputerSystem", "1", b.cfg.Name, o)
}

func (b *BMC) patchSystem(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	shown := b.system()
	body, ok := decodePatch(w, r, shown)
	if !ok {
		return
	}
	var boot names
	if e := body.into("", shown, map[string]any{"Boot": &boot}); e != nil {
		e.write(w)
		return
	}
	target, enabled := b.boot()
	mode, uri := b.bootMode(), ""
	writable := map[string]any{"BootSourceOverrideTarget": &target, "BootSourceOverrideEnabled": &enabled, "BootSourceOverrideMode": &mode}
	h, byHTTP := b.httpBooter()
	if byHTTP {
		writable["HttpBootUri"] = &uri
	} else if e := b.withoutHTTP(boot); e != nil {
		e.write(w)
		return
	}
	var wanted []string
	orderer, hasOrder := b.bootOrderer()
	if hasOrder {
		writable["BootOrder"] = &wanted
	}
	path, _ := b.uefi.get()
	if hasOrder && b.is(HPE) {
		writable[uefiOverride] = &path
	}
	// Clients that send a whole Boot object leave what they do not set empty.
	for name, raw := range boot {
		if text := string(raw); name != "HttpBootUri" && name != "BootOrder" && writable[name] != nil && (text == `""` || text == "null") {
			delete(boot, name)
		}
	}
	if e := boot.into("Boot/", shown["Boot"].(object), writable); e != nil {
		e.write(w)
		return
	}
	for _, p := range []struct {
		name, value string
		allowed     []string
	}{
		{"BootSourceOverrideTarget", target, b.bootTargets()},
		{"BootSourceOverrideEnabled", enabled, bootEnabled},
		{"BootSourceOverrideMode", mode, []string{b.bootMode()}},
	} {
		if e := inList("the property Boot/"+p.name, "PropertyValueNotInList", p.value, p.allowed); e != nil {
			e.write(w)
			return
		}
	}
	_, targeted := boot["BootSourceOverrideTarget"]
	_, toggled := boot["BootSourceOverrideEnabled"]
	if targeted && !toggled && target != "None" && enabled == "Disabled" {
		refusal{http.StatusBadRequest, "PropertyMissing",
			"The property Boot/BootSourceOverrideTarget is kept only with Boot/BootSourceOverrideEnabled Once or Continuous."}.write(w)
		return
	}
	if _, said := boot["BootOrder"]; said {
		if err := orderer.OrderBoot(wanted); err != nil {
			b.refused(w, "PropertyValueError", "setting Boot/BootOrder", err)
			return
		}
	}
	if _, said := boot["HttpBootUri"]; said {
		if err := h.SetHTTPBootURI(uri); err != nil {
			b.refused(w, "PropertyValueError", "setting Boot/HttpBootUri", err)
			return
		}
	}
	if _, said := boot[uefiOverride]; said {
		_, on := b.uefi.get()
		b.uefi.set(path, on)
	}
	device := targets[target]
	if enabled == "Disabled" {
		device = ""
	}
	switch {
	case !targeted && !toggled:
	case target == uefiTarget && enabled != "Disabled":
		if e := b.bootUEFI(orderer, path, enabled); e != nil {
			e.write(w)
			return
		}
	default:
		if err := b.leaveUEFI(); err != nil {
			b.refused(w, "PropertyValueError", "setting the boot override", err)
			return
		}
		if err := b.computer.SetBootOverride(device, enabled == "Once"); err != nil {
			b.refused(w, "PropertyValueError", "setting the boot override", err)
			return
		}
	}
	write(w, http.StatusOK, b.system())
}

// withoutHTTP refuses what a computer without HTTP boot is told of it, with the computer's
// own reason if it has one.
func (b *BMC) withoutHTTP(boot names) *refusal {
	h, ok := b.computer.(HTTPBooter)
	if !ok {
		return nil
	}
	_, reason := h.HTTPBootURI()
	if able(reason) {
		return nil
	}
	if _, said := boot["HttpBootUri"]; said {
		return &refusal{http.StatusBadRequest, "PropertyUnknown", "The property Boot/HttpBootUri cannot be set: " + reason.Error() + "."}
	}
	if string(boot["BootSourceOverrideTarget"]) == `"`+httpTarget+`"` {
		return &refusal{http.StatusBadRequest, "PropertyValueNotInList",
			"The value '" + httpTarget + "' for the property Boot/BootSourceOverrideTarget cannot be set: " + reason.Error() + "."}
	}
	return nil
}

func (b *BMC) resetSystem(w http.ResponseWriter, r *http.Request) {
	parameters, ok := decodeAction(w, r)
	if !ok {
		return
	}
	var body struct{ ResetType string }
	if e := parameters.parameters("ComputerSystem.Reset", map[string]any{"ResetType": &body.ResetType}, "ResetType"); e != nil {
		e.write(w)
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
	b.holdUEFI()
	// An action once begun is done, even if the caller hangs up.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), actionTimeout)
	defer cancel()
	if err := action(ctx); err != nil {
		b.refused(w, "ActionNotSupported", body.ResetType, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (b *BMC) failed(w http.ResponseWriter, what string, err error) {
	b.cfg.Log.Error("BMC action failed", "action", what, "error", err)
	refusal{http.StatusInternalServerError, "InternalError", "The request failed due to an internal service error: " + err.Error()}.write(w)
}
