package amt

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jacobweinstock/iamt"
	"go.uber.org/goleak"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/outbound"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// element is any element.
type element struct {
	XMLName xml.Name
	Attrs   []xml.Attr `xml:",any,attr"`
	Text    string     `xml:",chardata"`
	Below   []element  `xml:",any"`
}

// find returns the first element of that name, in whatever depth.
func (e element) find(name string) element {
	for _, b := range e.Below {
		if b.XMLName.Local == name {
			return b
		}
		if found := b.find(name); found.XMLName.Local != "" {
			return found
		}
	}
	return element{}
}

// double is the AMT of one machine. The tests have it prove itself to the client of another project (TestAnotherClient).
type double struct {
	*drivertest.Web
	password     string
	nonce        string
	count        int
	challenges   int
	refused      int
	on           bool
	order, armed string // ChangeBootOrder's source, and the one of the next start
	booted       []string
	available    []string
	asked        []string // RequestPowerStateChange
	value        string   // the next return value
	// loseStart and dropStart: the answer to the next order to start is lost, after it was carried out or before.
	loseStart, dropStart bool
}

func newDouble(t *testing.T) *double {
	d := &double{password: "s3cret", available: []string{"2", "5", "8", "10", "11", "12"}}
	d.Web = drivertest.NewWeb(t, false, d.answer)
	return d
}

var authField = regexp.MustCompile(`([a-z]+)="?([^",]*)"?`)

// admitted checks a digest. A nonce that is not the present one is stale, whatever the password.
func (d *double) admitted(r *http.Request) bool {
	given := map[string]string{}
	for _, m := range authField.FindAllStringSubmatch(strings.TrimPrefix(r.Header.Get("Authorization"), "Digest "), -1) {
		given[m[1]] = m[2]
	}
	if given["nonce"] == "" || given["nonce"] != d.nonce {
		return false
	}
	count, _ := strconv.ParseInt(given["nc"], 16, 64)
	c := bmc.Challenge{Realm: "Digest:A4070000000000000000000000000000", Nonce: d.nonce, QOP: "auth"}
	right := c.Digest("admin", d.password, r.Method, r.URL.Path, given["cnonce"], int(count))
	want := map[string]string{}
	for _, m := range authField.FindAllStringSubmatch(strings.TrimPrefix(right, "Digest "), -1) {
		want[m[1]] = m[2]
	}
	if int(count) <= d.count || given["response"] != want["response"] || given["username"] != "admin" {
		d.refused++
		return false
	}
	d.count = int(count)
	return true
}

func (d *double) answer(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/wsman" || r.Method != http.MethodPost {
		http.NotFound(w, r)
		return
	}
	if !d.admitted(r) {
		d.challenges++
		d.nonce, d.count = fmt.Sprintf("nonce-%d", d.challenges), 0
		w.Header().Set("WWW-Authenticate", `Digest realm="Digest:A4070000000000000000000000000000", nonce="`+d.nonce+`",stale="false",qop="auth"`)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	var m element
	raw, _ := io.ReadAll(r.Body)
	if err := xml.Unmarshal(raw, &m); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	action, class := strings.TrimSpace(m.find("Action").Text), strings.TrimSpace(m.find("ResourceURI").Text)
	say := func(body string) {
		_, _ = fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?><a:Envelope xmlns:a="http://www.w3.org/2003/05/soap-envelope" xmlns:b="http://schemas.xmlsoap.org/ws/2004/08/addressing" `+
			`xmlns:c="http://schemas.dmtf.org/wbem/wsman/1/wsman.xsd" xmlns:g="%s" xmlns:n="http://schemas.xmlsoap.org/ws/2004/09/enumeration"><a:Header><b:To>`+anonymous+`</b:To><b:Action>%sResponse</b:Action>`+
			`<c:ResourceURI>%s</c:ResourceURI></a:Header><a:Body>%s</a:Body></a:Envelope>`, class, action, class, body)
	}
	short := class[strings.LastIndex(class, "/")+1:]
	switch verb := action[strings.LastIndex(action, "/")+1:]; {
	case verb == "Get" && class == powerStates:
		d.Read()
		say(d.states())
	case verb == "Get" && short == "AMT_BootSettingData":
		say(`<g:AMT_BootSettingData><g:BIOSPause>false</g:BIOSPause></g:AMT_BootSettingData>`)
	case verb == "Put" && short == "AMT_BootSettingData":
		d.Wrote()
		say(`<g:AMT_BootSettingData><g:BIOSPause>false</g:BIOSPause></g:AMT_BootSettingData>`)
	case verb == "Enumerate":
		d.Read()
		say(`<n:EnumerateResponse><c:Items>` + d.items(class) + `</c:Items><c:EndOfSequence/></n:EnumerateResponse>`)
	case class == powerService || class == bootConfig || class == bootService:
		start := verb == "RequestPowerStateChange"
		if start && d.dropStart {
			d.dropStart = false
			panic(http.ErrAbortHandler)
		}
		value := d.invoke(verb, m.find("Body"))
		d.Wrote()
		if start && d.loseStart {
			d.loseStart = false
			panic(http.ErrAbortHandler)
		}
		say(`<g:` + verb + `_OUTPUT><g:ReturnValue>` + value + `</g:ReturnValue></g:` + verb + `_OUTPUT>`)
	default:
		w.WriteHeader(http.StatusBadRequest)
		say(`<a:Fault><a:Code><a:Value>a:Sender</a:Value></a:Code><a:Reason><a:Text xml:lang="en-US">The action is not supported by the service.</a:Text></a:Reason><a:Detail></a:Detail></a:Fault>`)
	}
}

func (d *double) states() string {
	text := `<g:CIM_AssociatedPowerManagementService>`
	for _, a := range d.available {
		text += `<g:AvailableRequestedPowerStates>` + a + `</g:AvailableRequestedPowerStates>`
	}
	return text + `<g:PowerState>` + map[bool]string{true: "2", false: "8"}[d.on] + `</g:PowerState><g:RequestedPowerState>2</g:RequestedPowerState></g:CIM_AssociatedPowerManagementService>`
}

func (d *double) items(class string) string {
	epr := func(selector, value string) string {
		return `<b:EndpointReference><b:Address>` + anonymous + `</b:Address><b:ReferenceParameters><c:ResourceURI>` + class + `</c:ResourceURI><c:SelectorSet><c:Selector Name="` + selector + `">` + value +
			`</c:Selector></c:SelectorSet></b:ReferenceParameters></b:EndpointReference>`
	}
	switch class {
	case powerStates:
		return d.states()
	case computer:
		return epr("Name", "Intel(r) AMT") + epr("Name", "ManagedSystem")
	case bootConfig:
		return epr("InstanceID", bootConfig0)
	case bootSource:
		return epr("InstanceID", "Intel(r) AMT: Force Hard-drive Boot") + epr("InstanceID", sources[driver.BootPXE]) + epr("InstanceID", sources["cdrom"])
	}
	return ""
}

func (d *double) invoke(method string, body element) string {
	selected := strings.TrimSpace(body.find("Selector").Text)
	if v := d.value; v != "" {
		d.value = ""
		return v
	}
	switch method {
	case "ChangeBootOrder":
		d.order = selected
		if d.armed != "" {
			d.armed = selected
		}
	case "SetBootConfigRole":
		if selected != bootConfig0 || body.find("Role").Text != "1" {
			return "5"
		}
		d.armed = "armed"
		if d.order != "" {
			d.armed = d.order
		}
	case "RequestPowerStateChange":
		state := body.find("PowerState").Text
		if selected != "ManagedSystem" || !slices.Contains(d.available, state) {
			return "2"
		}
		d.asked = append(d.asked, state)
		d.on = state == "2" || state == "5" || state == "10"
		if d.on {
			d.booted = append(d.booted, d.armed)
			d.armed, d.order = "", ""
		}
	default:
		return "1"
	}
	return "0"
}

func (d *double) node(more map[string]any) *node.Document {
	host, port := d.HostPort()
	info := map[string]any{fieldAddress: host, fieldPort: port, fieldUser: "admin", fieldPassword: "s3cret"}
	for field, v := range more {
		info[field] = v
	}
	return &node.Document{UUID: "b3d1", Name: "web1", DriverInfo: info}
}

func newDriver(t *testing.T) *Driver {
	d := New(bmc.WebOptions{Networks: outbound.BMCs{netip.MustParsePrefix("127.0.0.0/8")}, Pace: 1000, Log: drivertest.Logger(t)})
	t.Cleanup(func() { _ = d.Close(context.WithoutCancel(t.Context())) })
	return d
}

func TestConformance(t *testing.T) {
	drivertest.Conformance(t, func(t *testing.T) *drivertest.Machine {
		c, d := newDouble(t), newDriver(t)
		c.Spoiler.Restart = func() { c.nonce = "forgotten" }
		m := c.Play(&drivertest.Machine{Power: d, Management: d, Node: c.node(nil), Deferred: true, Secret: "s3cret", Without: map[string]string{"Second": "an AMT is one machine", "Forget": "rackd keeps the boot device and tells it before each start", "Sessions": "each request has a digest of the password"}})
		m.Deny = func() { c.Set(func() { c.password, c.nonce = "an0ther", "forgotten" }) }
		m.Logins = func() (n int) { c.Set(func() { n = c.refused }); return n }
		m.Corrected = func() *node.Document { return c.node(map[string]any{fieldPassword: "an0ther"}) }
		return m
	})
}

// The client of bmclib, which is not ours, takes the double for an AMT.
func TestAnotherClient(t *testing.T) {
	c := newDouble(t)
	host, port := c.HostPort()
	number, _ := strconv.Atoi(port)
	client := iamt.NewClient(host, "admin", "s3cret", iamt.WithPort(uint32(number)))
	defer http.DefaultClient.CloseIdleConnections()
	if err := client.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, do := range []func(context.Context) error{client.SetPXE, client.PowerOn, client.PowerCycle, client.PowerOff} {
		if err := do(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if on, err := client.IsPoweredOn(t.Context()); err != nil || on {
		t.Errorf("it sees the machine on: %t, %v", on, err)
	}
	if got := strings.Join(c.asked, " "); got != "2 5 12" || !slices.Equal(c.booted, []string{"Intel(r) AMT: Force PXE Boot", ""}) {
		t.Errorf("it asked for %s, and the machine booted %q", got, c.booted)
	}
	if err := client.Close(t.Context()); err != nil {
		t.Error(err)
	}
	c.Server.CloseClientConnections() // its transport has no end of its own
}

// A device for one start is told once, one for all before each; another rackd knows it from the node's document.
func TestBootDevicesAreToldBeforeStarts(t *testing.T) {
	c, d := newDouble(t), newDriver(t)
	n, f := c.node(nil), &drivertest.Fence{}
	set := func(device driver.BootDevice, persistent bool) {
		if err := d.SetBootDevice(t.Context(), f, n, device, persistent); err != nil {
			t.Fatal(err)
		}
	}
	power := func(d *Driver, goal driver.PowerState) {
		if err := d.SetPower(t.Context(), f, n, goal); err != nil {
			t.Fatal(err)
		}
	}
	if d.Kept(n) != nil {
		t.Errorf("nothing was set, and it keeps %s", d.Kept(n))
	}
	set(driver.BootPXE, false)
	power(d, driver.PowerOn)
	power(d, driver.Rebooting)
	set("cdrom", true)
	n.Kept = d.Kept(n)
	if d.Kept(n) != nil {
		t.Error("it keeps what the document has")
	}
	other := newDriver(t)
	power(other, driver.PowerOff)
	power(other, driver.PowerOn)
	power(other, driver.Rebooting)
	set(driver.BootDisk, true)
	power(d, driver.Rebooting)
	pxe, cd := sources[driver.BootPXE], sources["cdrom"]
	if want := []string{pxe, "", cd, cd, ""}; !slices.Equal(c.booted, want) || strings.Join(c.asked, " ") != "2 10 8 2 10 10" {
		t.Errorf("booted %q, want %q; asked for %v", c.booted, want, c.asked)
	}
}

func TestRequestsThatAreNotTaken(t *testing.T) {
	c, d := newDouble(t), newDriver(t)
	f := &drivertest.Fence{}
	c.Set(func() { c.available, c.on = []string{"5", "8"}, true })
	if err := d.SetPower(t.Context(), f, c.node(nil), driver.SoftPowerOff); !errors.Is(err, driver.ErrUnsupported) || !strings.Contains(err.Error(), "takes the requests 5 8") {
		t.Errorf("%v", err)
	}
	if err := d.SetPower(t.Context(), f, c.node(nil), driver.Rebooting); err != nil || c.asked[0] != "5" {
		t.Errorf("%v, %v", err, c.asked)
	}
	c.Set(func() { c.value = "2" })
	if err := d.SetPower(t.Context(), f, c.node(nil), driver.PowerOff); err == nil || !strings.Contains(err.Error(), "return value 2") {
		t.Errorf("%v", err)
	}
}

func TestChallenges(t *testing.T) {
	c, err := bmc.ParseChallenge(`Digest realm="testrealm@host.com", qop="auth,auth-int", nonce="dcd98b7102dd2f0e8b11d0f600bfb0c093", opaque="5ccc069c403ebaf9f0171e9517f40e41"`)
	if err != nil {
		t.Fatal(err)
	}
	// The example of RFC 2617, section 3.5.
	if h := c.Digest("Mufasa", "Circle Of Life", "GET", "/dir/index.html", "0a4f113b", 1); !strings.Contains(h, `response="6629fae49393a05397450978507c4ef1"`) {
		t.Error(h)
	}
	for _, bad := range []string{"", "Basic realm=x", `Digest realm="x`, `Digest realm="x"`, `Digest nonce="x", algorithm=SHA-256`, "Digest nonce"} {
		if _, err := bmc.ParseChallenge(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func FuzzChallenge(f *testing.F) {
	f.Add(`Digest realm="Digest:A4", nonce="n",stale="false",qop="auth"`)
	f.Add(`Digest a=b,c="d`)
	f.Fuzz(func(t *testing.T, header string) {
		if c, err := bmc.ParseChallenge(header); err == nil && c.Nonce == "" {
			t.Error("a challenge without a nonce")
		}
	})
}

func TestValidate(t *testing.T) {
	c, d := newDouble(t), newDriver(t)
	for _, x := range []struct {
		more map[string]any
		says string // empty: it is fine
	}{
		{nil, ""},
		{map[string]any{fieldProtocol: "https", fieldPort: nil}, ""},
		{map[string]any{fieldUser: ""}, "AMT driver requires the following to be set in node's driver_info: ['amt_username']."},
		{map[string]any{fieldProtocol: "gopher"}, "Invalid protocol gopher."},
		{map[string]any{fieldPort: "many"}, `amt_port "many" is not a valid integer.`},
		{map[string]any{fieldAddress: "192.0.2.1"}, "--bmc-networks"},
		{map[string]any{fieldAddress: "127.0.0.1:16992"}, "amt_address is neither"},
	} {
		err := d.Validate(c.node(x.more))
		switch {
		case x.says == "" && err != nil:
			t.Errorf("%v: %v", x.more, err)
		case x.says != "" && (!errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), x.says) || strings.Contains(err.Error(), "s3cret") || strings.Count(err.Error(), "b3d1") != 1):
			t.Errorf("%v: %v; want an ErrInvalid that says %q", x.more, err, x.says)
		}
	}
}
