package vbmc

import (
	"context"
	"net/http"
	"strings"
	"sync"
)

// Paths of the service. There is one system, manager and chassis.
const (
	rootPath     = "/redfish/v1"
	sessionsPath = rootPath + "/SessionService/Sessions"
	systemPath   = rootPath + "/Systems/1"
	managerPath  = rootPath + "/Managers/1"
	// managerResetPath is the action that restarts the BMC.
	managerResetPath = managerPath + "/Actions/Manager.Reset"
	chassisPath      = rootPath + "/Chassis/1"
	nicPath          = systemPath + "/EthernetInterfaces/1"
)

// SystemPath is the system's path, for drivers that want to be told.
const SystemPath = systemPath

// handler answers one request to one BMC.
type handler func(b *BMC, w http.ResponseWriter, r *http.Request)

// theBMC is where a request's context holds the BMC that is asked.
type theBMC struct{}

// routes is the same for all BMCs: a fleet has thousands of them.
var routes = sync.OnceValue(func() http.Handler {
	mux := http.NewServeMux()
	open := func(method, path string, h handler) {
		mux.HandleFunc(method+" "+path, func(w http.ResponseWriter, r *http.Request) { h(r.Context().Value(theBMC{}).(*BMC), w, r) })
	}
	closed := func(method, path string, h handler) { open(method, path, authentic(h)) }
	get := func(path string, make func(*BMC) object) {
		closed("GET", path, func(b *BMC, w http.ResponseWriter, _ *http.Request) { write(w, http.StatusOK, make(b)) })
	}
	open("GET", "/redfish", func(_ *BMC, w http.ResponseWriter, _ *http.Request) {
		write(w, http.StatusOK, object{"v1": rootPath + "/"})
	})
	open("GET", rootPath, func(b *BMC, w http.ResponseWriter, _ *http.Request) { write(w, http.StatusOK, b.root()) })
	open("POST", sessionsPath, (*BMC).createSession)
	closed("GET", sessionsPath, (*BMC).listSessions)
	closed("GET", sessionsPath+"/{id}", (*BMC).showSession)
	closed("DELETE", sessionsPath+"/{id}", (*BMC).deleteSession)
	get(rootPath+"/SessionService", func(*BMC) object {
		return resource(rootPath+"/SessionService", "SessionService.v1_1_8.SessionService", "SessionService", "Session Service", object{
			"ServiceEnabled": true, "SessionTimeout": int(sessionTimeout.Seconds()), "Sessions": link(sessionsPath),
		})
	})
	for _, c := range []struct{ path, typ, member string }{
		{rootPath + "/Systems", "ComputerSystemCollection", systemPath},
		{rootPath + "/Managers", "ManagerCollection", managerPath},
		{rootPath + "/Chassis", "ChassisCollection", chassisPath},
		{systemPath + "/EthernetInterfaces", "EthernetInterfaceCollection", nicPath},
	} {
		get(c.path, func(*BMC) object {
			return collection(c.path, c.typ, strings.TrimSuffix(c.typ, "Collection")+" Collection", c.member)
		})
	}
	get(systemPath, (*BMC).system)
	closed("PATCH", systemPath, (*BMC).patchSystem)
	closed("POST", systemPath+"/Actions/ComputerSystem.Reset", (*BMC).resetSystem)
	get(nicPath, (*BMC).nic)
	get(managerPath, (*BMC).manager)
	closed("POST", managerResetPath, (*BMC).resetManager)
	closed("GET", attributesPath, withDell(func(b *BMC, w http.ResponseWriter, _ *http.Request) { write(w, http.StatusOK, b.dellAttributes()) }))
	closed("POST", importPath, withDell((*BMC).importProfile))
	closed("GET", biosPath, getHPE((*BMC).hpeBIOS))
	closed("GET", mappingsPath, getHPE((*BMC).hpeMappings))
	closed("GET", initiatorPath, withInitiator((*BMC).showInitiator))
	closed("GET", initiatorSettingsPath, withInitiator((*BMC).showInitiatorSettings))
	closed("PATCH", initiatorSettingsPath, withInitiator((*BMC).patchInitiatorSettings))
	get(mediaPath, func(b *BMC) object {
		var paths []string
		for _, s := range b.drives() {
			paths = append(paths, s.path)
		}
		return collection(mediaPath, "VirtualMediaCollection", "VirtualMedia Collection", paths...)
	})
	for _, s := range diskSlots {
		closed("GET", s.path, s.withDisk(slot.showDisk))
		closed("POST", s.path+"/Actions/VirtualMedia.InsertMedia", s.withDisk(slot.insertDisk))
		closed("POST", s.path+"/Actions/VirtualMedia.EjectMedia", s.withDisk(slot.ejectDisk))
	}
	closed("GET", cdPath, cdSlot.of(func(b *BMC, w http.ResponseWriter, _ *http.Request) { write(w, http.StatusOK, b.cd()) }))
	closed("POST", cdPath+"/Actions/VirtualMedia.InsertMedia", cdSlot.of((*BMC).insertMedia))
	closed("POST", cdPath+"/Actions/VirtualMedia.EjectMedia", cdSlot.of((*BMC).ejectMedia))
	for _, s := range append([]slot{cdSlot}, diskSlots...) {
		closed("PATCH", s.path, s.of(s.patchTrust))
		closed("GET", s.path+"/Certificates", s.of(s.listTrust))
		closed("POST", s.path+"/Certificates", s.of(s.addTrusted))
		closed("GET", s.path+"/Certificates/{id}", s.of(s.showTrusted))
	}
	get(chassisPath, (*BMC).chassis)
	closed("GET", optionsPath, withOptions(listOptions))
	closed("GET", optionsPath+"/{name}", withOptions(showOption))
	closed("GET", secureBootPath, withSecureBoot((*BMC).showSecureBoot))
	closed("PATCH", secureBootPath, withSecureBoot((*BMC).patchSecureBoot))
	closed("POST", secureBootPath+"/Actions/SecureBoot.ResetKeys", withSecureBoot((*BMC).resetKeys))
	closed("GET", databasesPath, withSecureBoot((*BMC).listDatabases))
	closed("GET", databasesPath+"/{database}", withKeys((*BMC).showDatabase))
	closed("GET", databasesPath+"/{database}/Certificates", withKeys((*BMC).listCertificates))
	closed("POST", databasesPath+"/{database}/Certificates", withKeys((*BMC).addCertificate))
	closed("GET", databasesPath+"/{database}/Certificates/{id}", withKeys((*BMC).showCertificate))
	closed("GET", adaptersPath, getISCSI((*BMC).adapters))
	closed("GET", adapterPath, getISCSI((*BMC).adapter))
	closed("GET", functionsPath, getISCSI((*BMC).functions))
	closed("GET", functionPath, withISCSI((*BMC).showFunction))
	closed("PATCH", functionPath, withISCSI((*BMC).patchFunction))
	closed("GET", settingsPath, withISCSI((*BMC).showSettings))
	closed("PATCH", settingsPath, withISCSI((*BMC).patchSettings))
	get(eventsPath, (*BMC).eventService)
	get(subscriptionsPath, (*BMC).listSubscriptions)
	closed("POST", subscriptionsPath, (*BMC).createSubscription)
	closed("GET", subscriptionsPath+"/{id}", (*BMC).showSubscription)
	closed("DELETE", subscriptionsPath+"/{id}", (*BMC).deleteSubscription)
	get(updatePath, (*BMC).updateService)
	get(inventoryPath, (*BMC).listFirmware)
	closed("GET", inventoryPath+"/{name}", (*BMC).showFirmware)
	closed("POST", simplePath, (*BMC).simpleUpdate)
	get(taskServicePath, (*BMC).taskService)
	get(tasksPath, (*BMC).listTasks)
	closed("GET", tasksPath+"/{id}", (*BMC).showTask)
	closed("GET", monitorsPath+"/{id}", (*BMC).showMonitor)
	closed("GET", "/", func(_ *BMC, w http.ResponseWriter, r *http.Request) { notFound(w, r) })
	for _, method := range []string{"POST", "PATCH", "PUT", "DELETE"} {
		closed(method, "/", func(_ *BMC, w http.ResponseWriter, _ *http.Request) {
			refusal{http.StatusMethodNotAllowed, "OperationNotAllowed", "The HTTP method is not allowed on this resource."}.write(w)
		})
	}
	return mux
})

// answer answers a request once faults and journal have seen it.
func (b *BMC) answer(w http.ResponseWriter, r *http.Request) {
	r = r.WithContext(context.WithValue(r.Context(), theBMC{}, b))
	// Redfish clients write resource paths with and without a slash at the end.
	if trimmed := strings.TrimRight(r.URL.Path, "/"); trimmed != "" {
		r.URL.Path = trimmed
	}
	routes().ServeHTTP(w, r)
}

func (b *BMC) root() object {
	return resource(rootPath, "ServiceRoot.v1_5_0.ServiceRoot", "RootService", "Root Service", object{
		"RedfishVersion": "1.9.0", "UUID": b.cfg.UUID, "Vendor": b.vendor(), "Product": b.cfg.Product,
		"Systems": link(rootPath + "/Systems"), "Managers": link(rootPath + "/Managers"), "Chassis": link(rootPath + "/Chassis"),
		"SessionService": link(rootPath + "/SessionService"), "EventService": link(eventsPath), "UpdateService": link(updatePath),
		"Tasks": link(taskServicePath), "Links": object{"Sessions": link(sessionsPath)},
	})
}

func (b *BMC) nic() object {
	return resource(nicPath, "EthernetInterface.v1_5_1.EthernetInterface", "1", "Network Card", object{
		"MACAddress": b.cfg.MAC, "PermanentMACAddress": b.cfg.MAC, "InterfaceEnabled": true, "LinkStatus": "LinkUp", "Status": healthy(true),
	})
}

func (b *BMC) manager() object {
	return b.dellParts(resource(managerPath, "Manager.v1_7_0.Manager", "1", b.cfg.Name+" BMC", object{
		"ManagerType": "BMC", "FirmwareVersion": b.version(BMCFirmware), "UUID": b.cfg.UUID, "Model": "Virtual BMC", "PowerState": "On", "Status": healthy(true),
		"VirtualMedia": link(mediaPath),
		"Actions":      object{"#Manager.Reset": object{"target": managerResetPath, "ResetType@Redfish.AllowableValues": managerResets}},
		"Links":        object{"ManagerForServers": []object{link(systemPath)}, "ManagerForChassis": []object{link(chassisPath)}},
	}))
}

func (b *BMC) chassis() object {
	o := object{
		"ChassisType": "RackMount", "Manufacturer": b.cfg.Manufacturer, "Model": b.cfg.Product, "SerialNumber": b.cfg.Serial,
		"PowerState": powerState(b.computer.On()), "Status": healthy(true),
		"Links": object{"ComputerSystems": []object{link(systemPath)}, "ManagedBy": []object{link(managerPath)}},
	}
	if _, ok := b.iscsiBooter(); ok && !b.is(HPE) {
		o["NetworkAdapters"] = link(adaptersPath)
	}
	return resource(chassisPath, "Chassis.v1_11_0.Chassis", "1", b.cfg.Name, o)
}

func healthy(on bool) object {
	if on {
		return object{"State": "Enabled", "Health": "OK"}
	}
	return object{"State": "Disabled", "Health": "OK"}
}

func powerState(on bool) string {
	if on {
		return "On"
	}
	return "Off"
}
