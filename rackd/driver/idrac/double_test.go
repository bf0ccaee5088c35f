package idrac

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/rackd/driver/bringup"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/redfish"
	"github.com/ironyard/ironyard/rackd/driver/redfish/redfishtest"
)

// Paths of an iDRAC 9 with firmware 3.34, as sushy-oem-idrac's recorded answers have them.
const (
	system   = "/redfish/v1/Systems/System.Embedded.1"
	idrac    = "/redfish/v1/Managers/iDRAC.Embedded.1"
	services = "/redfish/v1/Dell/Managers/iDRAC.Embedded.1"
	queueAt  = idrac + "/Jobs"
	tasksAt  = "/redfish/v1/TaskService/Tasks"
)

// double is an iDRAC. Jobs end when they have been looked at Looks times; those of Staged wait for a restart of the machine.
type double struct {
	*redfishtest.BMC
	Staged bool
	Looks  int
	// NotReady is for how many looks the Lifecycle Controller is not ready.
	NotReady int
	// Deaf: it accepts to clear its queue and does not.
	Deaf bool
	// Ends is how tasks end; Says are their messages.
	Ends    string
	Says    []any
	imports []string
	resets  int
	seen    map[string]int
}

func newDouble(t *testing.T) *double {
	t.Helper()
	d := &double{Ends: "Completed", seen: map[string]int{}}
	action := func(target string, more map[string]any) map[string]any {
		a := map[string]any{"target": target}
		for k, v := range more {
			a[k] = v
		}
		return a
	}
	service := func(name, act string) map[string]any {
		at := services + "/" + name
		return map[string]any{"@odata.id": at, "Id": name, "Actions": map[string]any{"#" + name + "." + act: action(at+"/Actions/"+name+"."+act, nil)}}
	}
	link := redfishtest.Link
	tree := redfishtest.Tree{
		"/redfish/v1/Systems": redfishtest.Links(system), "/redfish/v1/Managers": redfishtest.Links(idrac),
		system: {"@odata.id": system, "Id": "System.Embedded.1", "Manufacturer": "Dell Inc.", "Model": "PowerEdge R640", "SKU": "SVCTAG1", "UUID": "4c4c4544", "PowerState": "Off",
			"Boot": map[string]any{"BootSourceOverrideEnabled": "Disabled", "BootSourceOverrideTarget": "None", "BootSourceOverrideMode": "UEFI",
				"BootSourceOverrideTarget@Redfish.AllowableValues": []any{"None", "Pxe", "Floppy", "Cd", "Hdd", "BiosSetup", "Utilities", "UefiTarget", "SDCard", "UefiHttp"}},
			"Actions": map[string]any{"#ComputerSystem.Reset": action(system+"/Actions/ComputerSystem.Reset", map[string]any{
				"ResetType@Redfish.AllowableValues": []any{"On", "ForceOff", "ForceRestart", "GracefulRestart", "GracefulShutdown", "PushPowerButton", "Nmi"}})},
			"Links": map[string]any{"ManagedBy": []any{link(idrac)}, "Chassis": []any{link("/redfish/v1/Chassis/System.Embedded.1")}}},
		idrac: {"@odata.id": idrac, "Id": "iDRAC.Embedded.1", "FirmwareVersion": "3.34.34.34", "Model": "14G Monolithic",
			"Actions": map[string]any{"#Manager.Reset": action(idrac+"/Actions/Manager.Reset", map[string]any{"ResetType@Redfish.AllowableValues": []any{"GracefulRestart"}}),
				"Oem": map[string]any{
					"OemManager.v1_0_0#OemManager.ExportSystemConfiguration": action(idrac+"/Actions/Oem/EID_674_Manager.ExportSystemConfiguration", map[string]any{"ShareParameters": map[string]any{"Target@Redfish.AllowableValues": []any{"ALL", "IDRAC", "BIOS", "NIC", "RAID"}}}),
					"OemManager.v1_0_0#OemManager.ImportSystemConfiguration": action(idrac+"/Actions/Oem/EID_674_Manager.ImportSystemConfiguration", map[string]any{
						"ShutdownType@Redfish.AllowableValues": []any{"Graceful", "Forced", "NoReboot"}})}},
			"Links": map[string]any{"Oem": map[string]any{"Dell": map[string]any{
				"DellAttributes": []any{link(idrac + "/Attributes")}, "DellJobService": link(services + "/DellJobService"), "DellLCService": link(services + "/DellLCService"),
				"DelliDRACCardService": link(services + "/DelliDRACCardService"), "Jobs": link(queueAt)}}}},
		idrac + "/Attributes":              {"@odata.id": idrac + "/Attributes", "Attributes": map[string]any{"ServerBoot.1.BootOnce": "Disabled", "ServerBoot.1.FirstBootDevice": "Normal"}},
		services + "/DellJobService":       service("DellJobService", "DeleteJobQueue"),
		services + "/DellLCService":        service("DellLCService", "GetRemoteServicesAPIStatus"),
		services + "/DelliDRACCardService": service("DelliDRACCardService", "iDRACReset"),
		queueAt:                            {"@odata.id": queueAt, "Members": []any{}},
		"/redfish/v1/TaskService":          {"@odata.id": "/redfish/v1/TaskService", "Tasks": link(tasksAt)},
		tasksAt:                            redfishtest.Links(),
	}
	d.BMC = redfishtest.Start(t, "Dell", tree)
	d.System = system
	d.At["/redfish/v1"]["Tasks"] = link("/redfish/v1/TaskService")
	d.Write, d.Free = d.write, func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "GetRemoteServicesAPIStatus") }
	d.Get = d.get
	return d
}

// task makes a task, and a job of the same name.
func (d *double) task(w http.ResponseWriter, name string) string {
	id := fmt.Sprintf("JID_%012d", len(d.seen)+1)
	at := tasksAt + "/" + id
	d.seen[at] = 0
	d.At[at] = map[string]any{"@odata.id": at, "Id": id, "Name": name, "TaskState": "Running", "TaskStatus": "OK", "PercentComplete": 1, "Messages": d.Says}
	if d.Staged {
		d.At[at]["TaskState"], d.At[at]["PercentComplete"] = "Pending", 0
	}
	members, _ := d.At[tasksAt]["Members"].([]any)
	d.At[tasksAt]["Members"] = append(members, redfishtest.Link(at))
	d.addJob(id, name, "Running")
	w.Header().Set("Location", at)
	w.WriteHeader(http.StatusAccepted)
	return at
}

func (d *double) addJob(id, name, state string) {
	members, _ := d.At[queueAt]["Members"].([]any)
	d.At[queueAt]["Members"] = append(members, map[string]any{"@odata.id": queueAt + "/" + id, "Id": id, "Name": name, "JobState": state})
}

// end ends the jobs of the queue that are there.
func (d *double) end(id string) {
	for _, m := range d.At[queueAt]["Members"].([]any) {
		if j := m.(map[string]any); j["Id"] == id {
			j["JobState"] = "Completed"
		}
	}
}

// get is what tasks show: they go on with each look.
func (d *double) get(w http.ResponseWriter, r *http.Request) bool {
	task := d.At[r.URL.Path]
	if _, is := d.seen[r.URL.Path]; !is {
		return false
	}
	if task["TaskState"] == "Pending" {
		return false
	}
	if d.seen[r.URL.Path]++; d.seen[r.URL.Path] <= d.Looks {
		w.WriteHeader(http.StatusAccepted)
		_ = json.NewEncoder(w).Encode(task)
		return true
	}
	task["TaskState"], task["PercentComplete"] = d.Ends, 100
	d.end(task["Id"].(string))
	if task["Name"] == "export" {
		_ = json.NewEncoder(w).Encode(map[string]any{"SystemConfiguration": map[string]any{"Model": "PowerEdge R640", "Components": []any{
			map[string]any{"FQDD": "iDRAC.Embedded.1", "Attributes": []any{map[string]any{"Name": "IPv4Static.1#Address", "Value": "192.0.2.7"}, map[string]any{"Name": "Users.2#UserName", "Value": "root"}}},
			map[string]any{"FQDD": "BIOS.Setup.1-1", "Attributes": []any{map[string]any{"Name": "BootMode", "Value": "Uefi"}}}}}})
		return true
	}
	return false
}

// restarted carries out what was staged.
func (d *double) restarted() {
	for at := range d.seen {
		if d.At[at]["TaskState"] == "Pending" {
			d.At[at]["TaskState"] = "Running"
		}
	}
}

func (d *double) write(w http.ResponseWriter, r *http.Request, body map[string]any) bool {
	action := r.URL.Path[strings.LastIndexByte(r.URL.Path, '.')+1:]
	switch action {
	case "GetRemoteServicesAPIStatus":
		status := "Ready"
		if d.NotReady > 0 {
			d.NotReady--
			status = "NotReady"
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"LCStatus": status, "RTStatus": status, "ServerStatus": "OutOfPOST"})
	case "iDRACReset":
		if body["Force"] != "Graceful" {
			redfishtest.Refuse(w, http.StatusBadRequest, "Force")
			return true
		}
		d.resets++
		d.At[idrac]["LastResetTime"] = fmt.Sprint(d.resets)
		w.WriteHeader(http.StatusNoContent)
	case "DeleteJobQueue":
		if body["JobID"] != "JID_CLEARALL" {
			redfishtest.Refuse(w, http.StatusBadRequest, "JobID")
			return true
		}
		if !d.Deaf {
			d.At[queueAt]["Members"] = []any{}
		}
		w.WriteHeader(http.StatusOK)
		fmt.Fprint(w, `{"@Message.ExtendedInfo":[]}`)
	case "ExportSystemConfiguration":
		d.task(w, "export")
	case "ImportSystemConfiguration":
		profile, _ := body["ImportBuffer"].(string)
		d.imports = append(d.imports, profile)
		d.task(w, "import")
		attributes := d.At[idrac+"/Attributes"]["Attributes"].(map[string]any)
		for _, line := range strings.Split(profile, "<Attribute ") {
			name, rest, _ := strings.Cut(strings.TrimPrefix(line, `Name="`), `">`)
			value, _, _ := strings.Cut(rest, "<")
			if strings.HasPrefix(name, "ServerBoot.1#") {
				attributes[strings.ReplaceAll(name, "#", ".")] = value
			}
		}
	default:
		if r.URL.Path == system+"/Actions/ComputerSystem.Reset" {
			d.restarted()
		}
		return false
	}
	return true
}

// info is driver_info of the node that the double is the BMC of.
func (d *double) info(password string) map[string]any {
	return map[string]any{"redfish_address": d.URL, "redfish_username": redfishtest.User, "redfish_password": password, "redfish_verify_ca": d.CA}
}

// dracInfo is the same in the fields of WS-Man.
func (d *double) dracInfo(password string) map[string]any {
	return map[string]any{fieldAddress: d.Host(), fieldPort: d.Port(), fieldUser: redfishtest.User, fieldPassword: password, fieldVerifyCA: d.CA}
}

// management is an interface without pauses of its own.
func management(t *testing.T, o redfish.Options, store Store) Management {
	t.Helper()
	o.Networks = redfishtest.Loopback
	o.Pace = 1000
	o.Log = drivertest.Logger(t)
	d := redfish.New(o)
	t.Cleanup(func() { _ = d.Close(t.Context()) })
	return Management{redfish.Management{Driver: d, Rest: 1, Bringup: bringup.Settings{}}, store}
}
