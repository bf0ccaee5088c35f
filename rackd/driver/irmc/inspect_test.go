package irmc

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gosnmp/gosnmp"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
	"github.com/ironyard/ironyard/rackd/driver/redfish"
	"github.com/ironyard/ironyard/rackd/driver/redfish/redfishtest"
	"github.com/ironyard/ironyard/rackd/driver/snmp/snmpclient"
	"github.com/ironyard/ironyard/rackd/driver/snmp/snmptest"
)

// reportS4 has the elements that inspections read, where reports of iRMC S4 have them, among some that they do not read.
const reportS4 = `<?xml version="1.0" encoding="UTF-8"?>
<Root Schema="2" Version="7.82F" OS="iRMC S4">
 <Summary><Content><Item Name="System/Memory"></Item></Content></Summary>
 <System>
  <Processor Schema="1">
   <CPU Boot="true"><SocketDesignation>CPU1</SocketDesignation><CoreNumber>10</CoreNumber><LogicalCpuNumber>20</LogicalCpuNumber></CPU>
   <CPU Boot="false"><SocketDesignation>CPU2</SocketDesignation><CoreNumber>10</CoreNumber><LogicalCpuNumber>20</LogicalCpuNumber></CPU>
   <CPU Boot="false"><SocketDesignation>CPU3</SocketDesignation></CPU>
  </Processor>
  <Memory Schema="2"><Installed>65536</Installed><Modules Count="4"><Module><Size>16384</Size></Module></Modules></Memory>
  <ManagementControllers Schema="1"><iRMC Name="iRMC S4"><Firmware>7.82F</Firmware></iRMC></ManagementControllers>
 </System>
 <Software><ServerView><ServerViewRaid Schema="1" Installed="true"><amEMSV><System><Adapter>
  <Port><MemorySize>1024</MemorySize>
   <PhysicalDrive DeviceNumber="9"><Size>190782</Size><ConfigurableSize>190240</ConfigurableSize></PhysicalDrive>
   <PhysicalDrive DeviceNumber="10"><ConfigurableSize>571776</ConfigurableSize></PhysicalDrive>
  </Port>
 </Adapter></System></amEMSV></ServerViewRaid></ServerView></Software>
</Root>`

// objectsS4 are what the SNMP agent of such an iRMC tells: two adapters, of which one has two ports, and the iRMC's own.
func objectsS4() snmptest.Objects {
	return snmptest.Objects{
		modelName: "PRIMERGY RX2540 M1", bmcName: "iRMC S4", bmcFirmware: "7.82F", biosVersion: "V5.0.0.9 R1.36.0 for D3289-A1x",
		nodeClass + ".1": 2, nodeClass + ".2": 2, nodeClass + ".3": 3, nodeClass + ".10": 2, nodeClass + ".11": 7,
		nodeMAC + ".1": "\x90\x1b\x0e\x11\x22\x01", nodeMAC + ".2": "\x90\x1b\x0e\x11\x22\x02", nodeMAC + ".3": "\x90\x1b\x0e\x11\x22\xff",
		nodeMAC + ".10": "\x90\x1b\x0e\x11\x22\x10", nodeMAC + ".11": "\x90\x1b\x0e\x11\x22\xfe",
	}
}

// withReport is a double that has a report.
func withReport(t *testing.T, report *string) *double {
	t.Helper()
	d := &double{password: redfishtest.Password}
	d.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != reportAt || r.Method != http.MethodGet:
			d.serve(w, r)
		case !d.admits(w, r):
			w.WriteHeader(http.StatusUnauthorized)
		default:
			d.do(func() { fmt.Fprint(w, *report) })
		}
	}))
	drivertest.StartTLS(t, d.Server)
	t.Cleanup(d.Server.Close)
	return d
}

// stepOf is the step of an inspection.
func stepOf(t *testing.T, i Interface, r *drivertest.Rig) driver.Step {
	agents := snmpclient.NewReader(snmpclient.ReaderOptions{Networks: redfishtest.Loopback, Pace: 1000, AnswerTimeout: time.Second, Tries: 2})
	t.Cleanup(func() { _ = agents.Close(t.Context()) })
	return NewInspection(redfish.Inspection{Driver: i.Driver}, i, agents).InspectSteps(r.Node)[0]
}

// inspected is an inspection of a double whose SNMP agent listens on port.
func inspected(t *testing.T, d *double, port string, more map[string]any) (*drivertest.Rig, error) {
	t.Helper()
	i := newInterface(t, lan{d})
	r := drivertest.NewRig()
	r.Node.DriverInfo = d.info(redfishtest.Password)
	r.Node.DriverInfo[fieldSNMPPort] = port
	for field, v := range more {
		r.Node.DriverInfo[field] = v
	}
	out, err := stepOf(t, i, r).Run(t.Context(), r.Task(networkboot.IPXE()))
	if err == nil && out != driver.Done() {
		t.Fatalf("it ends with %+v", out)
	}
	return r, err
}

// found is the inventory and what stands beside it.
func found(t *testing.T, r *drivertest.Rig) (inventory, plugin map[string]any) {
	t.Helper()
	if r.Inv == nil {
		t.Fatal("there is no inventory")
	}
	if err := errors.Join(json.Unmarshal(r.Inv.Sent, &inventory), json.Unmarshal(r.Inv.PluginData, &plugin)); err != nil {
		t.Fatal(err)
	}
	return inventory, plugin
}

// wholeS4 fails where the inspection has found something else than reportS4 and objectsS4 tell.
func wholeS4(t *testing.T, r *drivertest.Rig) {
	t.Helper()
	inventory, plugin := found(t, r)
	nic := func(name, mac string) any { return map[string]any{"name": name, "mac_address": mac} }
	want := map[string]any{
		"memory": map[string]any{"physical_mb": 65536.0}, "cpu": map[string]any{"count": 20.0, "architecture": "x86_64"},
		"interfaces":    []any{nic("node 1", "90:1b:0e:11:22:01"), nic("node 2", "90:1b:0e:11:22:02"), nic("node 10", "90:1b:0e:11:22:10")},
		"system_vendor": map[string]any{"product_name": "PRIMERGY RX2540 M1"},
	}
	if !reflect.DeepEqual(inventory, want) {
		t.Errorf("inventory\n%v\nwant\n%v", inventory, want)
	}
	besides := map[string]any{"local_gb": 185.0 + 558.0, "capabilities": map[string]any{"server_model": "PRIMERGY RX2540 M1",
		"irmc_firmware_version": "iRMC S4-7.82F", "rom_firmware_version": "V5.0.0.9 R1.36.0 for D3289-A1x"}}
	if !reflect.DeepEqual(plugin, besides) {
		t.Errorf("besides\n%v\nwant\n%v", plugin, besides)
	}
	if len(r.Phases) != 1 || r.Phases[0] != "inventory: by SCCI and SNMP: 3 NICs, 2 drives" {
		t.Errorf("its history is %q", r.Phases)
	}
}

func TestInspectionBySCCIAndSNMP(t *testing.T) {
	text := reportS4
	d := withReport(t, &text)
	a := snmptest.Start(t, "public", objectsS4())
	for _, version := range []any{nil, "v1", "V2C"} {
		r, err := inspected(t, d, a.Port(), map[string]any{fieldSNMPVersion: version})
		if err != nil {
			t.Fatal(err)
		}
		wholeS4(t, r)
	}
	if len(d.orders) > 0 {
		t.Errorf("the iRMC was told %v by an inspection", d.orders)
	}
	d.do(func() { d.digest = true })
	r, err := inspected(t, d, a.Port(), map[string]any{fieldAuth: "digest"})
	if err != nil {
		t.Fatal(err)
	}
	wholeS4(t, r)
}

// The machine's PCI devices stand in the inventory, where the hook that counts them finds them. An iRMC that lists none says why.
func TestInspectionListsPCIDevices(t *testing.T) {
	text := reportS4
	d := withReport(t, &text)
	d.pci = []driver.PCIDevice{{Vendor: 0x10de, Product: 0x1eb8}, {Vendor: 0x8086, Product: 0x09c4}}
	a := snmptest.Start(t, "public", objectsS4())
	r, err := inspected(t, d, a.Port(), nil)
	if err != nil {
		t.Fatal(err)
	}
	inventory, _ := found(t, r)
	want := []any{map[string]any{"vendor_id": "10de", "product_id": "1eb8"}, map[string]any{"vendor_id": "8086", "product_id": "09c4"}}
	if !reflect.DeepEqual(inventory["pci_devices"], want) {
		t.Errorf("PCI devices %v, want %v", inventory["pci_devices"], want)
	}
	if said := strings.Join(r.Phases, "\n"); said != "inventory: by SCCI and SNMP: 3 NICs, 2 drives; 2 PCI devices by IPMI" {
		t.Errorf("its history is %q", said)
	}
	d.do(func() { d.pci, d.noPCI = nil, fmt.Errorf("the BMC knows no such command: %w", driver.ErrUnsupported) })
	if r, err = inspected(t, d, a.Port(), nil); err != nil {
		t.Fatal(err)
	}
	if inventory, _ = found(t, r); inventory["pci_devices"] != nil {
		t.Errorf("PCI devices %v of an iRMC that lists none", inventory["pci_devices"])
	}
	if said := strings.Join(r.Phases, "\n"); !strings.Contains(said, "it lists no PCI devices by IPMI, so none is counted: the BMC knows no such command") {
		t.Errorf("its history is %q", said)
	}
}

// net-snmp's snmpd tells the same by each version, of which the third authenticates and encrypts. Wrong keys stand in no error.
func TestInspectionWithSnmpd(t *testing.T) {
	if os.Getenv("IRONYARD_E2E") != "1" {
		t.Skip("needs snmpd and snmp (Debian's packages); set IRONYARD_E2E=1")
	}
	text := reportS4
	d := withReport(t, &text)
	users := "rocommunity c0mmunity\n"
	for name, proto := range map[string]string{"sha": "SHA", "sha256": "SHA-256", "sha384": "SHA-384", "sha512": "SHA-512"} {
		users += fmt.Sprintf("createUser user-%s %s auth-key-12 AES priv-key-12\nrouser user-%s authpriv\n", name, proto, name)
	}
	port := snmptest.Snmpd(t, users, objectsS4())
	v3 := func(name, auth, priv string) map[string]any {
		return map[string]any{fieldSNMPVersion: "v3", fieldSNMPUser: "user-" + name, fieldSNMPAuthProto: name,
			fieldSNMPAuthPassword: auth, fieldSNMPPrivPassword: priv}
	}
	for what, more := range map[string]map[string]any{
		"v1": {fieldSNMPVersion: "v1", fieldSNMPCommunity: "c0mmunity"}, "v2c": {fieldSNMPCommunity: "c0mmunity"},
		"sha": v3("sha", "auth-key-12", "priv-key-12"), "sha256": v3("sha256", "auth-key-12", "priv-key-12"),
		"sha384": v3("sha384", "auth-key-12", "priv-key-12"), "sha512": v3("sha512", "auth-key-12", "priv-key-12"),
		"security": {fieldSNMPVersion: "v3", fieldSNMPSecurity: "user-sha",
			fieldSNMPAuthPassword: "auth-key-12", fieldSNMPPrivPassword: "priv-key-12"},
	} {
		t.Run(what, func(t *testing.T) {
			r, err := inspected(t, d, port, more)
			if err != nil {
				t.Fatal(err)
			}
			wholeS4(t, r)
		})
	}
	for what, more := range map[string]map[string]any{
		"another user":                v3("nonesuch", "auth-key-12", "priv-key-12"),
		"another key to authenticate": v3("sha256", "wr0ng-key-12", "priv-key-12"),
		"another key to encrypt":      v3("sha256", "auth-key-12", "wr0ng-key-12"),
	} {
		t.Run(what, func(t *testing.T) {
			if more[fieldSNMPUser] == "user-nonesuch" {
				more[fieldSNMPAuthProto] = "sha256"
			}
			r, err := inspected(t, d, port, more)
			if err == nil || r.Inv != nil || strings.Contains(err.Error(), "key-12") || strings.Contains(err.Error(), redfishtest.Password) {
				t.Fatalf("%v, inventory %v", err, r.Inv)
			}
			kind, says := driver.ErrDenied, "check irmc_snmp_user and irmc_snmp_auth_password, irmc_snmp_priv_password"
			if more[fieldSNMPPrivPassword] != "priv-key-12" { // it finds no request in what it decrypts
				kind, says = driver.ErrUnreachable, "check irmc_address, irmc_snmp_port, irmc_snmp_version and irmc_snmp_priv_password"
			}
			if !errors.Is(err, kind) || !strings.Contains(err.Error(), says) {
				t.Error(err)
			}
		})
	}
	_, err := inspected(t, d, port, map[string]any{fieldSNMPCommunity: "an0ther"})
	if !errors.Is(err, driver.ErrUnreachable) || strings.Contains(err.Error(), "an0ther") ||
		!strings.Contains(err.Error(), "check irmc_address, irmc_snmp_port, irmc_snmp_version and irmc_snmp_community") {
		t.Errorf("another community: %v", err)
	}
}

// What an iRMC leaves out is left out of the inventory, and the node's history says what to do about it.
func TestInspectionOfHalfAMachine(t *testing.T) {
	text := reportS4
	d := withReport(t, &text)
	without := func(o snmptest.Objects, prefixes ...string) snmptest.Objects {
		for name := range o {
			for _, p := range prefixes {
				if strings.HasPrefix(name, p) {
					delete(o, name)
				}
			}
		}
		return o
	}
	with := func(name string, v any) snmptest.Objects { o := objectsS4(); o[name] = v; return o }
	for what, c := range map[string]struct {
		report  string
		objects snmptest.Objects
		says    string
	}{
		"no table of nodes": {reportS4, without(objectsS4(), nodeClass, nodeMAC), "0 NICs"},
		"classes alone":     {reportS4, without(objectsS4(), nodeMAC), "its network adapter 10 has no MAC address"},
		"no objects at all": {reportS4, nil, "it tells the MAC address of no NIC: create ports"},
		"an address of 8 octets": {reportS4, with(nodeMAC+".2", "\x90\x1b\x0e\x11\x22\x02\x03\x04"),
			`its network adapter 2 has no MAC address ("90:1b:0e:11:22:02:03:04")`},
		"an address of zeros":    {reportS4, with(nodeMAC+".2", "\x00\x00\x00\x00\x00\x00"), "its network adapter 2 has no MAC address"},
		"many of no address":     {reportS4, manyNodes(), "and 41 more"},
		"an address twice":       {reportS4, with(nodeMAC+".2", "\x90\x1b\x0e\x11\x22\x01"), "2 NICs"},
		"a class that is a text": {reportS4, with(nodeClass+".2", "primary"), "2 NICs"},
		"no drives":              {strings.ReplaceAll(reportS4, "ConfigurableSize", "OtherSize"), objectsS4(), "its report tells no drive"},
		"no memory":              {strings.ReplaceAll(reportS4, "Installed>", "Absent>"), objectsS4(), "switch the machine on once"},
		"memory in words": {strings.ReplaceAll(reportS4, ">65536<", ">much<"), objectsS4(),
			`Installed of the report is "much", which is no size and no count`},
		"a negative drive":    {strings.ReplaceAll(reportS4, ">190240<", ">-5<"), objectsS4(), `ConfigurableSize of the report is "-5"`},
		"a report of nothing": {"<Root/>", objectsS4(), "its report tells no drive"},
	} {
		t.Run(what, func(t *testing.T) {
			d.do(func() { text = c.report })
			r, err := inspected(t, d, snmptest.Start(t, "public", c.objects).Port(), nil)
			if err != nil {
				t.Fatal(err)
			}
			found(t, r)
			if said := strings.Join(r.Phases, "\n"); !strings.Contains(said, c.says) || strings.Contains(said, redfishtest.Password) {
				t.Errorf("its history is\n%s\nwant %q", said, c.says)
			}
		})
	}
}

// manyNodes are fifty adapters without an address.
func manyNodes() snmptest.Objects {
	o := snmptest.Objects{}
	for n := range 50 {
		o[fmt.Sprintf("%s.%d", nodeClass, n+1)] = primaryNode
	}
	return o
}

// Answers that break off, or that nothing can be made of, are no inventory.
func TestInspectionOfWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	text := reportS4
	d := withReport(t, &text)
	a := snmptest.Start(t, "public", objectsS4())
	const drive = "<PhysicalDrive><ConfigurableSize>1024</ConfigurableSize></PhysicalDrive>"
	for what, c := range map[string]struct{ report, says string }{
		"half a report": {reportS4[:len(reportS4)/2], "what is no whole report"}, "nothing": {"", "what is no whole report"},
		"no XML":               {"<html><p>Login</html>", "what is no whole report"},
		"elements without end": {strings.Repeat("<System>", 5000), "elements in more than 100 others"},
		"drives without end":   {"<Root>" + strings.Repeat(drive, 2000) + "</Root>", "more than 1000 drives"},
	} {
		d.do(func() { text = c.report })
		r, err := inspected(t, d, a.Port(), nil)
		if err == nil || r.Inv != nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "inspect the machine: BMC https://") {
			t.Errorf("%s: %v, inventory %v", what, err, r.Inv)
		}
	}
	d.do(func() { text = reportS4 })
	for what, c := range map[string]struct {
		lie  func(*gosnmp.SnmpPacket) bool
		says string
	}{
		"no answer after some rows": {func(p *gosnmp.SnmpPacket) bool {
			return !strings.HasSuffix(p.Variables[0].Name, ".8.1.2")
		}, "does not answer"},
		"a number for a text": {func(p *gosnmp.SnmpPacket) bool {
			p.Variables[0].Type, p.Variables[0].Value = gosnmp.Integer, 5
			return true
		}, "something that is no text"},
		"a walk in a circle": {func(p *gosnmp.SnmpPacket) bool {
			if strings.HasPrefix(p.Variables[0].Name, "."+nodeClass) {
				p.Variables[0].Name = "." + nodeClass + ".1"
			}
			return true
		}, "as the object after"},
	} {
		a.Lie(c.lie)
		r, err := inspected(t, d, a.Port(), nil)
		if err == nil || r.Inv != nil || !strings.Contains(err.Error(), c.says) ||
			!strings.Contains(err.Error(), "inspect the machine by SNMP: SNMP agent 127.0.0.1:") {
			t.Errorf("%s: %v, inventory %v", what, err, r.Inv)
		}
	}
	a.Lie(nil)
	d.do(func() { d.password = "an0ther" })
	if _, err := inspected(t, d, a.Port(), nil); !errors.Is(err, driver.ErrDenied) || strings.Contains(err.Error(), redfishtest.Password) {
		t.Errorf("refused credentials: %v", err)
	}
}

// An agent that repeats the iRMC's password does not bring it into capabilities. What divides capabilities is taken out.
func TestCapabilitiesOfAnIRMC(t *testing.T) {
	text := reportS4
	d, o := withReport(t, &text), objectsS4()
	o[modelName], o[bmcName], o[biosVersion] = "RX2540, M1:"+redfishtest.Password, "", "V1\n.2"
	r, err := inspected(t, d, snmptest.Start(t, "public", o).Port(), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, plugin := found(t, r)
	got, _ := plugin["capabilities"].(map[string]any)
	if model := fmt.Sprint(got["server_model"]); strings.ContainsAny(model, ",:") || strings.Contains(model, redfishtest.Password) {
		t.Errorf("the model is %q", model)
	}
	if got["irmc_firmware_version"] != "7.82F" || got["rom_firmware_version"] != "V1 .2" {
		t.Errorf("capabilities %v", got)
	}
}

// An iRMC with a Redfish service is inspected by that alone.
func TestInspectionByRedfish(t *testing.T) {
	b := redfishtest.Start(t, "Fujitsu", nil)
	a := snmptest.Start(t, "public", objectsS4())
	i := newInterface(t, lan{})
	r := drivertest.NewRig()
	r.Node.DriverInfo = map[string]any{fieldAddress: b.Host(), fieldPort: b.Port(), fieldUser: redfishtest.User,
		fieldPassword: redfishtest.Password, fieldVerifyCA: b.CA, fieldSNMPPort: a.Port()}
	if _, err := stepOf(t, i, r).Run(t.Context(), r.Task(networkboot.IPXE())); err != nil {
		t.Fatal(err)
	}
	if a.Asked() != 0 || len(r.Phases) == 0 || !strings.HasPrefix(r.Phases[0], "inventory: by Redfish") {
		t.Errorf("its history is %q, the SNMP agent was asked %d times", r.Phases, a.Asked())
	}
}
