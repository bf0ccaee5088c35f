package ipmi

import (
	"context"
	"net/netip"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/bougou/go-ipmi/pkg/bmc"
	"github.com/bougou/go-ipmi/pkg/hal"
	"github.com/bougou/go-ipmi/pkg/hal/mock"
	"github.com/bougou/go-ipmi/pkg/handlers"
	"github.com/bougou/go-ipmi/pkg/server"
	"github.com/bougou/go-ipmi/pkg/transport/udp"
	"github.com/bougou/go-ipmi/pkg/types"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver/ipmi/ipmitest"
	"github.com/ironyard/ironyard/rackd/outbound"
)

var loopback = outbound.BMCs{netip.MustParsePrefix("127.0.0.0/8")}

// chassis is a machine as the BMC of go-ipmi sees it.
type chassis struct {
	mu     sync.Mutex
	on     bool
	flags  types.BootOptionParam_BootFlags
	light  int
	cycles int
	resets int
	// deaf: the machine's operating system does not listen to ACPI.
	deaf bool
}

func (c *chassis) set(do func()) { c.mu.Lock(); defer c.mu.Unlock(); do() }

func (c *chassis) PowerState(context.Context) (on bool, _ error) {
	c.set(func() { on = c.on })
	return on, nil
}
func (c *chassis) SetPower(_ context.Context, on bool) error { c.set(func() { c.on = on }); return nil }
func (c *chassis) PowerCycle(context.Context) error          { c.set(func() { c.cycles++ }); return nil }
func (c *chassis) ColdReset(context.Context) error           { c.set(func() { c.resets++ }); return nil }
func (c *chassis) WarmReset(context.Context) error {
	c.set(func() { c.on = c.on && c.deaf })
	return nil
}
func (c *chassis) Identify(_ context.Context, seconds uint8) error {
	c.set(func() { c.light = int(seconds) })
	return nil
}
func (c *chassis) IntrusionState(context.Context) (bool, error) { return false, nil }
func (c *chassis) SetBootFlags(_ context.Context, f *types.BootOptionParam_BootFlags) error {
	c.set(func() { c.flags = *f })
	return nil
}
func (c *chassis) GetBootFlags(context.Context) (f *types.BootOptionParam_BootFlags, _ error) {
	c.set(func() { copied := c.flags; f = &copied })
	return f, nil
}
func (c *chassis) SetBootInfoAcknowledge(context.Context, *types.BootOptionParam_BootInfoAcknowledge) error {
	return hal.ErrNotSupported
}
func (c *chassis) GetBootInfoAcknowledge(context.Context) (*types.BootOptionParam_BootInfoAcknowledge, error) {
	return nil, hal.ErrNotSupported
}

// board is go-ipmi's hardware with that chassis.
type board struct {
	*mock.HAL
	chassis *chassis
}

func (b board) Chassis() hal.ChassisHAL { return b.chassis }

// request is what a BMC was asked, and what a test lets it answer.
type request struct {
	ipmitest.Message
	session uint32 // of version 2.0
}

// rig is a BMC of go-ipmi, behind a wire.
type rig struct {
	t       testing.TB
	chassis *chassis
	wire    *ipmitest.Wire
	address string // of the BMC itself

	mu       sync.Mutex
	requests []request
	// answer answers in place of the BMC, if ok; nil: the BMC answers all.
	answer func(request) (data []byte, code types.CompletionCode, ok bool)
	// after is called when the BMC has carried out a request, before it answers.
	after   func(request)
	refused int
	bmc     *bmc.BMC // that was started last
}

// newRig starts a BMC with the user admin.
func newRig(t testing.TB, password string, options ...bmc.Option) *rig {
	r := &rig{t: t, chassis: &chassis{}}
	r.address = r.start(password, options...)
	r.wire = ipmitest.NewWire(t, r.address)
	count := func(d []byte) []ipmitest.Packet {
		if ipmitest.Refused(d) {
			r.set(func() { r.refused++ })
		}
		return ipmitest.As(d)
	}
	r.wire.Up(count)
	r.wire.Down(count)
	return r
}

func (r *rig) set(do func()) { r.mu.Lock(); defer r.mu.Unlock(); do() }

// start starts a BMC of the rig's machine and returns its address.
func (r *rig) start(password string, options ...bmc.Option) string {
	b := bmc.New(bmc.DeviceInfo{DeviceID: 1, ManufacturerID: 674, ProductID: 2, IPMIVersion: 0x02}, [16]byte{1}, board{mock.New(), r.chassis}, options...)
	for id, u := range map[uint8]struct {
		name string
		most bmc.PrivilegeLevel
	}{2: {"admin", bmc.PrivilegeLevelAdministrator}, 3: {"reader", bmc.PrivilegeLevelUser}} {
		added, err := b.Users.Add(id, u.name)
		if err != nil {
			r.t.Fatal(err)
		}
		added.Enabled = true
		added.SetPassword([]byte(password))
		added.ChannelAccess = map[uint8]bmc.UserChannelAccess{1: {MaxPrivilege: u.most, Enabled: true}}
		if err := b.Users.Update(id, func(live *bmc.User) error { *live = *added; return nil }); err != nil {
			r.t.Fatal(err)
		}
	}
	r.set(func() { r.bmc = b })
	registry := handlers.NewRegistry()
	registry.Use(r.watch)
	handlers.RegisterAllHandlers(registry)
	conn, err := udp.Listen("127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	s := server.NewServer(b, conn, server.WithHandlerRegistry(registry))
	served := make(chan error, 1)
	go func() { served <- s.Serve(context.Background()) }()
	r.t.Cleanup(func() { s.Close(); <-served })
	return conn.LocalAddr().String()
}

// watch is a middleware of the BMC.
func (r *rig) watch(next handlers.Handler) handlers.Handler {
	return handlers.HandlerFunc(func(ctx context.Context, h *handlers.HandlerContext, data []byte) ([]byte, types.CompletionCode, error) {
		q := request{Message: ipmitest.Message{NetFn: uint8(h.Command.NetFn), Command: h.Command.ID, Data: append([]byte(nil), data...)}}
		if h.Session != nil {
			q.session = h.Session.BMCID
		}
		r.mu.Lock()
		r.requests = append(r.requests, q)
		answer, after := r.answer, r.after
		r.mu.Unlock()
		if answer != nil {
			if data, code, ok := answer(q); ok {
				return data, code, nil
			}
		}
		out, code, err := next.Handle(ctx, h, data)
		if after != nil {
			after(q)
		}
		return out, code, err
	})
}

// orders counts the orders that have reached the machine.
func (r *rig) orders() (n int) {
	r.set(func() {
		for _, q := range r.requests {
			if q.Order() {
				n++
			}
		}
	})
	return n
}

// node is a node with this BMC.
func (r *rig) node(password string, fields map[string]any) *node.Document {
	info := map[string]any{fieldAddress: "127.0.0.1", fieldPort: strconv.Itoa(r.wire.Port()), fieldUser: "admin", fieldPassword: password}
	for k, v := range fields {
		info[k] = v
	}
	return &node.Document{UUID: "b3d1", Name: "web1", DriverInfo: info}
}

// newDriver is a driver that gives up soon.
func newDriver(t testing.TB, o Options) *Driver {
	if o.Timeout == 0 {
		o.Timeout = time.Second
	}
	o.Networks, o.Pace = loopback, 10_000 // nothing slow is behind the BMC
	d := New(o)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := d.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return d
}
