package vbmc

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
)

// An iLO's iSCSI initiator is a resource of the BIOS, and what is set waits in its settings for the next start. There is an attempt for
// each adapter. This computer has one.

const (
	initiatorPath         = biosPath + "/iscsi"
	initiatorSettingsPath = initiatorPath + "/settings"
)

// nicBoot is what the BIOS calls the card.
const nicBoot = "NicBoot1"

// HPE's words of an attempt.
const (
	connected    = "Enabled"
	disconnected = "Disabled"
	noAddress    = "0.0.0.0"
	hpeNoCHAP    = "None"
	hpeCHAP      = "Chap"
	hpeOneWay    = "OneWay"
	hpeMutual    = "Mutual"
)

// attempt is an attempt in HPE's properties.
type attempt struct {
	name, nic, connection, target, lun, address, method, user, secret string
	ipType, chapType, reverseUser, reverseSecret                      string
	instance, port                                                    int
	byDHCP                                                            bool // the target; always false
}

func attemptOf(boot ISCSIBoot) *attempt {
	a := &attempt{name: nicBoot, nic: nicBoot, connection: disconnected, lun: "0", address: noAddress, ipType: ipv4, method: hpeNoCHAP, chapType: hpeOneWay, instance: 1, port: iscsiPort}
	if len(boot.Targets) > 0 {
		t := boot.Targets[0]
		a.connection, a.target, a.lun = connected, t.Name, strings.ToUpper(strconv.FormatUint(uint64(t.LUN), 16))
		a.address, a.port = t.Portal.Addr().String(), int(t.Portal.Port())
		if t.Portal.Addr().Is6() {
			a.ipType = ipv6
		}
	}
	if c := boot.CHAP; c != nil {
		a.method, a.user, a.secret = hpeCHAP, c.Name, c.Secret
		if c.ReverseName != "" || c.ReverseSecret != "" {
			a.chapType, a.reverseUser, a.reverseSecret = hpeMutual, c.ReverseName, c.ReverseSecret
		}
	}
	return a
}

// writable are the properties by their names.
func (a *attempt) writable() map[string]any {
	return map[string]any{
		"iSCSIAttemptName": &a.name, "iSCSINicSource": &a.nic, "iSCSIAttemptInstance": &a.instance, "iSCSIConnection": &a.connection,
		"iSCSITargetInfoViaDHCP": &a.byDHCP, "iSCSITargetName": &a.target, "iSCSILUN": &a.lun, "iSCSITargetIpAddress": &a.address, "iSCSITargetTcpPort": &a.port,
		"iSCSIAuthenticationMethod": &a.method, "iSCSIChapUsername": &a.user, "iSCSIChapSecret": &a.secret,
		"iSCSIIpAddressType": &a.ipType, "iSCSIChapType": &a.chapType, "iSCSIReverseChapUsername": &a.reverseUser, "iSCSIReverseChapSecret": &a.reverseSecret,
	}
}

// object is what is shown, without the secrets.
func (a *attempt) object() object {
	return object{
		"iSCSIAttemptName": a.name, "iSCSINicSource": a.nic, "iSCSIAttemptInstance": a.instance, "iSCSIConnection": a.connection,
		"iSCSITargetInfoViaDHCP": false, "iSCSITargetName": a.target, "iSCSILUN": a.lun, "iSCSITargetIpAddress": a.address, "iSCSITargetTcpPort": a.port,
		"iSCSIAuthenticationMethod": a.method, "iSCSIChapUsername": a.user, "iSCSIChapSecret": nil,
		"iSCSIIpAddressType": a.ipType, "iSCSIChapType": a.chapType, "iSCSIReverseChapUsername": a.reverseUser, "iSCSIReverseChapSecret": nil,
	}
}

// boot is how the firmware logs in by it. An attempt that is disabled keeps nothing.
func (a *attempt) boot(initiator string) (boot ISCSIBoot, e *refusal) {
	boot.Initiator = initiator
	bad := func(property, why string) *refusal {
		return &refusal{http.StatusBadRequest, "PropertyValueError", "The property iSCSISources/" + property + " " + why + "."}
	}
	for _, p := range []struct {
		property, value string
		allowed         []string
	}{{"iSCSIConnection", a.connection, []string{connected, disconnected}}, {"iSCSIAuthenticationMethod", a.method, []string{hpeNoCHAP, hpeCHAP}},
		{"iSCSIIpAddressType", a.ipType, []string{ipv4, ipv6}}, {"iSCSIChapType", a.chapType, []string{hpeOneWay, hpeMutual}},
		{"iSCSINicSource", a.nic, []string{nicBoot}}} {
		if e := inList("the property iSCSISources/"+p.property, "PropertyValueNotInList", p.value, p.allowed); e != nil {
			return boot, e
		}
	}
	if a.connection == disconnected {
		return boot, nil
	}
	address, err := netip.ParseAddr(a.address)
	lun, unread := strconv.ParseUint(a.lun, 16, 16) // as this firmware reads it
	switch {
	case a.byDHCP:
		return boot, bad("iSCSITargetInfoViaDHCP", "is false: this firmware is told its target")
	case a.target == "":
		return boot, bad("iSCSITargetName", "is missing, with iSCSIConnection Enabled")
	case err != nil || address.IsUnspecified():
		return boot, bad("iSCSITargetIpAddress", "is no address of a target")
	case address.Is6() != (a.ipType == ipv6):
		return boot, bad("iSCSITargetIpAddress", "is of another kind than iSCSIIpAddressType says, which is "+a.ipType)
	case unread != nil:
		return boot, bad("iSCSILUN", "is no number from 0 to FFFF")
	case a.port < 1 || a.port > 65535:
		return boot, bad("iSCSITargetTcpPort", "is no port")
	case a.method == hpeCHAP && (a.user == "" || a.secret == ""):
		return boot, bad("iSCSIChapSecret", "and iSCSIChapUsername are needed, with iSCSIAuthenticationMethod Chap")
	case a.method == hpeCHAP && a.chapType == hpeMutual && (a.reverseUser == "" || a.reverseSecret == ""):
		return boot, bad("iSCSIReverseChapSecret", "and iSCSIReverseChapUsername are needed, with iSCSIChapType Mutual")
	}
	boot.Targets = []ISCSITarget{{Name: a.target, Portal: netip.AddrPortFrom(address, uint16(a.port)), LUN: uint16(lun)}}
	if a.method == hpeCHAP {
		boot.CHAP = &CHAP{Name: a.user, Secret: a.secret}
		if a.chapType == hpeMutual {
			boot.CHAP.ReverseName, boot.CHAP.ReverseSecret = a.reverseUser, a.reverseSecret
		}
	}
	return boot, nil
}

// withInitiator answers by h, if the BMC is an iLO whose firmware knows iSCSI.
func withInitiator(h func(b *BMC, i ISCSIBooter, w http.ResponseWriter, r *http.Request)) handler {
	return withHPE(func(b *BMC, w http.ResponseWriter, r *http.Request) {
		i, ok := b.iscsiBooter()
		if !ok {
			notFound(w, r)
			return
		}
		h(b, i, w, r)
	})
}

// initiator is the resource at a path, with iSCSI as it is told.
func (b *BMC) initiator(path, id string, boot ISCSIBoot) object {
	return resource(path, "HpeiSCSISoftwareInitiator.v2_0_0.HpeiSCSISoftwareInitiator", id, "iSCSI Software Initiator", object{
		"iSCSIInitiatorName": b.initiatorName(boot), "iSCSISources": []object{attemptOf(boot).object()}})
}

// initiatorName is the computer's own where nothing else was set.
func (b *BMC) initiatorName(boot ISCSIBoot) string {
	if boot.Initiator != "" {
		return boot.Initiator
	}
	return "iqn.2015-02.com.hpe:uefi-" + b.cfg.Name
}

// showInitiator shows what the firmware logs in with now, and where to set it.
func (b *BMC) showInitiator(i ISCSIBooter, w http.ResponseWriter, _ *http.Request) {
	now, _, _, err := i.ISCSIBoot()
	if err != nil {
		b.failed(w, "reading the iSCSI settings", err)
		return
	}
	o := b.initiator(initiatorPath, "iscsi", now)
	o["@Redfish.Settings"] = object{"@odata.type": "#Settings.v1_0_0.Settings", "SettingsObject": link(initiatorSettingsPath)}
	write(w, http.StatusOK, o)
}

// pendingInitiator is the settings resource: what the next start will have.
func (b *BMC) pendingInitiator(i ISCSIBooter) (ISCSIBoot, object, error) {
	boot, next, _, err := i.ISCSIBoot()
	if next != nil {
		boot = *next
	}
	return boot, b.initiator(initiatorSettingsPath, "settings", boot), err
}

func (b *BMC) showInitiatorSettings(i ISCSIBooter, w http.ResponseWriter, _ *http.Request) {
	_, shown, err := b.pendingInitiator(i)
	if err != nil {
		b.failed(w, "reading the iSCSI settings", err)
		return
	}
	w.Header().Set("Allow", "GET, HEAD, PATCH")
	write(w, http.StatusOK, shown)
}

func (b *BMC) patchInitiatorSettings(i ISCSIBooter, w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	boot, shown, err := b.pendingInitiator(i)
	if err != nil {
		b.failed(w, "reading the iSCSI settings", err)
		return
	}
	body, ok := decodePatch(w, r, shown)
	if !ok {
		return
	}
	sources, given := body["iSCSISources"]
	delete(body, "iSCSISources")
	name := b.initiatorName(boot)
	e := body.into("", shown, map[string]any{"iSCSIInitiatorName": &name})
	boot.Initiator = name
	if e == nil && given {
		boot, e = changedBy(boot, sources)
	}
	if e != nil {
		e.write(w)
		return
	}
	if err := i.SetISCSIBoot(boot); err != nil {
		b.refused(w, "PropertyValueError", "setting iSCSISources", err)
		return
	}
	b.showInitiatorSettings(i, w, r)
}

// changedBy is iSCSI with a list of attempts merged into it by their places.
func changedBy(boot ISCSIBoot, raw json.RawMessage) (ISCSIBoot, *refusal) {
	var list []names
	if err := json.Unmarshal(raw, &list); err != nil || len(list) != 1 {
		return boot, &refusal{http.StatusBadRequest, "PropertyValueTypeError", "The property iSCSISources is a list of one attempt: there is one adapter."}
	}
	a := attemptOf(boot)
	if e := list[0].into("iSCSISources/", a.object(), a.writable()); e != nil {
		return boot, e
	}
	return a.boot(boot.Initiator)
}
