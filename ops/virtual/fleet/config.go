package fleet

import (
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"regexp"

	"github.com/ironyard/ironyard/ops/virtual/fleet/pace"
)

// Config of a fleet.
type Config struct {
	// Name begins the machines' names: NAME-0000 and so on.
	Name string
	// Machines is how many there are.
	Machines int
	// Network gives each machine an address of its own, from its first host address
	// on, for BMC and agent. The host must take it for local: all of 127.0.0.0/8 is,
	// another one after `ip route add local NETWORK dev lo`.
	Network netip.Prefix
	// Interface is where the BMCs listen; empty: on all.
	Interface string
	// BMCPort and AgentPort are the same at each address.
	BMCPort, AgentPort uint16
	// User and Password of the BMCs.
	User, Password string
	// Rackds are the base URLs of the boot webs that machines may ask.
	Rackds []string
	// Light machines have a BMC and power, and never boot.
	Light bool
	// Volumes: the machines' firmware attaches iSCSI volumes, and their BMCs set the boot order.
	Volumes bool
	// SecureBoot: the machines' firmware has secure boot. It refuses iPXE and ramdisks while that is on.
	SecureBoot bool
	// Scratch is a folder for the disks that machines export by iSCSI; empty: they export none. The targets are tgtd's (Debian's tgt).
	Scratch string
	// Podman: the machines' ramdisks install containers. No registry is asked.
	Podman bool
	// SSH: the machines' ramdisks have an SSH server for playbooks that deploy, at port 22 of their addresses.
	SSH bool
	// Authorities are those whose servers the machines' firmware loads from by HTTPS; nil: none.
	Authorities *x509.CertPool
	// Timings and Seed are the machines' pace.
	Timings pace.Timings
	Seed    uint64
	// Keep is how many journal records are remembered; 0: journal.DefaultKeep.
	Keep int
	Log  *slog.Logger
}

// Default is a fleet of 20 machines on loopback.
var Default = Config{Name: "sim", Machines: 20, Network: netip.MustParsePrefix("127.80.0.0/16"), Interface: "lo",
	BMCPort: 8443, AgentPort: 9999, User: "admin", Password: "not-a-secret", Timings: pace.Default, Seed: 1}

// maxNumber bounds a fleet: numbers have four digits or five.
const maxNumber = 65_000

var validName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,31}$`)

func (c *Config) check() error {
	switch bits := c.Network.Addr().BitLen() - c.Network.Bits(); {
	case !validName.MatchString(c.Name):
		return fmt.Errorf("fleet %q: a name has up to 32 lower-case letters, digits and '-'", c.Name)
	case c.Machines < 1 || c.Machines > maxNumber:
		return fmt.Errorf("fleet %s: %d machines: want 1 to %d", c.Name, c.Machines, maxNumber)
	case !c.Network.Addr().Is4():
		return fmt.Errorf("fleet %s: network %s is not IPv4", c.Name, c.Network)
	case bits < 17 && c.Machines > 1<<bits-2:
		return fmt.Errorf("fleet %s: %d machines have no room in network %s", c.Name, c.Machines, c.Network)
	case c.BMCPort == 0 || c.AgentPort == 0 || c.BMCPort == c.AgentPort:
		return errors.New("BMCs and agents need two ports")
	case c.Password == "":
		return errors.New("the BMCs need a password")
	}
	return nil
}
