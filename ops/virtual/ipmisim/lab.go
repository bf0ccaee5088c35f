package ipmisim

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"

	"github.com/ironyard/ironyard/ops/virtual/lab"
	"github.com/ironyard/ironyard/ops/virtual/machine"
	"github.com/ironyard/ironyard/ops/virtual/netns"
)

// Attach gives machines of a lab a BMC of IPMI beside their Redfish BMC, with the same user, and Password. at says at which address it
// listens, by UDP; invalid: the machine has none.
func Attach(at func(lab.Machine) netip.AddrPort) lab.BMC {
	return func(m lab.Machine, computer *machine.Machine, ns *netns.Namespace) (func(context.Context) error, error) {
		address := at(m)
		if !address.IsValid() {
			return nil, nil
		}
		cfg := Config{Dir: filepath.Join(m.Dir, "ipmi"), Address: address, Users: []User{{m.BMCUser, Password(m), "admin"}},
			Command: ns.Command, Dial: ns.DialContext}
		life, end := context.WithCancel(context.Background())
		b, err := Start(life, cfg, computer)
		if err != nil {
			end()
			return nil, err
		}
		return func(ctx context.Context) error {
			stop := context.AfterFunc(ctx, end)
			defer func() { stop(); end() }()
			return b.Wait(life)
		}, nil
	}
}

// Protocol is what a lab calls these BMCs.
const Protocol = "ipmi"

// Described is the address that a lab's description gives a machine's BMC of IPMI; invalid: it has none.
func Described(m lab.Machine) netip.AddrPort {
	at, _ := netip.ParseAddrPort(m.FurtherBMCs[Protocol]) // the lab has written it
	return at
}

// longestPassword is how much of a password the simulator takes in all versions.
const longestPassword = 16

// Password is the password of a machine's BMC of IPMI: the beginning of that of its Redfish BMC.
func Password(m lab.Machine) string { return m.BMCPassword[:min(len(m.BMCPassword), longestPassword)] }

// DriverInfo is how a node of the driver ipmi reaches a machine's BMC at an address.
func DriverInfo(m lab.Machine, at netip.AddrPort) map[string]any {
	return map[string]any{"ipmi_address": at.Addr().String(), "ipmi_port": fmt.Sprint(at.Port()), "ipmi_username": m.BMCUser, "ipmi_password": Password(m)}
}
