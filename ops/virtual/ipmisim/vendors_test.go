package ipmisim

import (
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/ilo"
	ipmidriver "github.com/ironyard/ironyard/rackd/driver/ipmi"
	"github.com/ironyard/ironyard/rackd/driver/ipmi/ipmitest"
	"github.com/ironyard/ironyard/rackd/driver/irmc"
	"github.com/ironyard/ironyard/rackd/driver/redfish"
	"github.com/ironyard/ironyard/rackd/outbound"
)

// vendors are the drivers whose machines have their console by Serial over LAN too, with fields of their own.
var vendors = map[string]struct {
	dialect redfish.Dialect
	names   ipmidriver.Names
}{
	"irmc": {irmc.Dialect, irmc.OverLAN()},
	"ilo":  {ilo.Dialect, ilo.OverLAN()},
}

func vendorNode(names ipmidriver.Names, port uint16, password string, more map[string]any) *node.Document {
	info := map[string]any{names.Address: "127.0.0.1", names.Port: strconv.Itoa(int(port)), names.User: "admin", names.Password: password}
	for k, v := range more {
		info[k] = v
	}
	return &node.Document{UUID: "b3d1", Name: "web1", DriverInfo: info}
}

// The consoles of iRMCs and iLOs by Serial over LAN keep the contract too, and their errors name the fields that such a node has.
func TestConsolesOfVendorsConform(t *testing.T) {
	t.Parallel()
	for name, v := range vendors {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			drivertest.ConsoleConformance(t, func(t *testing.T) *drivertest.SerialPort {
				k, serial := newKeyboard(t)
				at, _ := startWith(t, &computer{}, "s3cret-pass", serial, netip.AddrPort{})
				wire := ipmitest.NewWire(t, at.String())
				var hangs, mute atomic.Bool
				var refused atomic.Int64
				wire.Up(func(b []byte) []ipmitest.Packet {
					if hangs.Load() {
						return nil
					}
					return ipmitest.As(b)
				})
				wire.Down(func(b []byte) []ipmitest.Packet {
					if ipmitest.Refused(b) {
						refused.Add(1)
					}
					if hangs.Load() || mute.Load() {
						return nil
					}
					return ipmitest.As(b)
				})
				other := redfish.New(redfish.Options{Dialect: v.dialect, Networks: outbound.BMCs{netip.MustParsePrefix("127.0.0.0/8")}})
				t.Cleanup(func() { _ = other.Close(t.Context()) })
				return &drivertest.SerialPort{
					Console: ipmidriver.Under{SOL: newConsole(t), Other: other, Names: v.names}, Node: vendorNode(v.names, uint16(wire.Port()), "s3cret-pass", nil),
					Secret: "s3cret-pass", One: true, Say: k.say, Typed: k.text,
					Hang:    func() { hangs.Store(true) },
					Mute:    func() { mute.Store(true) },
					Silence: wire.Cut,
					Deny:    func() { wire.To(start(t, &computer{}, "an0ther-pass").String()) },
					Logins:  func() int { return int(refused.Load()) },
				}
			})
			other := redfish.New(redfish.Options{Dialect: v.dialect, Networks: outbound.BMCs{netip.MustParsePrefix("127.0.0.0/8")}})
			t.Cleanup(func() { _ = other.Close(t.Context()) })
			console := ipmidriver.Under{SOL: newConsole(t), Other: other, Names: v.names}
			at := start(t, &computer{}, "an0ther-pass")
			err := console.StartConsole(t.Context(), &held{}, vendorNode(v.names, at.Port(), "s3cret-pass", nil))
			if err == nil || !strings.Contains(err.Error(), v.names.Password) || strings.Contains(err.Error(), "ipmi_password") {
				t.Errorf("refused credentials: %v", err)
			}
			for field := range console.Properties() {
				if field != v.names.Port && strings.HasPrefix(field, "ipmi_") {
					t.Errorf("it reads %s", field)
				}
			}
			if err := console.Validate(vendorNode(v.names, 0, "s3cret-pass", nil)); err == nil || !strings.Contains(err.Error(), v.names.Port) {
				t.Errorf("port 0: %v", err)
			}
			if err := console.Validate(vendorNode(v.names, 623, "a-password-of-more-than-twenty-bytes", nil)); err == nil || !strings.Contains(err.Error(), v.names.Password) {
				t.Errorf("a password that IPMI has no room for: %v", err)
			}
		})
	}
}

// The sensors of an iRMC are read by IPMI where irmc_sensor_method says so: this one has nothing else.
func TestSensorsOfAnIRMCByIPMI(t *testing.T) {
	t.Parallel()
	needs(t, "ipmi_sim")
	b, err := Start(t.Context(), Config{Dir: t.TempDir(), Address: free(t), Emulation: sensing(), Users: []User{{"admin", "s3cret-pass", "admin"}}}, &computer{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Stop(); err != nil {
			t.Error(err)
		}
	})
	modern := redfish.New(redfish.Options{Dialect: irmc.Dialect, Networks: outbound.BMCs{netip.MustParsePrefix("127.0.0.0/8")}})
	t.Cleanup(func() { _ = modern.Close(t.Context()) })
	var sensors driver.Sensors = irmc.New(redfish.Management{Driver: modern}, irmc.NewSCCI(irmc.SCCIOptions{}), newDriver(t))
	n := vendorNode(irmc.OverLAN(), b.cfg.Address.Port(), "s3cret-pass", map[string]any{"irmc_sensor_method": "ipmitool"})
	found, err := sensors.Sensors(t.Context(), n)
	if err != nil || len(found["Temperature"]) == 0 || len(found["Fan"]) == 0 {
		t.Errorf("%v, %v", found, err)
	}
}
