package vbmc

import (
	"net/http"
	"slices"
	"sync"
)

// What a BMC has that is an iLO 5: its BIOS, which leads on to HPE's resources, and the boot source UefiTarget, which is a boot option of
// the firmware by its device path. The words and paths are HPE's.

const (
	biosPath     = systemPath + "/bios"
	mappingsPath = biosPath + "/mappings"
)

// Words of a system's Boot.
const (
	uefiTarget   = "UefiTarget"
	uefiOverride = "UefiTargetBootSourceOverride"
	noOverride   = "None"
)

// uefiBoot is the boot option that UefiTarget stands for, and whether the computer boots it at each start.
type uefiBoot struct {
	mu   sync.Mutex
	path string
	on   bool
}

func (u *uefiBoot) set(path string, on bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.path, u.on = path, on
}

func (u *uefiBoot) get() (path string, on bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.path, u.on
}

// withHPE answers by h, if the BMC is an iLO.
func withHPE(h handler) handler {
	return func(b *BMC, w http.ResponseWriter, r *http.Request) {
		if !b.is(HPE) {
			notFound(w, r)
			return
		}
		h(b, w, r)
	}
}

// getHPE answers by what makes the resource.
func getHPE(make func(b *BMC) object) handler {
	return withHPE(func(b *BMC, w http.ResponseWriter, _ *http.Request) { write(w, http.StatusOK, make(b)) })
}

// hpeBIOS is the BIOS. Where the firmware logs in to iSCSI disks, it leads to the initiator.
func (b *BMC) hpeBIOS() object {
	mode, links := "LegacyBios", object{}
	if b.cfg.UEFI {
		mode = "Uefi"
	}
	if _, ok := b.iscsiBooter(); ok {
		links["iScsi"], links["Mappings"] = link(initiatorPath), link(mappingsPath)
	}
	return resource(biosPath, "Bios.v1_0_0.Bios", "bios", "BIOS Current Settings", object{
		"Attributes": object{"BootMode": mode}, "Oem": object{"Hpe": object{"Links": links}}})
}

// hpeMappings has the card under the name that the BIOS gives it.
func (b *BMC) hpeMappings() object {
	return resource(mappingsPath, "HpeBiosMapping.v2_0_0.HpeBiosMapping", "mappings", "BIOS Mappings", object{
		"BiosPciSettingsMappings": []object{{"Instance": 1, "Associations": []string{"EmbNicEnable"}, "Subinstances": []object{
			{"Subinstance": 1, "Associations": []any{object{"PreBootNetwork": "EmbNicPort1"}, nicBoot}}}}}})
}

// hpeBoot are an iLO's additions to a system's Boot.
func (b *BMC) hpeBoot(o object) {
	orderer, ok := b.bootOrderer()
	if !ok || !b.is(HPE) {
		return
	}
	path, _ := b.uefi.get()
	if path == "" {
		path = noOverride
	}
	o[uefiOverride], o[uefiOverride+"@Redfish.AllowableValues"] = path, paths(orderer)
}

// paths are the device paths of the firmware's boot options.
func paths(o BootOrderer) []string {
	options, _, _ := o.BootOptions()
	list := []string{}
	for _, option := range options {
		list = append(list, option.Path)
	}
	return list
}

// bootUEFI makes the boot option of a device path the first of all, at each start.
func (b *BMC) bootUEFI(o BootOrderer, path, enabled string) *refusal {
	if enabled != "Continuous" {
		return &refusal{http.StatusBadRequest, "PropertyValueConflict", "The property Boot/BootSourceOverrideEnabled has to be Continuous for " + uefiTarget + ": this firmware is told no boot option for one start."}
	}
	if !slices.Contains(paths(o), path) {
		return &refusal{http.StatusBadRequest, "PropertyValueConflict", "The property Boot/" + uefiOverride + " names no boot option, and Boot/BootSourceOverrideTarget " + uefiTarget + " needs one."}
	}
	if err := orderUEFI(o, path, true); err != nil {
		return &refusal{http.StatusBadRequest, "PropertyValueError", "The request was refused: setting the boot option: " + err.Error()}
	}
	if err := b.computer.SetBootOverride("", false); err != nil {
		return &refusal{http.StatusBadRequest, "PropertyValueError", "The request was refused: setting the boot override: " + err.Error()}
	}
	b.uefi.set(path, true)
	return nil
}

// orderUEFI puts the option of a device path first among those that have a place in the order, or last. An option that the firmware does
// not have any more stays away.
func orderUEFI(o BootOrderer, path string, first bool) error {
	options, ordered, err := o.BootOptions()
	if err != nil {
		return err
	}
	at := slices.IndexFunc(options, func(option BootOption) bool { return option.Path == path })
	if at < 0 || first && at == 0 && ordered > 0 || !first && at >= ordered-1 {
		return nil
	}
	var names []string
	for i, option := range options[:ordered] {
		if i != at {
			names = append(names, option.Name)
		}
	}
	if first {
		names = slices.Insert(names, 0, options[at].Name)
	} else {
		names = append(names, options[at].Name)
	}
	return o.OrderBoot(names)
}

// leaveUEFI ends the boot from UefiTarget, whose option the firmware then tries last.
func (b *BMC) leaveUEFI() error {
	path, on := b.uefi.get()
	if b.uefi.set(path, false); !on {
		return nil
	}
	o, ok := b.bootOrderer()
	if !ok {
		return nil
	}
	return orderUEFI(o, path, false)
}

// holdUEFI has a start boot UefiTarget, whose option the firmware may have made once more and put last.
func (b *BMC) holdUEFI() {
	path, on := b.uefi.get()
	o, ok := b.bootOrderer()
	if !on || !ok {
		return
	}
	if err := orderUEFI(o, path, true); err != nil {
		b.cfg.Log.Warn("the boot option of UefiTarget is not put first", "error", err)
	}
}
