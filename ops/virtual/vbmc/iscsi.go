package vbmc

import (
	"net"
	"net/http"
	"net/netip"
)

// Words of iSCSIBoot (NetworkDeviceFunction.v1_5_0).
const (
	noCHAP     = "None"
	oneCHAP    = "CHAP"
	mutualCHAP = "MutualCHAP"
	ipv4       = "IPv4"
	ipv6       = "IPv6"
)

// iscsiPort is that of a target for which no port is given (RFC 7143, section 4.2.7.1).
const iscsiPort = 3260

// iscsiWire is ISCSIBoot in Redfish's properties.
type iscsiWire struct {
	ipType, initiator, address, netmask, gateway string
	byDHCP                                       bool
	targetByDHCP                                 bool // always false
	targets                                      [2]targetWire
	method                                       string
	name, secret, reverseName, reverseSecret     string
}

type targetWire struct {
	name, address string
	port, lun     int
}

// ranks are the names of the two targets.
var ranks = [2]string{"Primary", "Secondary"}

func wireOf(boot ISCSIBoot) *iscsiWire {
	x := &iscsiWire{ipType: ipv4, initiator: boot.Initiator, byDHCP: !boot.Address.IsValid(), method: noCHAP}
	if boot.Address.IsValid() {
		x.address = boot.Address.Addr().String()
		x.netmask = net.IP(net.CIDRMask(boot.Address.Bits(), boot.Address.Addr().BitLen())).String()
	}
	if boot.Gateway.IsValid() {
		x.gateway = boot.Gateway.String()
	}
	for i, t := range boot.Targets[:min(len(boot.Targets), len(ranks))] {
		x.targets[i] = targetWire{t.Name, t.Portal.Addr().String(), int(t.Portal.Port()), int(t.LUN)}
		if t.Portal.Addr().Is6() {
			x.ipType = ipv6
		}
	}
	if c := boot.CHAP; c != nil {
		x.method, x.name, x.secret = oneCHAP, c.Name, c.Secret
		if c.ReverseName != "" || c.ReverseSecret != "" {
			x.method, x.reverseName, x.reverseSecret = mutualCHAP, c.ReverseName, c.ReverseSecret
		}
	}
	return x
}

// writable are the properties by their names.
func (x *iscsiWire) writable() map[string]any {
	all := map[string]any{
		"IPAddressType": &x.ipType, "InitiatorName": &x.initiator, "InitiatorIPAddress": &x.address, "InitiatorNetmask": &x.netmask,
		"InitiatorDefaultGateway": &x.gateway, "IPMaskDNSViaDHCP": &x.byDHCP, "TargetInfoViaDHCP": &x.targetByDHCP, "AuthenticationMethod": &x.method,
		"CHAPUsername": &x.name, "CHAPSecret": &x.secret, "MutualCHAPUsername": &x.reverseName, "MutualCHAPSecret": &x.reverseSecret,
	}
	for i, rank := range ranks {
		t := &x.targets[i]
		all[rank+"TargetName"], all[rank+"TargetIPAddress"], all[rank+"TargetTCPPort"], all[rank+"LUN"] = &t.name, &t.address, &t.port, &t.lun
	}
	return all
}

// object is what is shown: what is empty is null, and so is each secret.
func (x *iscsiWire) object() object {
	o := object{"IPAddressType@Redfish.AllowableValues": []string{ipv4, ipv6}, "AuthenticationMethod@Redfish.AllowableValues": []string{noCHAP, oneCHAP, mutualCHAP}}
	for name, value := range x.writable() {
		switch v := value.(type) {
		case *string:
			if o[name] = *v; *v == "" {
				o[name] = nil
			}
		case *int:
			o[name] = *v
		case *bool:
			o[name] = *v
		}
	}
	for i, rank := range ranks {
		if x.targets[i].name == "" {
			o[rank+"TargetTCPPort"], o[rank+"LUN"] = nil, nil
		}
	}
	o["CHAPSecret"], o["MutualCHAPSecret"] = nil, nil
	return o
}

// patched is the whole with what a PATCH changes. What does not fit together is refused by
// the name of a property.
func (x *iscsiWire) patched(changed names) (ISCSIBoot, *refusal) {
	said := func(name string) bool { _, ok := changed[name]; return ok }
	if e := changed.into("iSCSIBoot/", x.object(), x.writable()); e != nil {
		return ISCSIBoot{}, e
	}
	if x.method == "" {
		x.method = noCHAP
	}
	for _, p := range []struct {
		name, value string
		allowed     []string
	}{{"IPAddressType", x.ipType, []string{ipv4, ipv6}}, {"AuthenticationMethod", x.method, []string{noCHAP, oneCHAP, mutualCHAP}}} {
		if e := inList("the property iSCSIBoot/"+p.name, "PropertyValueNotInList", p.value, p.allowed); e != nil {
			return ISCSIBoot{}, e
		}
	}
	if x.targetByDHCP {
		return ISCSIBoot{}, conflict("TargetInfoViaDHCP", "is false: this firmware is told its target")
	}
	boot := ISCSIBoot{Initiator: x.initiator}
	var e *refusal
	if boot.Targets, e = x.targetsOf(); e != nil {
		return ISCSIBoot{}, e
	}
	// What is not said follows from what is, but for the kind of a target's address: BMCs take their word for that.
	if len(boot.Targets) == 0 && !said("IPAddressType") {
		x.ipType = ipv4
	}
	if !said("IPMaskDNSViaDHCP") && said("InitiatorIPAddress") {
		x.byDHCP = x.address == ""
	}
	if x.byDHCP && !said("InitiatorIPAddress") {
		x.address, x.netmask, x.gateway = "", "", ""
	}
	if boot.Address, boot.Gateway, e = x.initiatorOf(); e != nil {
		return ISCSIBoot{}, e
	}
	if len(boot.Targets) == 0 && x.ipType == ipv6 {
		return ISCSIBoot{}, conflict("IPAddressType", "follows the address of a target, and there is none")
	}
	if len(boot.Targets) > 0 && boot.Initiator == "" {
		return ISCSIBoot{}, conflict("InitiatorName", "is missing")
	}
	boot.CHAP, e = x.chapOf(said)
	return boot, e
}

func conflict(property, why string) *refusal {
	return &refusal{http.StatusBadRequest, "PropertyValueConflict", "The property iSCSIBoot/" + property + " " + why + "."}
}

func (x *iscsiWire) targetsOf() (list []ISCSITarget, e *refusal) {
	for i, rank := range ranks {
		t := x.targets[i]
		switch {
		case t.name == "" && t.address == "":
			continue
		case t.name == "":
			return nil, conflict(rank+"TargetName", "is missing, with "+rank+"TargetIPAddress given")
		case t.address == "":
			return nil, conflict(rank+"TargetIPAddress", "is missing, with "+rank+"TargetName given")
		case i == 1 && len(list) == 0:
			return nil, conflict("PrimaryTargetName", "is missing, with a secondary target given")
		case t.port < 0 || t.port > 65535:
			return nil, conflict(rank+"TargetTCPPort", "is no port")
		case t.lun < 0 || t.lun > 65535:
			return nil, conflict(rank+"LUN", "is above 65535, or below 0")
		}
		address, e := x.ip(rank+"TargetIPAddress", t.address)
		if e != nil {
			return nil, e
		}
		if len(list) > 0 && address.Is4() != list[0].Portal.Addr().Is4() {
			return nil, conflict(rank+"TargetIPAddress", "is of another kind than the primary target's")
		}
		if t.port == 0 {
			t.port = iscsiPort
		}
		list = append(list, ISCSITarget{Name: t.name, Portal: netip.AddrPortFrom(address, uint16(t.port)), LUN: uint16(t.lun)})
	}
	return list, nil
}

func (x *iscsiWire) ip(property, text string) (netip.Addr, *refusal) {
	a, err := netip.ParseAddr(text)
	if err != nil || a.Zone() != "" || a.Is4In6() {
		return a, &refusal{http.StatusBadRequest, "PropertyValueFormatError", "The value '" + text + "' for the property iSCSIBoot/" + property + " is no IP address."}
	}
	return a, nil
}

// initiatorOf is the initiator's address, of the kind that IPAddressType says.
func (x *iscsiWire) initiatorOf() (address netip.Prefix, gateway netip.Addr, e *refusal) {
	for _, t := range x.targets {
		if t.address == "" {
			continue
		}
		if a, e := x.ip("TargetIPAddress", t.address); e != nil || a.Is6() != (x.ipType == ipv6) {
			return address, gateway, conflict("IPAddressType", "is "+x.ipType+", and a target's address is of another kind")
		}
	}
	given := x.address != "" || x.netmask != "" || x.gateway != ""
	switch {
	case !x.byDHCP && x.address == "":
		return address, gateway, conflict("InitiatorIPAddress", "is missing, with IPMaskDNSViaDHCP false")
	case x.byDHCP && given:
		return address, gateway, conflict("IPMaskDNSViaDHCP", "is true, with an address of the initiator given")
	case x.byDHCP:
		return address, gateway, nil
	}
	a, e := x.ip("InitiatorIPAddress", x.address)
	if e != nil {
		return address, gateway, e
	}
	mask, e := x.ip("InitiatorNetmask", x.netmask)
	if e != nil {
		return address, gateway, e
	}
	ones, bits := net.IPMask(mask.AsSlice()).Size()
	if bits == 0 || mask.Is4() != a.Is4() {
		return address, gateway, conflict("InitiatorNetmask", "is no netmask for the address")
	}
	if x.gateway != "" {
		if gateway, e = x.ip("InitiatorDefaultGateway", x.gateway); e != nil {
			return address, gateway, e
		}
	}
	return netip.PrefixFrom(a, ones), gateway, nil
}

// chapOf is the proof of identity that AuthenticationMethod asks for. What an earlier
// method had and this one has not is forgotten.
func (x *iscsiWire) chapOf(said func(string) bool) (*CHAP, *refusal) {
	for _, p := range []struct {
		property, value string
		fits            bool
	}{
		{"CHAPUsername", x.name, x.method != noCHAP}, {"CHAPSecret", x.secret, x.method != noCHAP},
		{"MutualCHAPUsername", x.reverseName, x.method == mutualCHAP}, {"MutualCHAPSecret", x.reverseSecret, x.method == mutualCHAP},
	} {
		if p.fits && p.value == "" {
			return nil, conflict(p.property, "is missing, with AuthenticationMethod "+x.method)
		}
		if !p.fits && p.value != "" && said(p.property) {
			return nil, conflict(p.property, "is given, with AuthenticationMethod "+x.method)
		}
	}
	switch x.method {
	case oneCHAP:
		return &CHAP{Name: x.name, Secret: x.secret}, nil
	case mutualCHAP:
		return &CHAP{x.name, x.secret, x.reverseName, x.reverseSecret}, nil
	}
	return nil, nil
}
