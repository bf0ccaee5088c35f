package vbmc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	redfishdriver "github.com/ironyard/ironyard/rackd/driver/redfish"
	"github.com/ironyard/ironyard/rackd/outbound"
)

// Each request of the commands that the contract does not name comes to grief in each way: media, secure boot, boot by HTTP, an NMI. The
// BMC's journal says how often each was done.
func TestEachRequestOfMediaAndSecureBoot(t *testing.T) {
	t.Parallel()
	const image, program = "http://10.0.0.1/a.iso", "http://10.0.0.1/boot.efi"
	fence := open{}
	for _, c := range []struct {
		name   string
		set    func(*equipped)
		do     func(context.Context, *redfishdriver.Driver, *node.Document) error
		done   func(*equipped) bool // nil: the journal alone tells
		writes string               // the path's end
	}{
		{"attach media", func(*equipped) {}, func(ctx context.Context, d *redfishdriver.Driver, n *node.Document) error {
			return d.AttachMedia(ctx, fence, n, "cdrom", image)
		}, func(e *equipped) bool { return e.image == image }, "VirtualMedia.InsertMedia"},
		{"detach media", func(e *equipped) { e.image = image }, func(ctx context.Context, d *redfishdriver.Driver, n *node.Document) error {
			return d.DetachMedia(ctx, fence, n, nil)
		}, func(e *equipped) bool { return e.image == "" }, "VirtualMedia.EjectMedia"},
		{"secure boot", func(e *equipped) { e.secure.PlatformKey = true }, func(ctx context.Context, d *redfishdriver.Driver, n *node.Document) error {
			return d.SetSecureBoot(ctx, fence, n, true)
		}, func(e *equipped) bool { return e.secure.Next }, "SecureBoot"},
		{"HTTP boot", func(*equipped) {}, func(ctx context.Context, d *redfishdriver.Driver, n *node.Document) error {
			return d.SetHTTPBoot(ctx, fence, n, program, false)
		}, func(e *equipped) bool { return e.uri == program }, "Systems/1"},
		{"NMI", func(e *equipped) { e.on = true }, func(ctx context.Context, d *redfishdriver.Driver, n *node.Document) error {
			return d.InjectNMI(ctx, fence, n)
		}, nil, "ComputerSystem.Reset"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cases := 0
			for how := Sound; how <= Reset; how++ {
				for at, most := 1, 1; at <= most; at++ {
					b, computer, address := serveEquipped(t)
					c.set(computer)
					var asked atomic.Int64
					b.Faults.Lateness(drivertest.Lateness)
					b.Faults.Spoil(func(*http.Request) Spoilt {
						if asked.Add(1) == int64(at) {
							return how
						}
						return Sound
					})
					d := redfishdriver.New(redfishdriver.Options{Networks: outbound.BMCs{netip.MustParsePrefix("127.0.0.0/8")}, Pace: 10_000, Log: drivertest.Logger(t)})
					n := &node.Document{UUID: "b3d1", Name: "web1", DriverInfo: map[string]any{
						"redfish_address": "https://" + address, "redfish_username": "admin", "redfish_password": "secret-word", "redfish_verify_ca": false}}
					err := c.do(t.Context(), d, n)
					what := fmt.Sprintf("fault %d of request %d", how, at)
					made := len(b.Journal.Matching(c.writes))
					if cases++; how != Sound && int(asked.Load()) < at {
						break // it has no further request
					}
					most = at + 1
					unknown := errors.Is(err, driver.ErrUnknown)
					switch {
					case how <= Late && err != nil, err != nil && !unknown && !errors.Is(err, driver.ErrUnreachable):
						t.Errorf("%s: %v", what, err)
					case err == nil && (made != 1 || c.done != nil && !c.done(computer)):
						t.Errorf("%s: it is told as done, the BMC got %d orders", what, made)
					case made > 1, c.done == nil && made > 0 && err != nil && !unknown:
						t.Errorf("%s: %v: the BMC got %d orders", what, err, made)
					}
					if err != nil && (strings.Contains(err.Error(), "secret-word") || strings.Count(err.Error(), "b3d1") != 1) {
						t.Errorf("%s: %v", what, err)
					}
					if err != nil && c.done != nil { // asked for again it is done, and no second time
						if err := c.do(t.Context(), d, n); err != nil || !c.done(computer) || len(b.Journal.Matching(c.writes)) != 1 {
							t.Errorf("%s, asked for again: %v; the BMC got %+v", what, err, b.Journal.Matching(c.writes))
						}
					}
					if err := d.Close(t.Context()); err != nil {
						t.Error(err)
					}
					if left := b.sessions.list(); len(left) > 1 { // of the login whose answer was lost
						t.Errorf("%s: %d sessions are left", what, len(left))
					}
					if how == Sound {
						most = 1
					}
				}
			}
			t.Logf("%d faults", cases)
			if cases < 30 {
				t.Errorf("only %d faults", cases)
			}
		})
	}
}
