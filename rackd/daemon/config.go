package daemon

import (
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/rackd/driver/fake"
	"github.com/ironyard/ironyard/rackd/netboot/boottls"
	"github.com/ironyard/ironyard/rackd/netboot/dhcp"
	"github.com/ironyard/ironyard/rackd/outbound"
	"github.com/ironyard/ironyard/rackd/rackramdisk"
	"github.com/ironyard/ironyard/rackd/strangers"
)

// Config of a rackd.
type Config struct {
	Name  string // unique among the rackds of the fleet
	Group string // conductor group
	// Conn is the connection to the site's bus; the caller closes it.
	Conn *nats.Conn
	Site string // JetStream domain, empty for the server's own
	// OpenOnly: the bus's buckets are central's to make; until it has, Run waits.
	OpenOnly bool
	// Keys are those of the conductor groups that it may serve; its own at least.
	Keys *seal.Keyring
	// RenewKeys asks for the keys that central hands out now, and returns at once; nil: they are given
	// by hand.
	RenewKeys func()
	// Drivers are the enabled hardware types; empty: all but fake-hardware.
	Drivers []string
	Fake    fake.Options
	DataDir string
	Log     *slog.Logger

	// Rack is what machines see of this rackd; nil: it serves no machines
	// (fake-hardware only).
	Rack *Rack
	// Observe is the address of /metrics, /healthz and /readyz; empty: none.
	Observe string

	Deadlines        map[provision.State]time.Duration
	HeartbeatTimeout time.Duration
	// TrustFirstLookup: where a boot carries no id and no DHCP server of the rack knows the
	// machine's address, the first lookup with one of its MAC addresses is believed.
	TrustFirstLookup bool
	PowerSync        time.Duration // how often an idle node's power is read; 0: never
	// PowerRecovery is the pause between attempts on a node that is in maintenance
	// because its power cannot be read, PowerFailures how many failures put it there;
	// 0: powersync's defaults.
	PowerRecovery time.Duration
	PowerFailures int
	// ForcePower has central bring machines back into the power state on record.
	ForcePower bool
	// BMCEvents: BMCs that stream or post events are listened to, and power sync looks at their machines at once.
	BMCEvents bool
	// EventLog is how often the event logs of BMCs are read, BootOrder how often BMCs are asked for the boot device that they were
	// told; 0: never.
	EventLog, BootOrder time.Duration
	// Sensors of machines are read, unless Every is 0.
	Sensors          Sensors
	NoAutomatedClean bool
	// CleanPriorities and VerifyPriorities are those of the conductor.
	CleanPriorities, VerifyPriorities map[string]int
	// CacheBytes bounds the image cache; 0: 20 GiB.
	CacheBytes int64
	// ImageDirs are the folders that file:// images may come from.
	ImageDirs []string
	// PlainRegistries are the OCI registries, as HOST:PORT, that are spoken to without TLS.
	PlainRegistries []string
	// Fetching is where the URLs of images, checksums and config drives may lead to.
	// Neighbours' copies of images are fetched too: the rack's network is refused by none.
	Fetching outbound.Fetching
	// Strangers is what hosts on the machines' network, and agents before they are known, may cost.
	Strangers strangers.Budget
	// BMCs are the networks that BMCs are in.
	BMCs outbound.BMCs
	// CAFolder holds the authorities that driver_info may name; empty: it names none.
	CAFolder string
	// AnsibleFolder holds the playbooks and keys of the deploy interface ansible; empty: there are none.
	AnsibleFolder string
	// BMCTimeout bounds one request to a BMC; 0: the driver's default.
	BMCTimeout time.Duration
	// BMCPace is how many operations a second one BMC gets; 0: the drivers' default.
	BMCPace int
	// ISCSIPort is the TCP port of agents' iSCSI targets; 0: 3260.
	ISCSIPort int
}

// Sensors are the settings of what machines' sensors tell (rackd/sensordata).
type Sensors struct {
	Every      time.Duration // 0: they are not read
	Workers    int           // 0: 4
	Types      []string      // empty: all
	Undeployed bool
}

// Rack is the network of the rack's machines.
type Rack struct {
	Interface string
	Address   netip.Addr // this rackd's IPv4 address on Interface; zero: it serves by IPv6 only
	DHCP      string     // serve, proxy or off
	// Address6 is this rackd's IPv6 address on Interface; zero: it serves by IPv4 only.
	Address6 netip.Addr
	DHCP6    string // serve, proxy or off
	// Subnets6 are the networks where DHCPv6 is served, Address6's first.
	Subnets6 []dhcp.Subnet
	// RouterAdvertisements: machines that boot the ramdisk are told that there is no IPv6 router, and where rackd
	// serves DHCPv6 to ask it.
	RouterAdvertisements bool
	// DHCPRelays are other networks whose machines a proxy answers.
	DHCPRelays []netip.Prefix
	// Subnets are networks that relays bring, with ranges of their own.
	Subnets []dhcp.Subnet
	// Further are networks on interfaces of their own.
	Further   []Network
	RangeFrom netip.Addr
	RangeTo   netip.Addr
	Mask      net.IPMask
	Router    netip.Addr
	DNS       []netip.Addr
	HTTPPort  int
	AgentPort int
	// HTTPS is the certificate with which firmware is served at HTTPSPort; zero: firmware is served by HTTP.
	HTTPS     boottls.Files
	HTTPSPort int
	// Loaders are the files of GRUB and pxelinux, by their names among the boot files, which machines of the boot interface pxe load;
	// empty: they load iPXE.
	Loaders map[string]string
	// BootPrograms is the folder with undionly.kpxe, ipxe.efi and their kin.
	BootPrograms string
	Kernel       string // file
	Ramdisk      string // file
	// RescueRamdisk is a file; empty: nodes without files of their own cannot be rescued.
	RescueRamdisk string
	// UKI and RescueUKI are files, each a ramdisk as one program that firmware starts; empty: no boot interface has firmware start
	// one.
	UKI, RescueUKI string
	// UKIARM64 and RescueUKIARM64 are the same for machines of arm64.
	UKIARM64, RescueUKIARM64 string
	// Ramdisks are those of machines of an architecture or of nodes of a class.
	Ramdisks     []rackramdisk.Ramdisk
	KernelParams []string
	// AgentAPIURLs are what agents are told to call; empty: this rackd and others of its group.
	AgentAPIURLs []string
	// Discovery lets unknown machines boot the ramdisk.
	Discovery bool
}

func (c *Config) check() error {
	switch {
	case c.Name == "":
		return fmt.Errorf("rackd needs a name")
	case c.Conn == nil:
		return fmt.Errorf("rackd %s has no connection to its site's bus", c.Name)
	case c.Keys == nil || c.Keys.Of(c.Group) == nil:
		return fmt.Errorf("rackd %s has no key of its conductor group; `ironyard key group` prints it", c.Name)
	case badPriority(c.CleanPriorities) != "" || badPriority(c.VerifyPriorities) != "":
		return fmt.Errorf("rackd %s: priority of %q: name it INTERFACE.STEP and give 0 or more", c.Name, badPriority(c.CleanPriorities)+badPriority(c.VerifyPriorities))
	case c.Strangers.Check() != nil:
		return fmt.Errorf("rackd %s: %w", c.Name, c.Strangers.Check())
	case c.DataDir == "":
		return fmt.Errorf("rackd %s has no data folder", c.Name)
	case c.Rack != nil && (c.Rack.Kernel == "" || c.Rack.Ramdisk == ""):
		return fmt.Errorf("rackd %s serves machines but has no kernel or ramdisk; `ironyard ramdisk build` makes them", c.Name)
	}
	if c.Rack != nil {
		if err := c.Rack.checkNetworks(); err != nil {
			return fmt.Errorf("rackd %s: %w", c.Name, err)
		}
	}
	return nil
}

// badPriority returns the name of a step that is none, or whose priority is negative.
func badPriority(of map[string]int) string {
	for name, p := range of {
		if kind, step, ok := strings.Cut(name, "."); !ok || step == "" || !slices.Contains(node.InterfaceKinds, kind) || p < 0 {
			return name
		}
	}
	return ""
}
