package vbmc

import (
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/stmcginnis/gofish"
	"github.com/stmcginnis/gofish/schemas"
)

// function is the network card as a foreign client sees it.
func function(t *testing.T, c *gofish.APIClient) *schemas.NetworkDeviceFunction {
	t.Helper()
	chassis, err := c.Service.Chassis()
	if err != nil || len(chassis) != 1 {
		t.Fatalf("chassis %v, %v", chassis, err)
	}
	adapters, err := chassis[0].NetworkAdapters()
	if err != nil || len(adapters) != 1 {
		t.Fatalf("adapters %v, %v", adapters, err)
	}
	functions, err := adapters[0].NetworkDeviceFunctions()
	if err != nil || len(functions) != 1 {
		t.Fatalf("functions %v, %v", functions, err)
	}
	return functions[0]
}

func TestISCSI(t *testing.T) {
	b, computer, c, _ := connectEquipped(t)
	f := function(t, c)
	if f.Ethernet.MACAddress != "52:54:00:00:00:01" || f.NetDevFuncType != "Ethernet" || f.ISCSIBoot.AuthenticationMethod != "None" || !f.ISCSIBoot.IPMaskDNSViaDHCP {
		t.Errorf("function %+v", f)
	}
	settings := body(t, b, functionPath)["@Redfish.Settings"].(map[string]any)["SettingsObject"].(map[string]any)["@odata.id"].(string)
	refuses(t, b, "PATCH", functionPath, `{"iSCSIBoot":{"InitiatorName":"x"}}`, 405, settings)
	w := ask(b, "PATCH", settings, `{"@Redfish.SettingsApplyTime":{"ApplyTime":"OnReset"},"iSCSIBoot":{"InitiatorName":"iqn.2026-11.org.example:m","PrimaryTargetName":"iqn.2026-11.org.example:t",
		"PrimaryTargetIPAddress":"10.0.0.1","PrimaryLUN":1,"SecondaryTargetName":"iqn.2026-11.org.example:u","SecondaryTargetIPAddress":"10.0.0.2","SecondaryTargetTCPPort":3261,
		"InitiatorIPAddress":"10.0.0.9","InitiatorNetmask":"255.255.255.0","InitiatorDefaultGateway":"10.0.0.254",
		"AuthenticationMethod":"MutualCHAP","CHAPUsername":"me","CHAPSecret":"my-own-secret","MutualCHAPUsername":"it","MutualCHAPSecret":"its-secret-too"}}`)
	want := ISCSIBoot{Initiator: "iqn.2026-11.org.example:m", Address: netip.MustParsePrefix("10.0.0.9/24"), Gateway: netip.MustParseAddr("10.0.0.254"),
		Targets: []ISCSITarget{{"iqn.2026-11.org.example:t", netip.MustParseAddrPort("10.0.0.1:3260"), 1}, {"iqn.2026-11.org.example:u", netip.MustParseAddrPort("10.0.0.2:3261"), 0}},
		CHAP:    &CHAP{"me", "my-own-secret", "it", "its-secret-too"}}
	if w.Code != 200 || computer.next == nil || !reflect.DeepEqual(*computer.next, want) {
		t.Fatalf("%d %s: set %+v", w.Code, w.Body, computer.next)
	}
	if f := function(t, c); f.ISCSIBoot.PrimaryTargetName != "" {
		t.Errorf("shown before a start: %+v", f.ISCSIBoot)
	}
	pending, err := schemas.GetNetworkDeviceFunction(c, settings)
	if i := pending.ISCSIBoot; err != nil || i.PrimaryTargetName != "iqn.2026-11.org.example:t" || gofish.Deref(i.PrimaryTargetTCPPort) != 3260 || gofish.Deref(i.PrimaryLUN) != 1 ||
		gofish.Deref(i.SecondaryTargetTCPPort) != 3261 || i.InitiatorNetmask != "255.255.255.0" || i.AuthenticationMethod != "MutualCHAP" || i.CHAPUsername != "me" {
		t.Errorf("pending %+v, %v", pending, err)
	}
	// A part is changed; the rest stays, secrets too.
	if w := ask(b, "PATCH", settings, `{"iSCSIBoot":{"PrimaryLUN":2}}`); w.Code != 200 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if want.Targets[0].LUN = 2; !reflect.DeepEqual(*computer.next, want) {
		t.Errorf("after a change of a part: %+v", computer.next)
	}
	computer.problem = "the firmware has to run once"
	if text := ask(b, "GET", functionPath, "").Body.String(); !strings.Contains(text, computer.problem) {
		t.Errorf("the problem of the last start is not shown: %s", text)
	}
	computer.iscsi, computer.next, computer.problem = *computer.next, nil, ""
	if f := function(t, c); f.ISCSIBoot.PrimaryTargetName != "iqn.2026-11.org.example:t" || f.NetDevFuncType != "iSCSI" {
		t.Errorf("shown after a start: %+v", f)
	}
	for _, path := range []string{functionPath, settings} {
		if text := ask(b, "GET", path, "").Body.String(); strings.Contains(text, "secret") {
			t.Errorf("%s shows a secret: %s", path, text)
		}
	}
	if w := ask(b, "PATCH", settings, `{"iSCSIBoot":{"AuthenticationMethod":"None","IPMaskDNSViaDHCP":true,"SecondaryTargetName":null,"SecondaryTargetIPAddress":null}}`); w.Code != 200 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if n := computer.next; n.CHAP != nil || n.Address.IsValid() || n.Gateway.IsValid() || len(n.Targets) != 1 {
		t.Errorf("after taking back: %+v", n)
	}
}

func TestISCSIRefusals(t *testing.T) {
	b, computer, _, _ := connectEquipped(t)
	const whole = `"InitiatorName":"iqn.2026-11.org.example:m","PrimaryTargetName":"iqn.2026-11.org.example:t","PrimaryTargetIPAddress":"10.0.0.1"`
	for _, c := range []struct{ sent, says string }{
		{`"PrimaryTargetName":"iqn.2026-11.org.example:t"`, "PrimaryTargetIPAddress"},
		{`"PrimaryTargetIPAddress":"10.0.0.1"`, "PrimaryTargetName"},
		{`"PrimaryTargetName":"t","PrimaryTargetIPAddress":"10.0.0.1"`, "InitiatorName"},
		{whole + `,"PrimaryTargetTCPPort":70000`, "PrimaryTargetTCPPort"},
		{whole + `,"PrimaryLUN":-1`, "PrimaryLUN"},
		{whole + `,"PrimaryLUN":"1"`, "PrimaryLUN"},
		{whole + `,"IPAddressType":"IPv6"`, "IPAddressType"},
		{whole + `,"IPAddressType":"IPX"`, "IPAddressType"},
		{`"IPAddressType":"IPv6"`, "IPAddressType"},
		{whole + `,"SecondaryTargetName":"u","SecondaryTargetIPAddress":"fd00::1"`, "SecondaryTargetIPAddress"},
		{`"SecondaryTargetName":"u","SecondaryTargetIPAddress":"10.0.0.1"`, "PrimaryTargetName"},
		{whole + `,"InitiatorIPAddress":"10.0.0.9"`, "InitiatorNetmask"},
		{whole + `,"InitiatorIPAddress":"10.0.0.9","InitiatorNetmask":"255.0.255.0"`, "InitiatorNetmask"},
		{whole + `,"InitiatorIPAddress":"ten","InitiatorNetmask":"255.0.0.0"`, "InitiatorIPAddress"},
		{whole + `,"IPMaskDNSViaDHCP":false`, "InitiatorIPAddress"},
		{whole + `,"IPMaskDNSViaDHCP":true,"InitiatorIPAddress":"10.0.0.9","InitiatorNetmask":"255.0.0.0"`, "IPMaskDNSViaDHCP"},
		{whole + `,"AuthenticationMethod":"CHAP","CHAPUsername":"me"`, "CHAPSecret"},
		{whole + `,"AuthenticationMethod":"CHAP","CHAPSecret":"hidden-secret"`, "CHAPUsername"},
		{whole + `,"AuthenticationMethod":"MutualCHAP","CHAPUsername":"me","CHAPSecret":"hidden-secret"`, "MutualCHAPUsername"},
		{whole + `,"AuthenticationMethod":"Kerberos"`, "AuthenticationMethod"},
		{whole + `,"CHAPSecret":"hidden-secret"`, "CHAPSecret"},
		{whole + `,"AuthenticationMethod":"CHAP","CHAPUsername":"me","CHAPSecret":"hidden"`, "the secret is too short"},
		{whole + `,"CHAPSecret":["hidden-secret"]`, "CHAPSecret"},
		{whole + `,"PrimaryVLANId":5`, "iSCSIBoot/PrimaryVLANId"},
		{whole + `,"TargetInfoViaDHCP":true`, "iSCSIBoot/TargetInfoViaDHCP"},
	} {
		refuses(t, b, "PATCH", settingsPath, `{"iSCSIBoot":{`+c.sent+`}}`, 400, c.says)
		if text := ask(b, "PATCH", settingsPath, `{"iSCSIBoot":{`+c.sent+`}}`).Body.String(); strings.Contains(text, "hidden") {
			t.Errorf("%s: the answer has the secret: %s", c.sent, text)
		}
	}
	refuses(t, b, "PATCH", settingsPath, `{"DeviceEnabled":false}`, 400, "DeviceEnabled is a read-only")
	refuses(t, b, "PATCH", settingsPath, `{"@Redfish.SettingsApplyTime":{"ApplyTime":"Immediate"},"iSCSIBoot":{`+whole+`}}`, 400, "ApplyTime")
	if computer.next != nil {
		t.Errorf("a refused PATCH set %+v", computer.next)
	}
	for _, w := range b.Journal.Writes() {
		if strings.Contains(w.Body, "hidden") {
			t.Fatalf("the journal holds a secret: %s", w.Body)
		}
	}
}
