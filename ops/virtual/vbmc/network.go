package vbmc

import (
	"encoding/json"
	"net/http"
)

// Paths of the network card as firmware boots by it. They exist for an ISCSIBooter. What
// is set is kept in the settings resource until the next start (DSP0266, "Settings
// resource").
const (
	adaptersPath  = chassisPath + "/NetworkAdapters"
	adapterPath   = adaptersPath + "/1"
	functionsPath = adapterPath + "/NetworkDeviceFunctions"
	functionPath  = functionsPath + "/1"
	settingsPath  = functionPath + "/Settings"
)

// Modes that the firmware boots by the card in.
const (
	modePXE   = "PXE"
	modeISCSI = "iSCSI"
)

// withISCSI answers by h, if the firmware knows iSCSI.
func withISCSI(h func(b *BMC, i ISCSIBooter, w http.ResponseWriter, r *http.Request)) handler {
	return func(b *BMC, w http.ResponseWriter, r *http.Request) {
		i, ok := b.iscsiBooter()
		if !ok || b.is(HPE) {
			notFound(w, r)
			return
		}
		h(b, i, w, r)
	}
}

// getISCSI answers by what makes the resource.
func getISCSI(make func(b *BMC) object) handler {
	return withISCSI(func(b *BMC, _ ISCSIBooter, w http.ResponseWriter, _ *http.Request) { write(w, http.StatusOK, make(b)) })
}

func (b *BMC) adapters() object {
	return collection(adaptersPath, "NetworkAdapterCollection", "Network Adapters", adapterPath)
}

func (b *BMC) adapter() object {
	return resource(adapterPath, "NetworkAdapter.v1_5_0.NetworkAdapter", "1", "Network Card", object{
		"NetworkDeviceFunctions": link(functionsPath), "Status": healthy(true)})
}

func (b *BMC) functions() object {
	return collection(functionsPath, "NetworkDeviceFunctionCollection", "Network Device Functions", functionPath)
}

// function is the resource at a path, with iSCSI as it is told.
func (b *BMC) function(path, id string, boot ISCSIBoot) object {
	kind, mode := "Ethernet", modePXE
	if len(boot.Targets) > 0 {
		kind, mode = "iSCSI", modeISCSI
	}
	return resource(path, "NetworkDeviceFunction.v1_5_0.NetworkDeviceFunction", id, "Network Device Function", object{
		"NetDevFuncType": kind, "NetDevFuncCapabilities": []string{"Ethernet", "iSCSI"}, "DeviceEnabled": true, "Status": healthy(true),
		"BootMode": mode, "BootMode@Redfish.AllowableValues": []string{modePXE, modeISCSI},
		"Ethernet":  object{"MACAddress": b.cfg.MAC, "PermanentMACAddress": b.cfg.MAC},
		"iSCSIBoot": wireOf(boot).object(),
	})
}

// showFunction shows what the firmware logs in with now, and where to set it.
func (b *BMC) showFunction(i ISCSIBooter, w http.ResponseWriter, _ *http.Request) {
	now, next, problem, err := i.ISCSIBoot()
	if err != nil {
		b.failed(w, "reading the iSCSI settings", err)
		return
	}
	settings := object{"@odata.type": "#Settings.v1_3_0.Settings", "SettingsObject": link(settingsPath), "SupportedApplyTimes": []string{"OnReset"}}
	if next != nil && problem != "" {
		settings["Messages"] = []object{message("Warning", "OperationFailed", problem)}
	}
	o := b.function(functionPath, "1", now)
	o["@Redfish.Settings"] = settings
	write(w, http.StatusOK, o)
}

// pending is the settings resource: what the next start will have.
func (b *BMC) pending(i ISCSIBooter) (ISCSIBoot, object, error) {
	boot, next, _, err := i.ISCSIBoot()
	if next != nil {
		boot = *next
	}
	return boot, b.function(settingsPath, "Settings", boot), err
}

func (b *BMC) showSettings(i ISCSIBooter, w http.ResponseWriter, _ *http.Request) {
	_, shown, err := b.pending(i)
	if err != nil {
		b.failed(w, "reading the iSCSI settings", err)
		return
	}
	write(w, http.StatusOK, shown)
}

func (b *BMC) patchFunction(_ ISCSIBooter, w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Allow", "GET, HEAD")
	refusal{http.StatusMethodNotAllowed, "OperationNotAllowed",
		"This resource shows what the firmware was started with. What the next start shall have is set at " + settingsPath + "."}.write(w)
}

func (b *BMC) patchSettings(i ISCSIBooter, w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	boot, shown, err := b.pending(i)
	if err != nil {
		b.failed(w, "reading the iSCSI settings", err)
		return
	}
	body, ok := decodePatch(w, r, shown)
	if !ok {
		return
	}
	apply := names{"ApplyTime": json.RawMessage(`"OnReset"`)}
	var changed names
	mode := ""
	e := body.into("", shown, map[string]any{"iSCSIBoot": &changed, "BootMode": &mode, "@Redfish.SettingsApplyTime": &apply})
	if when := string(apply["ApplyTime"]); e == nil && when != `"OnReset"` {
		e = &refusal{http.StatusBadRequest, "PropertyValueNotInList", "Of @Redfish.SettingsApplyTime, the ApplyTime is OnReset."}
	}
	if e == nil && mode != "" {
		e = inList("the property BootMode", "PropertyValueNotInList", mode, []string{modePXE, modeISCSI})
	}
	if e == nil {
		boot, e = wireOf(boot).patched(changed)
	}
	switch {
	case e != nil:
	case mode == modePXE: // the firmware logs in nowhere
		boot.Targets, boot.CHAP = nil, nil
	case mode == modeISCSI && len(boot.Targets) == 0:
		e = conflict("PrimaryTargetName", "is missing")
	}
	if e != nil {
		e.write(w)
		return
	}
	if err := i.SetISCSIBoot(boot); err != nil {
		b.refused(w, "PropertyValueError", "setting iSCSIBoot", err)
		return
	}
	b.showSettings(i, w, r)
}
