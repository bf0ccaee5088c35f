package vbmc

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/bmcevents"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
	redfishdriver "github.com/ironyard/ironyard/rackd/driver/redfish"
	"github.com/ironyard/ironyard/rackd/outbound"
)

// site has one node, and one code for it.
type site struct {
	n  *node.Document
	hw *driver.Hardware
}

func (s site) Owned(string) (*node.Document, *driver.Hardware, error) { return s.n, s.hw, nil }
func (s site) Knows(id string) bool                                   { return id == s.n.UUID }
func (site) Fence(*node.Document) driver.Fence                        { return open{} }
func (site) LeftFence(*node.Document) driver.Fence                    { return open{} }
func (site) Code(*node.Document, string) string                       { return "an-unguessable-code" }
func (s site) Fits(id, code string) bool                              { return id == s.n.UUID && code == "an-unguessable-code" }

// told is lines of the node's history, and what was counted.
type told chan string

func (t told) TellLog(_ context.Context, n *node.Document, _ *hardware.Observation, lines []work.Line) error {
	for _, l := range lines {
		t <- n.UUID + " " + l.Phase + ": " + l.Detail
	}
	return nil
}

func (t told) BMCEventHeard(way, severity, result string) { t <- way + " " + severity + " " + result }

// A BMC without a stream of events is told where to post them. A machine that is switched on is looked at within seconds, and the
// event is shown.
func TestEventsAreHeardInSeconds(t *testing.T) {
	t.Parallel()
	_, computer, address := serve(t)
	d := redfishdriver.New(redfishdriver.Options{Networks: outbound.BMCs{netip.MustParsePrefix("127.0.0.0/8")}})
	t.Cleanup(func() {
		if err := d.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	rest := drivertest.NewRig().Task(networkboot.IPXE()).Hardware
	reg, err := driver.NewRegistry(driver.Type{Name: "t", Interfaces: map[string][]driver.Named{"power": {{Name: "p", Impl: d}},
		"management": {{Name: "m", Impl: d}}, "boot": {{Name: "b", Impl: rest.Boot()}}, "deploy": {{Name: "d", Impl: rest.Deploy()}}}})
	if err != nil {
		t.Fatal(err)
	}
	s := site{n: &node.Document{UUID: "b3d1", Driver: "t", DriverInfo: map[string]any{
		"redfish_address": "https://" + address, "redfish_username": "admin", "redfish_password": "secret-word", "redfish_verify_ca": false}}}
	if s.hw, err = reg.Resolve(s.n); err != nil {
		t.Fatal(err)
	}
	var events http.Handler
	door := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { events.ServeHTTP(w, r) }))
	t.Cleanup(door.Close)
	looks := make(chan time.Duration, 10)
	shown := make(told, 10)
	l := bmcevents.New(bmcevents.Config{Nodes: s, History: shown, Metrics: shown, Codes: s, Base: door.URL, Log: slog.New(slog.DiscardHandler),
		Look: func(_ string, within time.Duration) { looks <- within }})
	events = l.Handler()
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- l.Run(ctx) }()
	// Run may not have begun yet: then nothing is subscribed to.
	for deadline := time.Now().Add(20 * time.Second); len(looks) == 0; time.Sleep(10 * time.Millisecond) {
		if err := l.Task().Do(t.Context(), s.n, s.hw); err != nil || time.Now().After(deadline) {
			t.Fatal("no subscription: ", err)
		}
	}
	<-looks
	if err := computer.Start(t.Context()); err != nil { // as by its button
		t.Fatal(err)
	}
	select {
	case within := <-looks:
		if state, err := d.PowerState(t.Context(), s.n); within != 0 || err != nil || state != driver.PowerOn {
			t.Errorf("looked at within %s, and the power is %q, %v", within, state, err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the event is not heard")
	}
	for _, want := range []string{"b3d1 BMC event: The power is now On. (OK, ResourceEvent.1.0.ResourcePowerStateChanged, by the BMC's clock ", "post ok shown"} {
		select {
		case got := <-shown:
			if !strings.HasPrefix(got, want) {
				t.Errorf("shown %q, want %q", got, want)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("%q is not shown", want)
		}
	}
	cancel()
	if err := <-ran; err != nil {
		t.Error(err)
	}
	// A new rackd at another place finds what the first left.
	other := httptest.NewTLSServer(nil)
	t.Cleanup(other.Close)
	l = bmcevents.New(bmcevents.Config{Nodes: s, History: shown, Metrics: shown, Codes: s, Base: other.URL, Log: slog.New(slog.DiscardHandler), Look: func(string, time.Duration) { looks <- 0 }})
	go func() { ran <- l.Run(t.Context()) }()
	for deadline := time.Now().Add(20 * time.Second); len(looks) == 0; time.Sleep(10 * time.Millisecond) {
		if err := l.Task().Do(t.Context(), s.n, s.hw); err != nil || time.Now().After(deadline) {
			t.Fatal("no subscription: ", err)
		}
	}
	var to []string
	err = d.SendEvents(t.Context(), open{}, s.n, "", func(destination string) bool { to = append(to, destination); return false })
	if err != nil || len(to) != 1 || !strings.HasPrefix(to[0], other.URL+bmcevents.Prefix) {
		t.Errorf("the BMC posts to %q, %v", to, err)
	}
}
