package irmc

import (
	"context"
	"crypto/md5"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/redfish"
	"github.com/ironyard/ironyard/rackd/driver/redfish/redfishtest"
)

func init() { anyPort = true }

// lan is what IPMI tells of a double.
type lan struct{ of *double }

func (lan) Properties() map[string]string { return nil }
func (lan) Validate(*node.Document) error { return nil }
func (lan) PowerTargets() []driver.PowerState {
	return []driver.PowerState{driver.PowerOn, driver.PowerOff}
}
func (l lan) PowerState(ctx context.Context, n *node.Document) (s driver.PowerState, err error) {
	if ctx.Err() != nil {
		return "", fmt.Errorf("node %s: %w: %w", n.Label(), ctx.Err(), driver.ErrUnreachable)
	}
	if n.DriverString("ipmi_address") == "" || n.DriverString("ipmi_password") != redfishtest.Password {
		return "", fmt.Errorf("node %s: IPMI has no account: %w", n.Label(), driver.ErrDenied)
	}
	l.of.do(func() {
		if do := l.of.whileRead; do != nil {
			l.of.whileRead = nil
			do()
		}
		s = driver.PowerOff
		if l.of.on {
			s = driver.PowerOn
		}
	})
	return s, nil
}
func (lan) SetPower(context.Context, driver.Fence, *node.Document, driver.PowerState) error {
	return errors.New("orders are SCCI's")
}
func (lan) SupportedBootDevices(context.Context, *node.Document) ([]driver.BootDevice, error) {
	return []driver.BootDevice{driver.BootPXE, driver.BootDisk}, nil
}
func (l lan) BootDevice(context.Context, *node.Document) (ask.BootDevice, error) {
	return ask.BootDevice{Device: l.of.device}, nil
}
func (l lan) SetBootDevice(_ context.Context, f driver.Fence, _ *node.Document, d driver.BootDevice, _ bool) error {
	if err := f.Check(); err != nil {
		return err
	}
	l.of.device = string(d)
	return nil
}
func (l lan) ClearOneStart(_ context.Context, f driver.Fence, _ *node.Document) error {
	if err := f.Check(); err != nil {
		return err
	}
	l.of.device = ""
	return nil
}
func (lan) BootMode(context.Context, *node.Document) (string, error) {
	return "", driver.ErrUnsupported
}
func (lan) SetBootMode(context.Context, driver.Fence, *node.Document, string) error {
	return driver.ErrUnsupported
}
func (lan) Identity(context.Context, *node.Document) (driver.Identity, error) {
	return driver.Identity{UUID: "u", Serial: "s", Model: "PRIMERGY RX2540 M1"}, nil
}
func (lan) InjectNMI(context.Context, driver.Fence, *node.Document) error {
	return errors.New("orders are SCCI's")
}

func (l lan) PCIDevices(_ context.Context, n *node.Document) (list []driver.PCIDevice, err error) {
	if n.DriverString("ipmi_password") != redfishtest.Password {
		return nil, fmt.Errorf("node %s: IPMI has no account: %w", n.Label(), driver.ErrDenied)
	}
	l.of.do(func() { list, err = l.of.pci, l.of.noPCI })
	return list, err
}

// The monitoring by IPMI. Each call needs the account that driver_info has.
func (l lan) asked(n *node.Document) error {
	if n.DriverString("ipmi_password") != redfishtest.Password {
		return fmt.Errorf("node %s: check ipmi_username and ipmi_password: %w", n.Label(), driver.ErrDenied)
	}
	l.of.do(func() { l.of.byLAN++ })
	return nil
}
func (l lan) DetectVendor(_ context.Context, n *node.Document) (string, error) {
	return "fujitsu", l.asked(n)
}
func (l lan) Sensors(_ context.Context, n *node.Document) (map[string]map[string]driver.Sensor, error) {
	return map[string]map[string]driver.Sensor{"Temperature": {"Ambient (0x1)": {"Sensor Reading": "24 (+/- 0) degrees C"}}}, l.asked(n)
}
func (l lan) LogEnd(_ context.Context, n *node.Document) (string, error) { return "ab", l.asked(n) }
func (l lan) LogEntries(_ context.Context, n *node.Document, after string) ([]driver.LogEntry, string, error) {
	return []driver.LogEntry{{ID: "1", Text: "after " + after}}, "ab", l.asked(n)
}
func (l lan) ClearLog(_ context.Context, f driver.Fence, n *node.Document) error {
	return errors.Join(f.Check(), l.asked(n))
}
func (l lan) Indicators(context.Context, *node.Document) ([]hardware.Indicator, error) {
	return []hardware.Indicator{{Name: "led", Component: "chassis", States: []string{"on", "off"}}}, nil
}
func (l lan) Indicator(_ context.Context, n *node.Document, component, _ string) (string, error) {
	return component + " " + l.of.device, l.asked(n)
}
func (l lan) SetIndicator(_ context.Context, f driver.Fence, n *node.Document, component, _, state string) error {
	if component != "chassis" {
		return fmt.Errorf("node %s: there is no %s: %w", n.Label(), component, driver.ErrInvalid)
	}
	l.of.device = state
	return errors.Join(f.Check(), l.asked(n))
}

// double is an iRMC S4, which has no Redfish service.
type double struct {
	*httptest.Server
	spoiler  drivertest.Spoiler // before all that is asked by HTTP
	ended    chan struct{}
	mu       sync.Mutex
	hang     bool // it takes requests by HTTP and answers none
	on       bool
	device   string
	orders   []string
	bodies   []string // of orders
	lose     bool
	fails    string
	half     bool // the next order is carried out, and its answer breaks off
	password string
	digest   bool // it wants a digest
	nonces   int
	refused  int
	store    *store // its eLCM; nil: it has none
	pci      []driver.PCIDevice
	noPCI    error // why it lists none
	byLAN    int   // how often its monitoring was asked by IPMI

	whileRead func() // during the next read of its power
}

func newDouble(t *testing.T) *double {
	t.Helper()
	d := &double{password: redfishtest.Password, ended: make(chan struct{})}
	d.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var hang bool
		if d.do(func() { hang = d.hang }); hang {
			<-d.ended
			panic(http.ErrAbortHandler)
		}
		d.spoiler.Serve(w, r, d.serve)
	}))
	d.Server.Config.ErrorLog = log.New(io.Discard, "", 0) // connections that end are what tests are about
	drivertest.StartTLS(t, d.Server)
	t.Cleanup(func() { close(d.ended); d.Server.Close() })
	return d
}

func (d *double) do(do func()) { d.mu.Lock(); defer d.mu.Unlock(); do() }

var code = regexp.MustCompile(`<CMD Context="SCCI" OC="(\w+)" OE="0" OI="0" Type="SET">`)

func (d *double) serve(w http.ResponseWriter, r *http.Request) {
	if d.store != nil && (r.URL.Path == "/report.xml" || strings.HasPrefix(r.URL.Path, profilesAt) || strings.HasPrefix(r.URL.Path, sessionsAt)) {
		if !d.admits(w, r) {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.store.eLCM(w, r)
		return
	}
	if r.URL.Path != "/config" {
		http.NotFound(w, r)
		return
	}
	if !d.admits(w, r) {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	raw, _ := io.ReadAll(r.Body)
	m := code.FindStringSubmatch(string(raw))
	d.mu.Lock()
	defer d.mu.Unlock()
	if m == nil || d.fails != "" {
		fmt.Fprintf(w, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Status><Value>15</Value><Severity>Error</Severity><Error>%s</Error><Message>failed</Message></Status>", d.fails)
		return
	}
	d.orders, d.bodies = append(d.orders, m[1]), append(d.bodies, string(raw))
	switch m[1] {
	case "PowerOnCabinet":
		d.on = true
	case "PowerOffCabinet", "RequestShutdownAndOff":
		d.on = false
	}
	if d.half {
		d.half = false
		fmt.Fprint(w, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Status>\n<Val")
		return
	}
	if d.lose {
		d.lose = false
		panic(http.ErrAbortHandler)
	}
	fmt.Fprint(w, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Status>\n<Value>0</Value>\n<Severity>Information</Severity>\n<Message>No Error</Message>\n</Status>")
}

// admits judges a request's credentials. By digest each nonce counts once.
func (d *double) admits(w http.ResponseWriter, r *http.Request) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.digest {
		user, pass, _ := r.BasicAuth()
		return user == redfishtest.User && pass == d.password
	}
	given := r.Header.Get("Authorization")
	field := func(name string) string {
		m := regexp.MustCompile(name + `="?([^",]*)`).FindStringSubmatch(given)
		if m == nil {
			return ""
		}
		return m[1]
	}
	hash := func(text string) string { return fmt.Sprintf("%x", md5.Sum([]byte(text))) }
	nonce := fmt.Sprintf("nonce-%d", d.nonces)
	right := hash(hash(redfishtest.User+":iRMC S4@test:"+d.password) + ":" + nonce + ":00000001:" + field("cnonce") + ":auth:" + hash(r.Method+":"+r.URL.RequestURI()))
	if given != "" && d.nonces > 0 && field("[^c]nonce") == nonce && field("response") == right {
		d.nonces++
		return true
	}
	if given != "" {
		d.refused++
	}
	d.nonces++
	w.Header().Add("WWW-Authenticate", `Basic realm="other"`)
	w.Header().Add("WWW-Authenticate", fmt.Sprintf(`Digest realm="iRMC S4@test", nonce="nonce-%d", qop="auth", algorithm=MD5`, d.nonces))
	return false
}

func (d *double) info(password string) map[string]any {
	u, _ := url.Parse(d.URL)
	return map[string]any{fieldAddress: u.Hostname(), fieldPort: u.Port(), fieldUser: redfishtest.User, fieldPassword: password,
		fieldVerifyCA: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: d.Certificate().Raw}))}
}

func newInterface(t *testing.T, l Lan) Interface {
	t.Helper()
	d := redfish.New(redfish.Options{Dialect: Dialect, Networks: redfishtest.Loopback, Pace: 1000, Log: drivertest.Logger(t)})
	s := NewSCCI(SCCIOptions{Networks: redfishtest.Loopback, Pace: 1000, Log: drivertest.Logger(t)})
	t.Cleanup(func() { _, _ = d.Close(t.Context()), s.Close(t.Context()) })
	return New(redfish.Management{Driver: d}, s, l)
}

// An iRMC that speaks Redfish.
func TestConformance(t *testing.T) {
	t.Parallel()
	drivertest.Conformance(t, func(t *testing.T) *drivertest.Machine {
		b := redfishtest.Start(t, "Fujitsu", nil)
		i := newInterface(t, lan{})
		return b.Machine(i, i, func(password string) map[string]any {
			return map[string]any{fieldAddress: b.Host(), fieldPort: b.Port(), fieldUser: redfishtest.User, fieldPassword: password, fieldVerifyCA: b.CA}
		})
	})
}

// One that does not, however it is logged in to. Its state is IPMI's, which has tests of its own.
func TestConformanceOfSCCI(t *testing.T) {
	t.Parallel()
	for _, auth := range []string{"basic", "digest"} {
		t.Run(auth, func(t *testing.T) {
			drivertest.Conformance(t, func(t *testing.T) *drivertest.Machine {
				d := newDouble(t)
				d.digest = auth == "digest"
				without := map[string]string{"Management": "boot devices of an old iRMC are IPMI's, whose driver is held to this itself",
					"Second": "an iRMC is one machine", "Sessions": "each request has the password, or a digest of it",
					"Deny": "IPMI, which reads the state before each order, is refused first: TestDigestOfSCCI has an order refused"}
				restart := d.CloseClientConnections
				if d.digest {
					restart = func() { d.do(func() { d.nonces++ }) }
					d.spoiler.Restart = restart
				}
				n := &node.Document{UUID: "6e6f6465", Name: "web1", DriverInfo: d.info(redfishtest.Password)}
				n.DriverInfo[fieldAuth] = auth
				i := newInterface(t, lan{d})
				return &drivertest.Machine{Power: i, Node: n, Secret: redfishtest.Password,
					Without: without, Restart: restart,
					Port:      func() string { u, _ := url.Parse(d.URL); return u.Port() },
					Close:     i.scci.Close,
					Writes:    func() (n int) { d.do(func() { n = len(d.orders) }); return n },
					Lose:      func() { d.do(func() { d.lose = true }) },
					Silence:   d.Server.Close,
					Hang:      func() { d.do(func() { d.hang = true }) },
					Spoil:     d.spoiler.Spoil,
					Asked:     d.spoiler.Asked,
					WhileRead: func(do func()) { d.do(func() { d.whileRead = do }) },
				}
			})
		})
	}
}

// An order that is not answered in time has an unknown outcome, and holds its caller up no longer.
func TestAnOrderOfSCCIThatHangs(t *testing.T) {
	for _, auth := range []string{"basic", "digest"} {
		d := newDouble(t)
		i := newInterface(t, lan{d})
		n := &node.Document{UUID: "u", Name: "web1", DriverInfo: d.info(redfishtest.Password)}
		n.DriverInfo[fieldAuth] = auth
		if _, err := i.PowerState(t.Context(), n); err != nil { // it speaks no Redfish
			t.Fatal(err)
		}
		d.do(func() { d.hang = true })
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		began := time.Now()
		if err := i.SetPower(ctx, &drivertest.Fence{}, n, driver.PowerOn); !errors.Is(err, driver.ErrUnknown) || time.Since(began) > 10*time.Second {
			t.Errorf("%s: %v after %s, want %v", auth, err, time.Since(began), driver.ErrUnknown)
		}
	}
}

func TestOrdersOfSCCI(t *testing.T) {
	d := newDouble(t)
	i := newInterface(t, lan{d})
	n, f := &node.Document{UUID: "u", Name: "web1", DriverInfo: d.info(redfishtest.Password)}, &drivertest.Fence{}
	d.on = true
	for target, want := range map[driver.PowerState]string{driver.Rebooting: "ResetServer", driver.SoftReboot: "RequestShutdownAndReset", driver.SoftPowerOff: "RequestShutdownAndOff"} {
		d.do(func() { d.on, d.orders = true, nil })
		if err := i.SetPower(t.Context(), f, n, target); err != nil || strings.Join(d.orders, " ") != want {
			t.Errorf("%s: %v, orders %v", target, err, d.orders)
		}
	}
	d.do(func() { d.orders = nil })
	if err := i.InjectNMI(t.Context(), f, n); err != nil || strings.Join(d.orders, " ") != "RaiseNMI" {
		t.Errorf("NMI: %v, orders %v", err, d.orders)
	}
	if err := i.SetBootDevice(t.Context(), f, n, driver.BootPXE, false); err != nil || d.device != "pxe" {
		t.Errorf("boot device: %v, %q", err, d.device)
	}
	d.do(func() { d.fails = "illegal op-code" })
	if err := i.InjectNMI(t.Context(), f, n); err == nil || !strings.Contains(err.Error(), "SCCI status 15: illegal op-code") {
		t.Errorf("a refusal: %v", err)
	}
	d.do(func() { d.password = "another" })
	if err := i.InjectNMI(t.Context(), f, n); !errors.Is(err, driver.ErrDenied) || strings.Contains(err.Error(), redfishtest.Password) {
		t.Errorf("refused credentials: %v", err)
	}
}

// By digest an order is given once, and the password leaves in no form. A wrong one is tried once.
func TestDigestOfSCCI(t *testing.T) {
	d := newDouble(t)
	d.digest = true
	i := newInterface(t, lan{d})
	n, f := &node.Document{UUID: "u", Name: "web1", DriverInfo: d.info(redfishtest.Password)}, &drivertest.Fence{}
	n.DriverInfo[fieldAuth] = "Digest"
	for range 2 {
		if err := i.InjectNMI(t.Context(), f, n); err != nil {
			t.Fatal(err)
		}
	}
	if strings.Join(d.orders, " ") != "RaiseNMI RaiseNMI" || d.refused > 0 {
		t.Errorf("orders %v, %d refused", d.orders, d.refused)
	}
	d.do(func() { d.lose = true })
	if err := i.InjectNMI(t.Context(), f, n); !errors.Is(err, driver.ErrUnknown) {
		t.Errorf("a lost answer: %v", err)
	}
	d.do(func() { d.password, d.refused = "another", 0 })
	for range 3 {
		if err := i.InjectNMI(t.Context(), f, n); !errors.Is(err, driver.ErrDenied) || strings.Contains(err.Error(), redfishtest.Password) {
			t.Errorf("refused credentials: %v", err)
		}
	}
	if d.refused != 1 {
		t.Errorf("a wrong password was tried %d times", d.refused)
	}
	d.do(func() { d.digest = false })
	other := *n
	other.DriverInfo = d.info("yet-an0ther")
	other.DriverInfo[fieldAuth] = "digest"
	if err := i.InjectNMI(t.Context(), f, &other); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "set irmc_auth_method to basic") {
		t.Errorf("an iRMC that wants no digest: %v", err)
	}
}

func TestFields(t *testing.T) {
	anyPort = false
	defer func() { anyPort = true }()
	d := redfish.New(redfish.Options{Dialect: Dialect})
	for _, c := range []struct {
		field string
		value any
		says  string
	}{
		{fieldPort, "80", ""}, {fieldPort, 443.0, ""}, {fieldAuth, "digest", ""}, {fieldSensors, "SCCI", ""}, {fieldTimeout, 20.0, ""}, {fieldVerifyCA, false, ""},
		{fieldAddress, "", "Missing the following iRMC parameters in node's driver_info: ['irmc_address']."},
		{fieldPort, "8443", "Value '8443' is not supported for 'irmc_port'."}, {fieldPort, "x", `irmc_port "x" is not a valid port.`},
		{fieldAuth, "ntlm", "Value 'ntlm' is not supported for 'irmc_auth_method'."}, {fieldSensors, "snmp", "Value 'snmp' is not supported for 'irmc_sensor_method'."},
		{fieldIPMIPort, 6230.0, ""}, {fieldIPMIPort, "70000", fieldIPMIPort}, {fieldTimeout, "soon", "Value 'soon' is not an integer for 'irmc_client_timeout'"}, {fieldVerifyCA, "no-such.pem", fieldVerifyCA},
	} {
		n := &node.Document{UUID: "u", DriverInfo: map[string]any{fieldAddress: "192.0.2.1", fieldUser: "admin", fieldPassword: "pw", c.field: c.value}}
		err := d.Validate(n)
		if c.says == "" && err != nil || c.says != "" && (!errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s is %v: %v, want %q", c.field, c.value, err, c.says)
		}
	}
}
