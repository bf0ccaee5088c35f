package vbmc

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stmcginnis/gofish"
	"github.com/stmcginnis/gofish/redfish"
)

// no is a refusal of a Computer.
type no string

func (n no) Error() string      { return string(n) }
func (no) Is(target error) bool { return target == errors.ErrUnsupported }

// equipped is a computer with every ability. What is set for the next start it has at once
// in next.
type equipped struct {
	fake
	uri          string
	secure       SecureBoot
	resets       []KeyReset
	certificates map[string][][]byte
	iscsi        ISCSIBoot
	next         *ISCSIBoot
	problem      string
	image        string
	unreadable   error // what InsertMedium finds
	found        error // what the last start found
	lacks        error // why it has no ability at all
	options      []BootOption
	ordered      int
	progress     Progress
}

func (e *equipped) Progress() (Progress, error) { return e.progress, e.lacks }

func (e *equipped) BootOptions() ([]BootOption, int, error) { return e.options, e.ordered, e.lacks }
func (e *equipped) OrderBoot(names []string) error {
	var order []BootOption
	for _, name := range names {
		i := slices.IndexFunc(e.options, func(o BootOption) bool { return o.Name == name })
		if i < 0 {
			return no("there is no " + name)
		}
		order = append(order, e.options[i])
	}
	if len(order) < e.ordered {
		return no("an option is missing")
	}
	e.options, e.ordered = order, len(order)
	return nil
}

func (e *equipped) HTTPBootURI() (string, error) { return e.uri, e.lacks }
func (e *equipped) SetHTTPBootURI(uri string) error {
	if strings.HasPrefix(uri, "https:") {
		return no("it trusts nobody")
	}
	e.uri = uri
	return nil
}

func (e *equipped) SecureBoot() (SecureBoot, error) { return e.secure, e.lacks }
func (e *equipped) SetSecureBoot(on bool) error {
	if on && !e.secure.PlatformKey {
		return no("there is no platform key")
	}
	e.secure.Next = on
	return nil
}
func (e *equipped) ResetKeys(r KeyReset) error {
	e.resets = append(e.resets, r)
	e.secure.PlatformKey = r == DefaultKeys
	return nil
}
func (e *equipped) Certificates(database string) ([][]byte, error) {
	return e.certificates[database], nil
}
func (e *equipped) AddCertificate(database string, der []byte) error {
	if e.certificates == nil {
		e.certificates = map[string][][]byte{}
	}
	e.certificates[database] = append(e.certificates[database], der)
	return nil
}

func (e *equipped) ISCSIBoot() (ISCSIBoot, *ISCSIBoot, string, error) {
	return e.iscsi, e.next, e.problem, e.lacks
}
func (e *equipped) SetISCSIBoot(b ISCSIBoot) error {
	if b.CHAP != nil && len(b.CHAP.Secret) < 12 {
		return no("the secret is too short")
	}
	e.next = &b
	return nil
}

func (e *equipped) Medium() (string, error) { return e.image, e.found }
func (e *equipped) InsertMedium(_ context.Context, image string) error {
	if strings.HasPrefix(image, "ftp:") {
		return no("it reads HTTP")
	}
	if e.unreadable == nil {
		e.image = image
	}
	return e.unreadable
}
func (e *equipped) EjectMedium(context.Context) error { e.image = ""; return nil }

// withAStick is a computer whose BMC has a second drive.
type withAStick struct {
	equipped
	stick string
	none  error
}

func (s *withAStick) Stick() (string, error, error) { return s.stick, nil, s.none }
func (s *withAStick) InsertStick(_ context.Context, image string) error {
	if strings.HasPrefix(image, "ftp:") {
		return no("it reads HTTP")
	}
	s.stick = image
	return nil
}
func (s *withAStick) EjectStick(context.Context) error { s.stick = ""; return nil }

func serveEquipped(t *testing.T) (*BMC, *equipped, string) {
	t.Helper()
	computer := &equipped{}
	b, err := New(Config{Username: "admin", Password: "secret-word", UEFI: true, Name: "uefi-0", MAC: "52:54:00:00:00:01"}, computer)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- b.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return b, computer, l.Addr().String()
}

// connectEquipped is serveEquipped with a foreign client.
func connectEquipped(t *testing.T) (*BMC, *equipped, *gofish.APIClient, *redfish.ComputerSystem) {
	t.Helper()
	b, computer, address := serveEquipped(t)
	c, err := gofish.Connect(gofish.ClientConfig{Endpoint: "https://" + address, Username: "admin", Password: "secret-word", Insecure: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Logout)
	systems, err := c.Service.Systems()
	if err != nil || len(systems) != 1 {
		t.Fatalf("%d systems, %v", len(systems), err)
	}
	return b, computer, c, systems[0]
}

// body is a resource as it is on the wire.
func body(t *testing.T, b *BMC, path string) map[string]any {
	t.Helper()
	w := ask(b, "GET", path, "")
	if w.Code != http.StatusOK {
		t.Fatalf("GET %s: %d %s", path, w.Code, w.Body)
	}
	var o map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &o); err != nil {
		t.Fatal(err)
	}
	return o
}

// refuses sends what has to be refused, and looks for each text of says in the answer.
func refuses(t *testing.T, b *BMC, method, path, sent string, status int, says ...string) {
	t.Helper()
	w := ask(b, method, path, sent)
	if w.Code != status {
		t.Errorf("%s %s %s: %d, want %d: %s", method, path, sent, w.Code, status, w.Body)
	}
	for _, text := range says {
		if !strings.Contains(w.Body.String(), text) {
			t.Errorf("%s %s %s: no %q in %s", method, path, sent, text, w.Body)
		}
	}
}

func TestHTTPBoot(t *testing.T) {
	b, computer, _, s := connectEquipped(t)
	const uri = "http://10.0.0.1/boot.efi?who=me"
	if err := s.SetBoot(redfish.Boot{BootSourceOverrideTarget: redfish.UefiHTTPBootSourceOverrideTarget, BootSourceOverrideEnabled: "Once", HTTPBootURI: uri}); err != nil {
		t.Fatal(err)
	}
	if device, once := computer.BootOverride(); device != HTTP || !once || computer.uri != uri {
		t.Errorf("override %q, once %t, URI %q", device, once, computer.uri)
	}
	boot := body(t, b, systemPath)["Boot"].(map[string]any)
	if boot["BootSourceOverrideTarget"] != "UefiHttp" || boot["HttpBootUri"] != uri {
		t.Errorf("shown: %v", boot)
	}
	refuses(t, b, "PATCH", systemPath, `{"Boot":{"HttpBootUri":"https://x"}}`, 400, "HttpBootUri", "it trusts nobody")
	refuses(t, b, "PATCH", systemPath, `{"Boot":{"HttpBootUri":7}}`, 400, "Boot/HttpBootUri")
	if w := ask(b, "PATCH", systemPath, `{"Boot":{"HttpBootUri":null}}`); w.Code != 200 || computer.uri != "" {
		t.Errorf("emptying the URI: %d %s, URI %q", w.Code, w.Body, computer.uri)
	}
	if device, once := computer.BootOverride(); device != HTTP || !once {
		t.Errorf("the URI alone changed the override to %q, once %t", device, once)
	}
}

func TestBootOptions(t *testing.T) {
	b, computer, c, _ := connectEquipped(t)
	computer.options = []BootOption{{"Boot0000", "Disk", "PciRoot(0x0)/Pci(0x2,0x0)", true}, {"Boot0003", "Remote", "iSCSI(a)", true}}
	computer.ordered = 2
	s, err := redfish.GetComputerSystem(c, systemPath)
	if err != nil {
		t.Fatal(err)
	}
	options, err := s.BootOptions()
	slices.SortFunc(options, func(x, y *redfish.BootOption) int { return strings.Compare(x.ID, y.ID) })
	if err != nil || len(options) != 2 || options[1].DisplayName != "Remote" || options[1].UefiDevicePath != "iSCSI(a)" || !slices.Equal(s.Boot.BootOrder, []string{"Boot0000", "Boot0003"}) {
		t.Fatalf("options %+v, order %q, %v", options, s.Boot.BootOrder, err)
	}
	if err := s.SetBoot(redfish.Boot{BootOrder: []string{"Boot0003", "Boot0000"}}); err != nil || computer.options[0].Name != "Boot0003" {
		t.Errorf("reordered: %v, %v", computer.options, err)
	}
	refuses(t, b, "PATCH", systemPath, `{"Boot":{"BootOrder":["Boot0003"]}}`, 400, "Boot/BootOrder", "missing")
	refuses(t, b, "PATCH", systemPath, `{"Boot":{"BootOrder":["Boot0009","Boot0000","Boot0003"]}}`, 400, "Boot/BootOrder", "Boot0009")
	refuses(t, b, "PATCH", systemPath, `{"Boot":{"BootOrder":"Boot0003"}}`, 400, "Boot/BootOrder")
	refuses(t, b, "PATCH", systemPath, `{"Boot":{"BootOptions":[]}}`, 400, "Boot/BootOptions is a read-only")
	refuses(t, b, "GET", optionsPath+"/Boot0009", "", 404)
}

// What a computer cannot do is not there: neither resources nor words.
func TestWithoutAbilities(t *testing.T) {
	plain, _, _ := serve(t)
	able, computer, _, _ := connectEquipped(t)
	computer.lacks = no("the firmware is not UEFI")
	for _, b := range []*BMC{plain, able} {
		for _, path := range []string{optionsPath, optionsPath + "/Boot0000", secureBootPath, databasesPath, databasesPath + "/db", adaptersPath, functionPath, settingsPath} {
			refuses(t, b, "GET", path, "", 404)
		}
		for _, path := range []string{systemPath, chassisPath} {
			text := ask(b, "GET", path, "").Body.String()
			for _, word := range []string{"UefiHttp", "HttpBootUri", "BootOrder", "BootOptions", "SecureBoot", "NetworkAdapters", "BootProgress"} {
				if strings.Contains(text, word) {
					t.Errorf("%s shows %s: %s", path, word, text)
				}
			}
		}
		refuses(t, b, "PATCH", systemPath, `{"Boot":{"BootSourceOverrideTarget":"UefiHttp","BootSourceOverrideEnabled":"Once"}}`, 400, "UefiHttp", "BootSourceOverrideTarget")
		refuses(t, b, "PATCH", systemPath, `{"Boot":{"HttpBootUri":"http://x"}}`, 400, "HttpBootUri")
		if b == able {
			refuses(t, b, "PATCH", systemPath, `{"Boot":{"HttpBootUri":"http://x"}}`, 400, computer.lacks.Error())
			refuses(t, b, "PATCH", systemPath, `{"Boot":{"BootSourceOverrideTarget":"UefiHttp"}}`, 400, computer.lacks.Error())
		}
		refuses(t, b, "PATCH", secureBootPath, `{"SecureBootEnable":true}`, 404)
		refuses(t, b, "PATCH", settingsPath, `{"iSCSIBoot":{}}`, 404)
	}
}

// What is patched is taken or refused by its name, as a whole.
func TestPatchesNameWhatTheyRefuse(t *testing.T) {
	b, computer, _, _ := connectEquipped(t)
	for _, c := range []struct{ sent, says string }{
		{`{"AssetTag":"x"}`, "AssetTag"},
		{`{"SerialNumber":"x"}`, "SerialNumber is a read-only"},
		{`{"Boot":{"BootSourceOverrideTarget":"Pxe","BootSourceOverrideEnabled":"Once"},"HostName":"x"}`, "HostName is a read-only"},
		{`{"Boot":{"BootSourceOverrideTarget":"Pxe","BootSourceOverrideEnabled":"Once","StopBootOnFault":"Never"}}`, "Boot/StopBootOnFault"},
		{`{"Boot":{"BootSourceOverrideTarget":5}}`, "Boot/BootSourceOverrideTarget"},
		{`{"Boot":{"BootSourceOverrideTarget":"Pxe"}}`, "BootSourceOverrideEnabled"},
		{`{"Boot":5}`, "Boot"},
		{`{}`, "no property"},
		{`null`, "no property"},
	} {
		refuses(t, b, "PATCH", systemPath, c.sent, 400, c.says)
	}
	if device, _ := computer.BootOverride(); device != "" {
		t.Errorf("a refused PATCH set %q", device)
	}
	refuses(t, b, "POST", systemPath+"/Actions/ComputerSystem.Reset", `{"ResetType":"On","Delay":5}`, 400, "Delay")
	refuses(t, b, "POST", systemPath+"/Actions/ComputerSystem.Reset", `{}`, 400, "ResetType")
	refuses(t, b, "POST", systemPath+"/Actions/ComputerSystem.Reset", ``, 400, "ResetType")
	if len(computer.calls) != 0 {
		t.Errorf("refused actions reached the computer: %v", computer.calls)
	}
}

func TestSecureBoot(t *testing.T) {
	b, computer, _, s := connectEquipped(t)
	state, err := s.SecureBoot()
	if err != nil || state == nil || state.SecureBootEnable || state.SecureBootMode != "SetupMode" || state.SecureBootCurrentBoot != "Disabled" {
		t.Fatalf("secure boot %+v, %v", state, err)
	}
	refuses(t, b, "PATCH", secureBootPath, `{"SecureBootEnable":true}`, 400, "SecureBootEnable", "there is no platform key")
	refuses(t, b, "PATCH", secureBootPath, `{"SecureBootMode":"UserMode"}`, 400, "SecureBootMode is a read-only")
	refuses(t, b, "PATCH", secureBootPath, `{"SecureBootEnable":"yes"}`, 400, "SecureBootEnable")
	for _, kind := range []redfish.ResetKeysType{redfish.DeletePKResetKeysType, redfish.DeleteAllKeysResetKeysType, redfish.ResetAllKeysToDefaultResetKeysType} {
		if err := state.ResetKeys(kind); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
	if !slices.Equal(computer.resets, []KeyReset{NoPlatformKey, NoKeys, DefaultKeys}) {
		t.Errorf("resets %q", computer.resets)
	}
	refuses(t, b, "POST", secureBootPath+"/Actions/SecureBoot.ResetKeys", `{"ResetKeysType":"DeleteSome"}`, 400, "DeleteSome", "DeletePK")
	refuses(t, b, "POST", secureBootPath+"/Actions/SecureBoot.ResetKeys", `{}`, 400, "ResetKeysType")
	state, err = s.SecureBoot()
	if err != nil || state.SecureBootMode != "UserMode" {
		t.Fatalf("after the keys: %+v, %v", state, err)
	}
	state.SecureBootEnable = true
	if err := state.Update(); err != nil || !computer.secure.Next {
		t.Errorf("switched on: %t, %v", computer.secure.Next, err)
	}
	computer.secure.Now, computer.secure.Problem = true, "the store is full"
	if got := body(t, b, secureBootPath); got["SecureBootCurrentBoot"] != "Disabled" || got["SecureBootEnable"] != true || got["SecureBootEnable@Message.ExtendedInfo"] == nil {
		t.Errorf("a machine that is off, whose start had a problem: %v", got)
	}
	computer.on = true
	if got := body(t, b, secureBootPath); got["SecureBootCurrentBoot"] != "Enabled" {
		t.Errorf("a machine that is on: %v", got)
	}
}

func TestSecureBootDatabases(t *testing.T) {
	b, computer, c, _ := connectEquipped(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(77)}
	template.Subject.CommonName = "fleet"
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]string{"CertificateType": "PEM", "CertificateString": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))})
	if err != nil {
		t.Fatal(err)
	}
	w := ask(b, "POST", databasesPath+"/db/Certificates", string(text))
	if w.Code != http.StatusCreated || w.Header().Get("Location") != databasesPath+"/db/Certificates/1" || len(computer.certificates["db"]) != 1 {
		t.Fatalf("adding a certificate: %d %s", w.Code, w.Body)
	}
	database, err := redfish.GetSecureBootDatabase(c, databasesPath+"/db")
	if err != nil || database.DatabaseID != "" && database.DatabaseID != "db" {
		t.Fatalf("database %+v, %v", database, err)
	}
	certificates, err := database.Certificates()
	if err != nil || len(certificates) != 1 || certificates[0].Subject.CommonName != "fleet" {
		t.Errorf("certificates %v, %v", certificates, err)
	}
	refuses(t, b, "POST", databasesPath+"/db/Certificates", `{"CertificateType":"PKCS7","CertificateString":"x"}`, 400, "CertificateType")
	refuses(t, b, "POST", databasesPath+"/db/Certificates", `{"CertificateType":"PEM","CertificateString":"x"}`, 400, "CertificateString")
	refuses(t, b, "POST", databasesPath+"/db/Certificates", `{"CertificateType":"PEM"}`, 400, "CertificateString")
	for _, path := range []string{databasesPath + "/dbr", databasesPath + "/db/Certificates/2", databasesPath + "/db/Certificates/x"} {
		refuses(t, b, "GET", path, "", 404)
	}
}

// function is the network card as a foreign client sees it.
func function(t *testing.T, c *gofish.APIClient) *redfish.NetworkDeviceFunction {
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
	pending, err := redfish.GetNetworkDeviceFunction(c, settings)
	if i := pending.ISCSIBoot; err != nil || i.PrimaryTargetName != "iqn.2026-11.org.example:t" || i.PrimaryTargetTCPPort != 3260 || i.PrimaryLUN != 1 ||
		i.SecondaryTargetTCPPort != 3261 || i.InitiatorNetmask != "255.255.255.0" || i.AuthenticationMethod != "MutualCHAP" || i.CHAPUsername != "me" {
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

func TestMediaDrive(t *testing.T) {
	b, computer, c, _ := connectEquipped(t)
	drive, err := redfish.GetVirtualMedia(c, cdPath)
	if err != nil || drive.Inserted || !drive.SupportsMediaInsert {
		t.Fatalf("drive %+v, %v", drive, err)
	}
	const image = "http://10.0.0.1/a.iso?token=1"
	computer.unreadable = errors.New("the server answers 404")
	if err := drive.InsertMedia(image, true, true); err == nil || !strings.Contains(err.Error(), "404") || computer.image != "" {
		t.Errorf("an image that cannot be read: %v", err)
	}
	computer.unreadable = nil
	if err := drive.InsertMediaConfig(redfish.VirtualMediaConfig{Image: image, Inserted: true, WriteProtected: true, TransferMethod: redfish.StreamTransferMethod,
		TransferProtocolType: redfish.HTTPTransferProtocolType, MediaType: redfish.CDMediaType}); err != nil {
		t.Fatal(err)
	}
	drive, err = redfish.GetVirtualMedia(c, cdPath)
	if err != nil || !drive.Inserted || drive.Image != image || drive.ConnectedVia != redfish.URIConnectedVia || b.Inserted() != image {
		t.Errorf("drive %+v, %v", drive, err)
	}
	refuses(t, b, "POST", cdPath+"/Actions/VirtualMedia.InsertMedia", `{"Image":"http://x/b.iso"}`, 409, "eject it first")
	computer.found = errors.New("the image cannot be read")
	if got := body(t, b, cdPath); got["ConnectedVia"] != "NotConnected" || got["Inserted"] != true || !strings.Contains(ask(b, "GET", cdPath, "").Body.String(), computer.found.Error()) {
		t.Errorf("a medium that the start did not find: %v", got)
	}
	computer.found = nil
	if err := drive.EjectMedia(); err != nil || computer.image != "" {
		t.Errorf("eject: %v, image %q", err, computer.image)
	}
}

// A drive takes or refuses each parameter by its name, with a computer behind it or not.
func TestInsertMediaRefusals(t *testing.T) {
	plain, _, _ := serve(t)
	full, computer, _, _ := connectEquipped(t)
	for _, b := range []*BMC{plain, full} {
		for _, c := range []struct{ sent, says string }{
			{`{}`, "Image"},
			{`{"Image":""}`, "Image"},
			{`{"Image":":"}`, "Image"},
			{`{"Image":"http://x/a","Inserted":false}`, "Inserted"},
			{`{"Image":"http://x/a","WriteProtected":false}`, "WriteProtected"},
			{`{"Image":"http://x/a","MediaType":"USBStick"}`, "MediaType"},
			{`{"Image":"http://x/a","TransferMethod":"Upload"}`, "TransferMethod"},
			{`{"Image":"http://x/a","TransferProtocolType":"NFS"}`, "TransferProtocolType"},
			{`{"Image":"http://x/a","UserName":"u","Password":"hidden"}`, "Password"},
		} {
			refuses(t, b, "POST", cdPath+"/Actions/VirtualMedia.InsertMedia", c.sent, 400, c.says)
		}
		refuses(t, b, "POST", cdPath+"/Actions/VirtualMedia.EjectMedia", `{"Force":true}`, 400, "Force")
		if b.Inserted() != "" {
			t.Errorf("a refused insert left %q", b.Inserted())
		}
		for _, w := range b.Journal.Writes() {
			if strings.Contains(w.Body, "hidden") {
				t.Errorf("the journal holds a password: %s", w.Body)
			}
		}
	}
	refuses(t, full, "POST", cdPath+"/Actions/VirtualMedia.InsertMedia", `{"Image":"ftp://x/a"}`, 400, "it reads HTTP")
	if computer.image != "" {
		t.Error(computer.image)
	}
	if w := ask(plain, "POST", cdPath+"/Actions/VirtualMedia.EjectMedia", ""); w.Code != 204 {
		t.Errorf("eject without a body: %d %s", w.Code, w.Body)
	}
}

// A BMC with a second drive lists it as a USB stick, and takes and gives its image back apart from that of the CD. One without has none.
func TestStickDrive(t *testing.T) {
	computer := &withAStick{}
	b, err := New(Config{Username: "admin", Password: "secret-word", UEFI: true, Name: "uefi-0", MAC: "52:54:00:00:00:01"}, computer)
	if err != nil {
		t.Fatal(err)
	}
	insert, eject := stickPath+"/Actions/VirtualMedia.InsertMedia", stickPath+"/Actions/VirtualMedia.EjectMedia"
	if got := body(t, b, mediaPath); len(got["Members"].([]any)) != 2 {
		t.Errorf("drives: %v", got["Members"])
	}
	refuses(t, b, "POST", insert, `{"Image":"http://x/a","MediaType":"CD"}`, 400, "MediaType")
	refuses(t, b, "POST", insert, `{"Image":"ftp://x/a"}`, 400, "it reads HTTP")
	if w := ask(b, "POST", insert, `{"Image":"http://x/c.img","MediaType":"USBStick"}`); w.Code != 204 || b.InsertedStick() != "http://x/c.img" || b.Inserted() != "" {
		t.Fatalf("insert: %d %s; stick %q, CD %q", w.Code, w.Body, b.InsertedStick(), b.Inserted())
	}
	if got := body(t, b, stickPath); got["Inserted"] != true || got["Image"] != "http://x/c.img" || fmt.Sprint(got["MediaTypes"]) != "[USBStick]" {
		t.Errorf("the stick: %v", got)
	}
	refuses(t, b, "POST", insert, `{"Image":"http://x/b.img"}`, 409, "eject it first")
	if w := ask(b, "POST", eject, ""); w.Code != 204 || computer.stick != "" {
		t.Errorf("eject: %d %s, %q", w.Code, w.Body, computer.stick)
	}
	computer.none = no("the machine has no USB stick")
	if got := body(t, b, mediaPath); len(got["Members"].([]any)) != 1 || ask(b, "GET", stickPath, "").Code != 404 || ask(b, "POST", insert, `{"Image":"http://x/a"}`).Code != 404 {
		t.Errorf("without a second drive: %v", got["Members"])
	}
}

// A client reads how far the start has come.
func TestBootProgress(t *testing.T) {
	_, computer, c, s := connectEquipped(t)
	for _, far := range []Progress{NoProgress, InFirmware, PastFirmware} {
		computer.progress = far
		now, err := redfish.GetComputerSystem(c, s.ODataID)
		if err != nil || string(now.BootProgress.LastState) != string(far) {
			t.Errorf("shown as %+v, %v, want %q", now, err, far)
		}
	}
}
