package redfish

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/redfish/redfishtest"
	"github.com/ironyard/ironyard/rackd/driver/serialline"
)

const greeting = "RFB 003.008\n"

// kvm is what a system or manager of OpenBMC tells of its graphical console.
func kvm() map[string]any {
	return map[string]any{"ServiceEnabled": true, "MaxConcurrentSessions": 4, "ConnectTypesSupported": []any{"KVMIP"}}
}

// withKVM has the BMC serve the port as bmcweb does: to users that it knows, with a greeting, and closing on a message of more than
// 1,024 bytes.
func withKVM(t *testing.T, b *redfishtest.BMC, p *port, first string) {
	inner := b.Config.Handler
	b.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/kvm/0" {
			inner.ServeHTTP(w, r)
			return
		}
		known, probe := httptest.NewRecorder(), r.Clone(r.Context())
		probe.URL.Path = "/redfish/v1/Systems"
		inner.ServeHTTP(known, probe)
		if known.Code != http.StatusOK {
			redfishtest.Refuse(w, known.Code, "who are you")
			return
		}
		conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"binary"}})
		if err != nil {
			t.Error(err)
			return
		}
		conn.SetReadLimit(1024)
		end := websocket.NetConn(context.Background(), conn, websocket.MessageBinary)
		if _, err := io.WriteString(end, first); err != nil {
			return
		}
		go p.carry(end)
	})
	t.Cleanup(p.cut)
}

// openBMC is one that tells of its graphical console as bmcweb does now.
func openBMC(t *testing.T) *redfishtest.BMC {
	b := redfishtest.Start(t, "", nil)
	b.At[managerAt]["Model"] = "OpenBmc"
	b.At[redfishtest.System]["GraphicalConsole"] = kvm()
	return b
}

// A viewer's line keeps the contract of lines, whichever way the BMC is logged in to, and wherever it tells of its console.
func TestGraphicalConformance(t *testing.T) {
	t.Parallel()
	for _, auth := range []string{"session", "basic"} {
		t.Run(auth, func(t *testing.T) {
			drivertest.ConsoleConformance(t, func(t *testing.T) *drivertest.SerialPort {
				b, p := openBMC(t), &port{}
				if auth == "basic" { // as older firmware
					delete(b.At[redfishtest.System], "GraphicalConsole")
					b.At[managerAt]["GraphicalConsole"] = kvm()
				}
				withKVM(t, b, p, greeting)
				m := b.Machine(nil, nil, func(string) map[string]any { return nil })
				return &drivertest.SerialPort{Console: drivertest.Viewing{Graphical: Graphical{newDriver(t, Options{})}}, Node: consoleNode(b, map[string]any{fieldAuth: auth}),
					Secret: redfishtest.Password, Say: p.say, Typed: p.text, Hang: m.Hang, Deny: m.Deny, Logins: m.Logins,
					Silence: func() { p.cut(); m.Silence() }}
			})
		})
	}
}

// What a BMC tells of, and what it serves, is taken or refused with what to do.
func TestGraphicalConsolesThatAreRefused(t *testing.T) {
	off := kvm()
	off["ServiceEnabled"] = false
	for what, c := range map[string]struct {
		vendor, model string
		told          map[string]any
		first         string
		want          error
		says          string
	}{
		"nothing":            {"", "OpenBmc", nil, greeting, driver.ErrUnsupported, "tells of no graphical console"},
		"switched off":       {"", "OpenBmc", off, greeting, driver.ErrUnsupported, "switch it on"},
		"of another kind":    {"", "OpenBmc", map[string]any{"ServiceEnabled": true, "ConnectTypesSupported": []any{"Oem"}}, greeting, driver.ErrUnsupported, "KVMIP"},
		"unknown firmware":   {"Contoso", "Board 9", kvm(), greeting, driver.ErrUnsupported, `(manager "Board 9")`},
		"an iLO":             {"HPE", "iLO 5", kvm(), greeting, driver.ErrUnsupported, "the remote console of an iLO is a page of its vendor's own"},
		"an iDRAC":           {"Dell", "14G Monolithic", kvm(), greeting, driver.ErrUnsupported, "the virtual console of an iDRAC is a page of its vendor's own"},
		"no RFB":             {"", "OpenBmc", kvm(), "Login incorrect " + redfishtest.Password, driver.ErrUnsupported, `"Login incorrect`},
		"a vendor's OpenBMC": {"Supermicro", "OpenBmc", kvm(), greeting, nil, ""},
	} {
		t.Run(what, func(t *testing.T) {
			b := redfishtest.Start(t, c.vendor, nil)
			b.At[managerAt]["Model"] = c.model
			if c.told != nil {
				b.At[redfishtest.System]["GraphicalConsole"] = c.told
			}
			withKVM(t, b, &port{}, c.first)
			err := (Graphical{newDriver(t, Options{})}).StartConsole(t.Context(), &drivertest.Fence{}, consoleNode(b, nil))
			switch {
			case c.want == nil && err != nil:
				t.Error(err)
			case c.want != nil && (!errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) || strings.Count(err.Error(), "b3d1") != 1 || strings.Contains(err.Error(), redfishtest.Password)):
				t.Errorf("%v; want %v that says %q", err, c.want, c.says)
			}
			if written := b.Written(); len(written) > 0 {
				t.Errorf("it wrote %v", written)
			}
		})
	}
	t.Run("built without", func(t *testing.T) {
		b := openBMC(t)
		err := (Graphical{newDriver(t, Options{})}).StartConsole(t.Context(), &drivertest.Fence{}, consoleNode(b, nil))
		if !errors.Is(err, driver.ErrUnsupported) || !strings.Contains(err.Error(), "built without the graphical console") {
			t.Error(err)
		}
	})
}

// Machines whose vendor is known for a page of its own are refused before anything is asked.
func TestVendorsOwnPagesAreRefusedByValidate(t *testing.T) {
	b := openBMC(t)
	g := Graphical{newDriver(t, Options{})}
	for vendor, refused := range map[string]bool{"Dell Inc.": true, "FUJITSU": true, "Cisco Systems Inc": true, "HPE": false, "Supermicro": false, "Contoso": false, "": false} {
		n := consoleNode(b, nil)
		n.Properties = map[string]any{"vendor": vendor}
		err := g.Validate(n)
		if refused != errors.Is(err, driver.ErrUnsupported) || refused && !strings.Contains(err.Error(), vendor) {
			t.Errorf("%q: %v", vendor, err)
		}
	}
}

// taken is a stream that notes when it got how much.
type taken struct {
	serialline.Stream
	at     []time.Time
	pieces []int
}

func (s *taken) Write(p []byte) error {
	s.at, s.pieces = append(s.at, time.Now()), append(s.pieces, len(p))
	return nil
}

// What is pasted never fills the 1,024 bytes that bmcweb has for what its server of pictures has not taken: that has time for each piece.
func TestPastesLeaveRoomAtTheBMC(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &taken{}
		for range 3 {
			if err := (pieces{s}).Write(make([]byte, 4000)); err != nil {
				t.Fatal(err)
			}
		}
		all := 0
		for i, at := range s.at {
			all += s.pieces[i]
			within := 0
			for j := i; j < len(s.at) && s.at[j].Sub(at) < pieceRest; j++ {
				within += s.pieces[j]
			}
			if within > 512 {
				t.Fatalf("%d bytes were sent within %s", within, pieceRest)
			}
		}
		if all != 12000 {
			t.Errorf("%d bytes were sent", all)
		}
	})
}

// A long message of a viewer goes to the BMC in pieces that it has room for: bmcweb ends the session at one of 1,025 bytes.
func TestLongMessagesGoInPieces(t *testing.T) {
	t.Parallel()
	b, p := openBMC(t), &port{}
	withKVM(t, b, p, greeting)
	line, err := Graphical{newDriver(t, Options{})}.OpenViewer(t.Context(), &drivertest.Fence{}, consoleNode(b, nil))
	if err != nil {
		t.Fatal(err)
	}
	defer line.Close(t.Context())
	text := strings.Repeat("0123456789", 400)
	if err := line.Write(t.Context(), []byte(text)); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); p.text() != text; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the BMC got %d bytes of %d", len(p.text()), len(text))
		}
	}
}
