package metal3

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"

	"github.com/ironyard/ironyard/ops/virtual/vbmc"
)

// computer is a machine that does what its BMC says at once.
type computer struct{ on atomic.Bool }

func (c *computer) On() bool                           { return c.on.Load() }
func (c *computer) Start(context.Context) error        { c.on.Store(true); return nil }
func (c *computer) Stop(context.Context) error         { c.on.Store(false); return nil }
func (c *computer) Reset(context.Context) error        { return nil }
func (c *computer) Shutdown(context.Context) error     { c.on.Store(false); return nil }
func (c *computer) Restart(context.Context) error      { return nil }
func (c *computer) Interrupt(context.Context) error    { return nil }
func (c *computer) BootOverride() (string, bool)       { return "", false }
func (c *computer) SetBootOverride(string, bool) error { return nil }

// redfish is what an address redfish://… or redfish-virtualmedia://… makes of a host
// with a virtual BMC.
func redfish(t *testing.T, boot string) access {
	t.Helper()
	b, err := vbmc.New(vbmc.Config{Name: t.Name(), UUID: "11111111-2222-4333-8444-555555555555", Username: "admin", Password: "secret", UEFI: true}, &computer{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- b.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return access{driver: "redfish", boot: boot, firmware: "redfish", raid: "redfish", info: map[string]any{
		"redfish_address": "https://" + l.Addr().String(), "redfish_system_id": vbmc.SystemPath, "redfish_username": "admin", "redfish_password": "secret", "redfish_verify_ca": false}}
}

// A host with a BMC has the interfaces that the operator names, whichever way it boots.
func TestRedfish(t *testing.T) {
	o := newOperator(t)
	for boot, mac := range map[string]string{"ipxe": "52:54:00:3a:00:70", "redfish-virtual-media": "52:54:00:3a:00:71"} {
		a := redfish(t, boot)
		h := o.host(t, "bmc-"+boot, mac, a)
		h.until("register", h.register(false))
		n := h.now()
		if n.BootInterface != boot || n.FirmwareInterface != "redfish" || n.RAIDInterface != "redfish" || n.InspectInterface != "agent" || n.DeployInterface != "direct" {
			t.Errorf("interfaces: boot %s, firmware %s, RAID %s, inspect %s, deploy %s", n.BootInterface, n.FirmwareInterface, n.RAIDInterface, n.InspectInterface, n.DeployInterface)
		}
		if n.DriverInfo["redfish_password"] == "secret" {
			t.Error("the password is shown")
		}
		if c := h.components()["bmc"]; c.CurrentVersion == "" {
			t.Errorf("firmware components %v", h.components())
		}
		h.biosSettings() // none, and no error
		h.until("power on", h.powerOn(false))
		h.until("power off", h.powerOff(true, false))
		for _, deploy := range []string{"ramdisk", "custom-agent"} {
			p := &patch{}
			p.want("/deploy_interface", "", true, deploy)
			if _, _, err := h.update(h.now(), p); err != nil {
				t.Error(err)
			}
		}
		h.subscribe()
		h.access.info["redfish_password"] = "wrong"
		h.until("update", h.register(true))
		h.until("delete", h.remove)
	}
}

// subscribe makes the operator's requests for a subscription to a BMC's events.
func (h *host) subscribe() {
	h.t.Helper()
	made, err := nodes.CreateSubscription(h.t.Context(), h.o.client, h.node, nodes.CallVendorPassthruOpts{Method: "create_subscription"},
		nodes.CreateSubscriptionOpts{Destination: "https://192.0.2.1/events", Context: "host", HttpHeaders: []map[string]string{{"X-Token": "t"}}}).Extract()
	if err != nil || made.Id == "" {
		h.t.Fatalf("subscription %+v, %v", made, err)
	}
	if err := nodes.DeleteSubscription(h.t.Context(), h.o.client, h.node, nodes.CallVendorPassthruOpts{Method: "delete_subscription"},
		nodes.DeleteSubscriptionOpts{Id: made.Id}).ExtractErr(); err != nil {
		h.t.Fatal(err)
	}
}

// A BMC that refuses the credentials is told; an interface that nobody has is refused.
func TestRedfishRefusals(t *testing.T) {
	o := newOperator(t)
	a := redfish(t, "ipxe")
	a.info["redfish_password"] = "wrong"
	h := o.host(t, "bmc-refusing", "52:54:00:3a:00:72", a)
	if text := h.fails("register", h.register(false)); !strings.Contains(text, "admin") {
		t.Errorf("failed with %q", text)
	}
	h.access.info["redfish_password"] = "secret"
	h.until("register with new credentials", h.register(true))
	h.until("delete", h.remove)
	h = o.host(t, "bmc-unknown", "52:54:00:3a:00:73", a)
	h.access.raid = "punched cards"
	if _, err := h.register(false)(); !gophercloud.ResponseCodeIs(err, http.StatusBadRequest) {
		t.Errorf("registered with %v", err)
	}
}
