package vbmc

import (
	"net/http"
	"strings"
)

// What a BMC has that is an iDRAC: attributes of its boot device, and an action that imports a configuration profile. The virtual drive of
// a CD is a boot device of the iDRAC itself; the standard's Cd would be a drive that the computer does not have.

const (
	attributesPath = managerPath + "/Attributes"
	importPath     = managerPath + "/Actions/Oem/EID_674_Manager.ImportSystemConfiguration"
)

// virtualCD is the virtual drive as an iDRAC calls it.
const virtualCD = "VCD-DVD"

// withDell answers by h, if the BMC is an iDRAC.
func withDell(h handler) handler {
	return func(b *BMC, w http.ResponseWriter, r *http.Request) {
		if !b.is(Dell) {
			notFound(w, r)
			return
		}
		h(b, w, r)
	}
}

// dellParts are an iDRAC's additions to the resource of the manager.
func (b *BMC) dellParts(o object) object {
	if b.is(Dell) {
		o["Actions"].(object)["Oem"] = object{"OemManager.v1_0_0#OemManager.ImportSystemConfiguration": object{"target": importPath}}
		o["Links"].(object)["Oem"] = object{"Dell": object{"DellAttributes": []object{link(attributesPath)}}}
	}
	return o
}

func (b *BMC) dellAttributes() object {
	once, first := "Disabled", "Normal"
	if device, only := b.computer.BootOverride(); device == Media {
		first = virtualCD
		if only {
			once = "Enabled"
		}
	}
	return resource(attributesPath, "DellAttributes.v1_0_0.DellAttributes", "Attributes", "Attributes", object{
		"Attributes": object{"ServerBoot.1.BootOnce": once, "ServerBoot.1.FirstBootDevice": first},
	})
}

// importProfile takes a profile of the two attributes. An import is a task.
func (b *BMC) importProfile(w http.ResponseWriter, r *http.Request) {
	var body struct{ ImportBuffer string }
	if !decode(w, r, &body) {
		return
	}
	value := func(name string) string {
		_, after, _ := strings.Cut(body.ImportBuffer, `<Attribute Name="`+name+`">`)
		text, _, _ := strings.Cut(after, "<")
		return text
	}
	first, once := value("ServerBoot.1#FirstBootDevice"), value("ServerBoot.1#BootOnce")
	if first != virtualCD || once != "Enabled" && once != "Disabled" {
		refusal{http.StatusBadRequest, "SYS405", "Unable to import the profile: this iDRAC takes the boot from its virtual drive alone."}.write(w)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	t, free := b.tasks.begin()
	if !free {
		refusal{http.StatusServiceUnavailable, "RAC052", "A job operation is already running. Retry the operation after the existing job is completed."}.write(w)
		return
	}
	if err := b.computer.SetBootOverride(Media, once == "Enabled"); err != nil {
		b.tasks.set(t, "Exception", 100, err.Error())
		b.refused(w, "SYS405", "importing the profile", err)
		return
	}
	b.tasks.set(t, "Completed", 100, "The profile was imported.")
	w.Header().Set("Location", tasksPath+"/"+t.id)
	w.WriteHeader(http.StatusAccepted)
}
