package ribcl

import (
	"encoding/pem"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/redfish"
	"github.com/ironyard/ironyard/rackd/outbound"
)

const (
	password = "s3cret&<pass"
	other    = "an0ther-pass"
)

// double is an iLO that speaks RIBCL only. Its answers have the form of recorded ones of iLO 3 1.70 and iLO 4 2.02.
type double struct {
	*httptest.Server
	mu         sync.Mutex
	password   string
	on         bool
	once       string
	order      []entry
	mode       string
	media      map[string]string
	health     string
	log        []string // its Integrated Management Log
	uid        string   // the light
	keepsLog   bool     // it accepts the order to clear its log, and does not
	license    bool     // virtual media need one
	writes     []string
	lose, deny bool
	refused    int
	hang       chan struct{}
	whileRead  func()
	recorded   map[string]string // whole answers to commands, by their names
	spoiler    drivertest.Spoiler
}

func newDouble(t *testing.T) *double {
	t.Helper()
	d := &double{password: password, once: "Normal", mode: "UEFI", media: map[string]string{}, license: true,
		order: []entry{{value: "CDROM"}, {value: "NETWORK"}, {value: "USB"}, {value: "FLOPPY"}, {value: "HDD"}}}
	d.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { d.spoiler.Serve(w, r, d.serve) }))
	drivertest.StartTLS(t, d.Server)
	t.Cleanup(func() {
		d.do(func() {
			if d.hang != nil {
				close(d.hang)
			}
		})
		d.Server.Close()
	})
	return d
}

func (d *double) do(do func()) { d.mu.Lock(); defer d.mu.Unlock(); do() }

// document is one document of an answer.
func document(status int, message, body string) string {
	return fmt.Sprintf("<?xml version=\"1.0\"?>\r\n<RIBCL VERSION=\"2.23\">\r\n<RESPONSE\r\n    STATUS=\"0x%04X\"\r\n    MESSAGE='%s'\r\n     />\r\n%s</RIBCL>\r\n", status, message, body)
}

// answer is a good answer with a body in it.
func answer(body string) string {
	good := document(0, "No error", "")
	return good + good + document(0, "No error", body) + good
}

func refusal(status int, message string) string {
	return document(0, "No error", "") + document(status, message, "") + document(0, "No error", "")
}

var command = regexp.MustCompile(`(?s)<(SERVER_INFO|RIB_INFO) MODE="(read|write)">\s*<([A-Z_]+)([^>]*?)(/>|>(.*?)</)`)

func attribute(text, name string) string {
	m := regexp.MustCompile(`(?i)\b` + name + `="([^"]*)"`).FindStringSubmatch(text)
	if m == nil {
		return ""
	}
	var plain struct {
		V string `xml:"v,attr"`
	}
	_ = xml.Unmarshal([]byte(`<a v="`+m[1]+`"/>`), &plain)
	return plain.V
}

func (d *double) serve(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	text := string(raw)
	if r.URL.Path == "/xmldata" {
		fmt.Fprint(w, `<?xml version="1.0"?><RIMP><HSI><SBSN>2M220102JA      </SBSN><SPN>ProLiant ML110 G7</SPN><UUID>6567662M220102JA</UUID><SP>1</SP>`+
			`<cUUID>37363536-3636-4D32-3232-303130324A41</cUUID></HSI><MP><ST>1</ST><PN>Integrated Lights-Out 3 (iLO 3)</PN><FWRI>1.70</FWRI></MP></RIMP>`)
		return
	}
	if r.URL.Path != "/ribcl" {
		http.NotFound(w, r)
		return
	}
	m := command.FindStringSubmatch(text)
	if m == nil {
		say(w, refusal(1, "Syntax error: Line #0: no command"))
		return
	}
	write := m[2] == "write"
	d.mu.Lock()
	hang, lose := d.hang, d.lose && write
	var do func()
	if !write {
		do, d.whileRead = d.whileRead, nil
	}
	if lose {
		d.lose = false
	}
	d.mu.Unlock()
	if do != nil {
		do()
	}
	if hang != nil {
		select {
		case <-hang:
		case <-r.Context().Done():
		}
		panic(http.ErrAbortHandler)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if attribute(text, "USER_LOGIN") != "admin" || attribute(text, "PASSWORD") != d.password {
		if d.deny && attribute(text, "PASSWORD") == password {
			d.refused++
		}
		say(w, document(0, "No error", "")+document(0x5f, "Login failed.", ""))
		return
	}
	said := d.run(m[3], m[4], text, write)
	if lose {
		panic(http.ErrAbortHandler)
	}
	say(w, said)
}

// say answers in chunks, as an iLO does: python-hpilo takes nothing else.
func say(w http.ResponseWriter, text string) {
	fmt.Fprint(w, text)
	if f, ok := w.(http.Flusher); ok {
		f.Flush()
	}
}

// run carries out a command.
func (d *double) run(name, attributes, text string, write bool) string {
	if write {
		d.writes = append(d.writes, strings.TrimSpace(name+" "+strings.TrimSpace(attributes)))
	}
	if said, is := d.recorded[name]; is {
		return said
	}
	power := func() string {
		if d.on {
			return "ON"
		}
		return "OFF"
	}
	device := attribute(attributes, "DEVICE")
	switch name {
	case "GET_HOST_POWER_STATUS":
		return answer(`<GET_HOST_POWER HOST_POWER="` + power() + `"/>`)
	case "SET_HOST_POWER":
		d.on = attribute(attributes, "HOST_POWER") == "Yes"
	case "HOLD_PWR_BTN":
		d.on = false
	case "PRESS_PWR_BTN":
		d.on = !d.on
	case "RESET_SERVER":
		return document(0, "No error", "") + document(0, "Server being reset.", "")
	case "GET_ONE_TIME_BOOT":
		return answer(`<ONE_TIME_BOOT><BOOT_TYPE VALUE="` + d.once + `"/></ONE_TIME_BOOT>`)
	case "SET_ONE_TIME_BOOT":
		if d.once = attribute(attributes, "value"); d.once == "NORMAL" {
			d.once = "Normal"
		}
	case "GET_PERSISTENT_BOOT":
		body := ""
		for _, e := range d.order {
			body += `<DEVICE value="` + e.value + `"`
			if e.description != "" {
				body += ` DESCRIPTION="` + e.description + `"`
			}
			body += "/>"
		}
		return answer("<PERSISTENT_BOOT>" + body + "</PERSISTENT_BOOT>")
	case "SET_PERSISTENT_BOOT":
		var order []entry
		for _, m := range regexp.MustCompile(`(?i)<DEVICE\s+value="([^"]*)"`).FindAllStringSubmatch(text, -1) {
			for _, e := range d.order {
				if e.value == m[1] {
					order = append(order, e)
				}
			}
		}
		for _, e := range d.order { // an iLO keeps those that are not named behind
			named := false
			for _, o := range order {
				named = named || o == e
			}
			if !named {
				order = append(order, e)
			}
		}
		d.order = order
	case "GET_PENDING_BOOT_MODE", "GET_CURRENT_BOOT_MODE":
		if d.mode == "" {
			return refusal(0x3c, "Feature not supported - "+name)
		}
		return answer("<" + name + `><BOOT_MODE VALUE="` + d.mode + `"/></` + name + ">")
	case "SET_PENDING_BOOT_MODE":
		d.mode = attribute(attributes, "value")
	case "GET_VM_STATUS":
		in := "NO"
		if d.media[device] != "" {
			in = "YES"
		}
		return answer(`<GET_VM_STATUS VM_APPLET="DISCONNECTED" DEVICE="` + device + `" BOOT_OPTION="BOOT_ALWAYS" WRITE_PROTECT="YES" IMAGE_INSERTED="` + in + `" IMAGE_URL="` + escape(d.media[device]) + `"/>`)
	case "INSERT_VIRTUAL_MEDIA":
		if !d.license {
			return refusal(0x48, "This feature requires an installed license key")
		}
		d.media[device] = attribute(attributes, "IMAGE_URL")
	case "EJECT_VIRTUAL_MEDIA":
		delete(d.media, device)
	case "SET_VM_STATUS":
	case "GET_EMBEDDED_HEALTH":
		return answer(d.health)
	case "GET_EVENT_LOG":
		return answer(`<EVENT_LOG DESCRIPTION="Integrated Management Log">` + strings.Join(d.log, "") + `</EVENT_LOG>`)
	case "CLEAR_IML":
		if !d.keepsLog {
			d.log = []string{event("Informational", "Maintenance", "01/01/2026 12:00", "01/01/2026 12:00", 1, "IML Cleared (iLO 3 user:admin)")}
		}
	case "GET_UID_STATUS":
		return answer(`<GET_UID_STATUS UID="` + d.uid + `"/>`)
	case "UID_CONTROL":
		if d.uid != "STUCK" {
			d.uid = map[string]string{"Yes": "ON", "No": "OFF"}[attribute(attributes, "UID")]
		}
	case "GET_PRODUCT_NAME":
		return answer(`<GET_PRODUCT_NAME><PRODUCT_NAME VALUE ="ProLiant ML110 G7"/></GET_PRODUCT_NAME>`)
	default:
		return refusal(1, "Syntax error: Line #5: syntax error near "+name)
	}
	return answer("")
}

// event is an entry of the Integrated Management Log, in the form of an iLO 3 1.82 (python-hpilo).
func event(severity, class, updated, initial string, count int, text string) string {
	return fmt.Sprintf("\n <EVENT\n  SEVERITY=\"%s\"\n  CLASS=\"%s\"\n  LAST_UPDATE=\"%s\"\n  INITIAL_UPDATE=\"%s\"\n  COUNT=\"%d\"\n  DESCRIPTION=\"%s\"\n />",
		severity, class, updated, initial, count, text)
}

// dialect is fields like those of rackd/driver/ilo.
var dialect = redfish.Dialect{Driver: "ilo", Names: redfish.Values{Address: "ilo_address", User: "ilo_username", Password: "ilo_password", VerifyCA: "ilo_verify_ca", Identity: "ilo_identity"},
	Properties: map[string]string{"ilo_address": "where", "ilo_username": "who", "ilo_password": "its password"}}

func init() {
	dialect.Read = func(n *node.Document) (redfish.Values, time.Duration, error) {
		v := redfish.Values{Address: n.DriverString("ilo_address"), User: n.DriverString("ilo_username"), Password: n.DriverString("ilo_password"), VerifyCA: n.DriverString("ilo_verify_ca")}
		if v.Address == "" {
			return v, 0, errMissing
		}
		return v, 0, nil
	}
}

func (d *double) info(password string) map[string]any {
	return map[string]any{"ilo_address": d.URL, "ilo_username": "admin", "ilo_password": password,
		"ilo_verify_ca": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: d.Certificate().Raw}))}
}

func (d *double) node(password string) *node.Document {
	return &node.Document{UUID: "6e6f6465", Name: "web1", DriverInfo: d.info(password)}
}

func newDriver(t *testing.T) *Driver {
	t.Helper()
	d := New(Options{Dialect: dialect, Networks: outbound.BMCs{netip.MustParsePrefix("127.0.0.0/8")}, Pace: 1000, Log: drivertest.Logger(t)})
	t.Cleanup(func() { _ = d.Close(t.Context()) })
	return d
}

func (d *double) machine(t *testing.T) *drivertest.Machine {
	r := newDriver(t)
	return &drivertest.Machine{
		Power: r, Management: r, Node: d.node(password), Secret: password,
		Port: func() string { u, _ := url.Parse(d.URL); return u.Port() }, Without: map[string]string{"Second": "an iLO is one machine", "Sessions": "each request has the password"},
		Writes:    func() (n int) { d.do(func() { n = len(d.writes) }); return n },
		Lose:      func() { d.do(func() { d.lose = true }) },
		Silence:   d.Server.Close,
		Spoil:     d.spoiler.Spoil,
		Asked:     d.spoiler.Asked,
		Restart:   d.CloseClientConnections,
		Hang:      func() { d.do(func() { d.hang = make(chan struct{}) }) },
		WhileRead: func(do func()) { d.do(func() { d.whileRead = do }) },
		Deny:      func() { d.do(func() { d.deny, d.password = true, other }) },
		Logins:    func() (n int) { d.do(func() { n = d.refused }); return n },
		Forget: func() {
			d.do(func() {
				d.order = []entry{{value: "HDD"}, {value: "CDROM"}, {value: "NETWORK"}, {value: "USB"}, {value: "FLOPPY"}}
			})
		},
		Corrected: func() *node.Document { return d.node(other) },
	}
}
