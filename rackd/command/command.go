// Package command is rackd's command line: flags, environment and files become a
// daemon.Config. It may import rackd/daemon, rackd/netboot/bootfiles, rackd/netboot/boottls,
// rackd/netboot/dhcp, rackd/outbound and protocol.
package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/failpoint"
	"github.com/ironyard/ironyard/protocol/heap"
	"github.com/ironyard/ironyard/protocol/membership"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/release"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/secretfile"
	"github.com/ironyard/ironyard/rackd/daemon"
	"github.com/ironyard/ironyard/rackd/netboot/bootfiles"
	"github.com/ironyard/ironyard/rackd/netboot/boottls"
	"github.com/ironyard/ironyard/rackd/netboot/dhcp"
	"github.com/ironyard/ironyard/rackd/outbound"
	"github.com/ironyard/ironyard/rackd/rackramdisk"
)

const manual = `rackd is the conductor of a rack.

It connects to its site's bus, takes the nodes that the ring gives it, and serves their machines: DHCP, TFTP, boot
scripts, images, and the agents that call from the ramdisk. It keeps no state of its own besides DHCP leases and the
image cache: stop it, and another rackd of the conductor group goes on with its work.

Machines are served on --interface at --address. Without --interface it reaches their BMCs only, and boots none.

Exit codes: 0 ended by SIGTERM; 1 it failed, and standard error says why; 80 the command line cannot be
read.`

type flags struct {
	Name    string   `help:"Name of this rackd, unique in the fleet." default:"${hostname}" env:"RACKD_NAME"`
	Group   string   `help:"Conductor group of this rackd." env:"RACKD_GROUP"`
	Member  string   `help:"Folder that 'ironyard site join' made. Name, group, bus, certificates and keys come from it." env:"RACKD_MEMBER" type:"existingdir" placeholder:"FOLDER"`
	Bus     string   `help:"URL of the site's bus." env:"RACKD_BUS" placeholder:"nats://HOST:4222"`
	BusAuth string   `help:"File with the token for the bus." env:"RACKD_BUS_TOKEN_FILE" type:"existingfile" placeholder:"FILE" name:"bus-token-file"`
	Site    string   `help:"JetStream domain of the site. Empty: the server's own." env:"RACKD_SITE"`
	Key     string   `help:"File with the key of the conductor group ('ironyard key group' prints it). Further lines 'GROUP KEY' are for the groups that this group stands in for." env:"RACKD_KEY_FILE" type:"existingfile" placeholder:"FILE" name:"key-file"`
	Data    string   `help:"Folder for leases and images." default:"/var/lib/rackd" env:"RACKD_DATA"`
	Drivers []string `help:"Hardware types to enable. Default: all types except fake-hardware." placeholder:"TYPE,..." env:"RACKD_DRIVERS"`
	Observe string   `help:"Address of /metrics, /healthz and /readyz." default:"127.0.0.1:9411" env:"RACKD_OBSERVE"`

	Interface    string            `help:"Network interface on the machines' network." env:"RACKD_INTERFACE" group:"Machines"`
	Address      netip.Addr        `help:"IPv4 address of this rackd on that interface. Without it machines are served by IPv6 only, at --address6." env:"RACKD_ADDRESS" group:"Machines"`
	Prefix       int               `help:"Prefix length of that network, in bits." default:"24" env:"RACKD_PREFIX" group:"Machines"`
	DHCP         string            `help:"DHCP mode. serve: give addresses; proxy: work beside another server; off." enum:"serve,proxy,off" default:"serve" env:"RACKD_DHCP" group:"Machines"`
	DHCPRange    string            `help:"First and last address to give. Each rackd of a network needs its own range." placeholder:"FROM-TO" env:"RACKD_DHCP_RANGE" group:"Machines"`
	DHCPRelays   []netip.Prefix    `help:"With --dhcp proxy: further networks whose relays and machines are answered." placeholder:"CIDR" env:"RACKD_DHCP_RELAYS" name:"dhcp-relays" group:"Machines"`
	DHCPSubnets  []string          `name:"dhcp-subnet" sep:";" help:"With --dhcp serve: a further network whose relays send requests here, as 'PREFIX FROM-TO ROUTER', such as '10.2.0.0/24 10.2.0.100-10.2.0.200 10.2.0.1'. Its machines reach --address by the router. Several: give the flag again, or divide them by ;." placeholder:"SUBNET" env:"RACKD_DHCP_SUBNETS" group:"Machines"`
	Networks     []string          `name:"further-network" sep:";" help:"With --dhcp serve: a further network of machines on an interface of its own, as 'INTERFACE ADDRESS/BITS FROM-TO [ROUTER]', such as 'eth2 10.3.0.2/24 10.3.0.100-10.3.0.200 10.3.0.1'. Rackd gives addresses there, and its machines are told of the rackds' addresses in it alone. Several: give the flag again, or divide them by ;." placeholder:"NETWORK" env:"RACKD_FURTHER_NETWORKS" group:"Machines"`
	Address6     netip.Addr        `name:"address6" help:"IPv6 address of this rackd on that interface. With it machines boot by IPv6 too." env:"RACKD_ADDRESS6" group:"Machines"`
	Prefix6      int               `name:"prefix6" help:"Prefix length of its network, in bits." default:"64" env:"RACKD_PREFIX6" group:"Machines"`
	DHCP6        string            `name:"dhcp6" help:"DHCPv6 mode. serve: give addresses; proxy: name boot files to machines that have an address of a router's prefix, and overhear another server; off." enum:"serve,proxy,off" default:"serve" env:"RACKD_DHCP6" group:"Machines"`
	DHCP6Range   []string          `name:"dhcp6-range" help:"First and last IPv6 address to give. Default: 65536 addresses that follow from --address6, so that each rackd has its own. Further ranges are for networks behind relays; each is of one network with --prefix6 bits." placeholder:"FROM-TO" env:"RACKD_DHCP6_RANGE" group:"Machines"`
	RouterAdv    bool              `name:"router-advertisements" help:"Answer machines that boot the ramdisk and look for an IPv6 router: there is none, and where rackd serves DHCPv6 they are to ask that. Without this answer iPXE waits for a router for 16 s, and does not boot by IPv6. Rackd is silent where a router advertises itself." default:"true" negatable:"" env:"RACKD_ROUTER_ADVERTISEMENTS" group:"Machines"`
	Router       netip.Addr        `help:"Router that DHCP tells machines." env:"RACKD_ROUTER" group:"Machines"`
	DNS          []netip.Addr      `help:"Name servers that DHCP tells machines." env:"RACKD_DNS" group:"Machines"`
	HTTPPort     int               `help:"HTTP port for boot scripts, files and images." default:"8080" env:"RACKD_HTTP_PORT" group:"Machines"`
	HTTPSPort    int               `name:"https-port" help:"HTTPS port for firmware that boots by HTTP; see --https-certificate." default:"8443" env:"RACKD_HTTPS_PORT" group:"Machines"`
	HTTPSCert    string            `name:"https-certificate" help:"PEM file with the certificate that machines' firmware is shown, and those that it stands on. It names --address and --address6 as alternative names, and firmware must have been given its authority. With it, firmware with the boot interfaces http, http-ipxe, redfish-https and ilo-uefi-https is told https URLs; iPXE and agents keep HTTP. The file is read again when it changes." env:"RACKD_HTTPS_CERTIFICATE" placeholder:"FILE" group:"Machines"`
	HTTPSKey     string            `name:"https-key" help:"PEM file with the key of --https-certificate." env:"RACKD_HTTPS_KEY" placeholder:"FILE" group:"Machines"`
	AgentPort    int               `help:"HTTPS port for agents' lookups and heartbeats." default:"6386" env:"RACKD_AGENT_PORT" group:"Machines"`
	ISCSIPort    int               `name:"iscsi-portal-port" help:"TCP port at which machines export their disks to this rackd, for the deploy interface iscsi." default:"3260" env:"RACKD_ISCSI_PORTAL_PORT" group:"Machines"`
	BootPrograms string            `help:"Folder with the iPXE programs: undionly.kpxe, snponly.efi and so on." default:"/usr/lib/ipxe" env:"RACKD_BOOT_PROGRAMS" group:"Machines"`
	PXELoader    string            `name:"pxe-loader" help:"What machines of the boot interface pxe load first. ipxe: iPXE, as others. grub: Debian's signed shim and GRUB on UEFI x64, which start with Microsoft's keys too, and pxelinux on BIOS where it is there; machines that boot by IPv6 load iPXE." enum:"ipxe,grub" default:"ipxe" env:"RACKD_PXE_LOADER" group:"Machines"`
	LoaderFiles  map[string]string `name:"pxe-loader-files" help:"Files of these boot loaders, where they are not those of Debian: shimx64.efi, grubx64.efi, pxelinux.0 and ldlinux.c32." placeholder:"NAME=FILE" env:"RACKD_PXE_LOADER_FILES" group:"Machines"`
	Kernel       string            `help:"Kernel file of the ramdisk." env:"RACKD_KERNEL" placeholder:"FILE" group:"Machines"`
	Ramdisk      string            `help:"Initramfs file of the ramdisk." env:"RACKD_RAMDISK" placeholder:"FILE" group:"Machines"`
	Rescue       string            `name:"rescue-ramdisk" help:"Initramfs file of the ramdisk for rescues, which has a shell; it starts with the kernel of --kernel. Without it only nodes that name a ramdisk for rescues themselves can be rescued." env:"RACKD_RESCUE_RAMDISK" placeholder:"FILE" group:"Machines"`
	UKI          string            `name:"uki" help:"Kernel and ramdisk as one UEFI program, for nodes with the boot interface http: their firmware loads it by HTTP, or by PXE, and no boot program before it. ironyard ramdisk build --uki makes it." env:"RACKD_UKI" placeholder:"FILE" group:"Machines"`
	RescueUKI    string            `name:"rescue-uki" help:"The same of the ramdisk for rescues." env:"RACKD_RESCUE_UKI" placeholder:"FILE" group:"Machines"`
	UKIARM64     string            `name:"uki-arm64" help:"That of --uki for machines of arm64: ironyard ramdisk build --arch arm64 --uki makes it." env:"RACKD_UKI_ARM64" placeholder:"FILE" group:"Machines"`
	RescueARM64  string            `name:"rescue-uki-arm64" help:"That of --rescue-uki for machines of arm64." env:"RACKD_RESCUE_UKI_ARM64" placeholder:"FILE" group:"Machines"`
	RamdiskFor   []string          `name:"ramdisk-for" sep:";" help:"A ramdisk for some machines, in place of those above, as name=value divided by commas: arch= (the node's cpu_arch, such as aarch64), class= (its resource class) or both, and files: kernel= and ramdisk=, rescue-ramdisk=, uki=, rescue-uki=. The most specific one decides: class and arch, then class, then arch; driver_info goes before all. Several: give the flag again, or divide them by ;." placeholder:"arch=ARCH,kernel=FILE,ramdisk=FILE" env:"RACKD_RAMDISK_FOR" group:"Machines"`
	KernelParams string            `help:"Additional kernel parameters for the ramdisk." default:"console=tty0 console=ttyS0,115200 cryptomgr.notests" env:"RACKD_KERNEL_PARAMS" group:"Machines"`
	AgentAPIURL  []string          `name:"agent-api-url" help:"URLs for agents to call, four at most, such as central's API. Default: this rackd and up to three others of its group." placeholder:"URL" env:"RACKD_AGENT_API_URLS" group:"Machines"`
	TrustFirst   bool              `name:"trust-first-lookup" help:"Believe the first lookup with one of a machine's MAC addresses. This is for ramdisks that cannot show the id of their boot (virtual media with a fixed image) where no rackd gives addresses. Use it only where strangers reach neither rackd nor the API." env:"RACKD_TRUST_FIRST_LOOKUP" group:"Machines"`
	Discovery    bool              `help:"Let unknown machines boot the ramdisk." env:"RACKD_DISCOVERY" group:"Machines"`
	CacheGiB     float64           `name:"cache-gib" help:"Maximum size of the image cache, in GiB." default:"20" env:"RACKD_CACHE_GIB" group:"Machines"`
	ImageDirs    []string          `help:"Folders from which file:// images may come." env:"RACKD_IMAGE_DIRS" placeholder:"FOLDER" group:"Machines"`
	PlainOCI     []string          `name:"plain-registries" help:"OCI registries that are spoken to without TLS, each as an oci:// address names it." env:"RACKD_PLAIN_REGISTRIES" placeholder:"HOST:PORT" group:"Machines"`
	NoFetchFrom  []netip.Prefix    `help:"Networks that are forbidden for the URLs of images, checksums and config drives, and for those that callers have BMCs read, such as the BMCs' network. Do not give the rack's own network: other rackds serve copies there." placeholder:"CIDR" env:"RACKD_NO_FETCH_FROM" group:"Machines"`
	FetchFrom    []netip.Prefix    `help:"Networks that are allowed for those URLs although the default refuses them. By default loopback, link-local, multicast and unspecified addresses are refused, also inside NAT64, 6to4 and Teredo addresses. A proxy on this machine needs loopback." placeholder:"CIDR" env:"RACKD_FETCH_FROM" group:"Machines"`

	Deadlines        map[string]time.Duration `help:"Time limit of a state, such as 'wait call-back=10m'." env:"RACKD_DEADLINES" group:"Work" name:"deadline" placeholder:"STATE=TIME"`
	HeartbeatTimeout time.Duration            `help:"Heartbeat timeout that agents are told, in whole seconds. They call after 0.3 to 0.6 of it." default:"60s" env:"RACKD_HEARTBEAT_TIMEOUT" group:"Work"`
	PowerSync        time.Duration            `help:"Interval between two readings of an idle node's power state. 0: never." default:"120s" env:"RACKD_POWER_SYNC" group:"Work"`
	PowerRecovery    time.Duration            `help:"First retry interval for the BMC of a node in maintenance with a power fault." default:"300s" env:"RACKD_POWER_RECOVERY" group:"Work"`
	PowerFailures    int                      `help:"Number of failed readings of the power state in a row that put a node into maintenance." default:"3" env:"RACKD_POWER_FAILURES" group:"Work"`
	ForcePower       bool                     `name:"force-power-state" help:"Bring a machine that is found in another power state than the one on record back into that state, as Ironic's force_power_state_during_sync does. It counts for nodes that are manageable, available, active or rescued, that have no work, and are not in maintenance. Without it the state that the machine is found in goes on record." env:"RACKD_FORCE_POWER_STATE" group:"Work"`
	AutomatedClean   bool                     `help:"Clean nodes automatically, unless a node's automated_clean says otherwise." default:"true" negatable:"" env:"RACKD_AUTOMATED_CLEAN" group:"Work"`
	CleanPriority    map[string]int           `help:"Priority of a step in automated cleaning, instead of its own. deploy.erase_devices=0 leaves that step out." env:"RACKD_CLEAN_PRIORITIES" placeholder:"INTERFACE.STEP=N" group:"Work"`
	VerifyPriority   map[string]int           `help:"Priority of a step that runs when a node is verified, instead of its own." env:"RACKD_VERIFY_PRIORITIES" placeholder:"INTERFACE.STEP=N" group:"Work"`
	BMCTimeout       time.Duration            `help:"Time limit for connecting to a BMC, and for its answer. 0: 30s and 60s." default:"30s" env:"RACKD_BMC_TIMEOUT" group:"Work"`
	BMCPace          int                      `help:"How many operations one BMC gets in a second at most, whichever nodes they are for." default:"10" env:"RACKD_BMC_PACE" group:"Work"`

	taskFlags

	BMCNetworks []netip.Prefix `help:"Networks of the BMCs. Rackd dials no other address for a BMC. Default: all except loopback, link-local, multicast and unspecified addresses." placeholder:"CIDR" env:"RACKD_BMC_NETWORKS" group:"BMCs" name:"bmc-networks"`
	CADir       string         `help:"Folder with the PEM files that driver_info may name, for instance in redfish_verify_ca. Rackd reads no other file for it." default:"/etc/ironyard/ca" env:"RACKD_CA_DIR" placeholder:"FOLDER" group:"BMCs" name:"ca-dir"`
	AnsibleDir  string         `help:"Folder with the playbooks and SSH keys of the deploy interface ansible. Rackd's host needs ansible-playbook. Default: there are none." env:"RACKD_ANSIBLE_DIR" placeholder:"FOLDER" group:"Machines" name:"ansible-dir"`

	strangerFlags

	LogJSON bool `help:"Write the log as JSON." env:"RACKD_LOG_JSON" name:"log-json"`
	Debug   bool `help:"Write debug messages to the log." env:"RACKD_DEBUG"`

	Version kong.VersionFlag `help:"Print the version and exit."`
}

// Main runs rackd and exits.
func Main() {
	host, _ := os.Hostname()
	var f flags
	kong.Parse(&f, kong.Name("rackd"), kong.Description(manual), kong.Vars{"hostname": host, "version": "rackd " + release.Text()})
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	go heap.Keep(ctx)
	log := logger(f)
	hearLibraries(log)
	if err := failpoint.ArmFromEnv(); err != nil {
		log.Error("rackd ends", "error", err)
		os.Exit(1)
	}
	if err := run(ctx, f, log); err != nil && !(errors.Is(err, context.Canceled) && ctx.Err() != nil) {
		log.Error("rackd ends", "error", err)
		os.Exit(1)
	}
}

func logger(f flags) *slog.Logger {
	o := &slog.HandlerOptions{}
	if f.Debug {
		o.Level = slog.LevelDebug
	}
	if f.LogJSON {
		return slog.New(slog.NewJSONHandler(os.Stderr, o))
	}
	return slog.New(slog.NewTextHandler(os.Stderr, o))
}

func run(ctx context.Context, f flags, log *slog.Logger) error {
	m, err := f.member()
	if err != nil {
		return err
	}
	cfg := daemon.Config{Name: f.Name, Group: f.Group, Site: f.Site, Drivers: f.Drivers, DataDir: f.Data, Log: log, Observe: f.Observe,
		Deadlines: map[provision.State]time.Duration{}, HeartbeatTimeout: f.HeartbeatTimeout, TrustFirstLookup: f.TrustFirst, PowerSync: f.PowerSync, PowerRecovery: f.PowerRecovery, PowerFailures: f.PowerFailures, ForcePower: f.ForcePower, Sensors: f.sensors(), BMCEvents: f.BMCEvents, EventLog: f.EventLog, BootOrder: f.BootOrder,
		NoAutomatedClean: !f.AutomatedClean, CleanPriorities: f.CleanPriority, VerifyPriorities: f.VerifyPriority,
		CacheBytes: int64(f.CacheGiB * (1 << 30)), ImageDirs: f.ImageDirs, PlainRegistries: f.PlainOCI, BMCTimeout: f.BMCTimeout, BMCPace: f.BMCPace, ISCSIPort: f.ISCSIPort,
		Fetching: outbound.Fetching{Refused: f.NoFetchFrom, Allowed: f.FetchFrom}, BMCs: f.BMCNetworks, CAFolder: f.CADir, AnsibleFolder: f.AnsibleDir, Strangers: f.budget()}
	if cfg.Keys, err = f.keys(m, log); err != nil {
		return err
	}
	cfg.OpenOnly = m != nil
	if err := f.bounds(); err != nil {
		return err
	}
	for name, d := range f.Deadlines {
		info, ok := provision.Describe(provision.State(name))
		if !ok || info.Deadline == 0 || d <= 0 {
			return fmt.Errorf("--deadline %s=%s: want a state that has a deadline, and a time above zero", name, d)
		}
		cfg.Deadlines[info.State] = d
	}
	if f.Interface != "" {
		if cfg.Rack, err = f.rack(); err != nil {
			return err
		}
	}
	if cfg.Conn, err = f.connect(m, log); err != nil {
		return err
	}
	defer cfg.Conn.Close()
	if m == nil {
		return daemon.Run(ctx, cfg, nil)
	}
	g, ctx := errgroup.WithContext(ctx)
	ctx, stop := context.WithCancel(ctx)
	now := make(chan struct{}, 1)
	if f.Key == "" {
		cfg.RenewKeys = func() {
			select {
			case now <- struct{}{}:
			default: // it is about to renew
			}
		}
	}
	g.Go(func() error {
		m.KeepFresh(ctx, log, now, func() { f.takeUp(m, cfg.Keys, log) })
		return nil
	})
	g.Go(func() error { defer stop(); return daemon.Run(ctx, cfg, nil) })
	return g.Wait()
}

// bounds refuses numbers and times that nothing could be done with.
func (f flags) bounds() error {
	for name, d := range map[string]time.Duration{"power-sync": f.PowerSync, "power-recovery": f.PowerRecovery, "bmc-timeout": f.BMCTimeout} {
		if d < 0 {
			return fmt.Errorf("--%s %s: it cannot be negative", name, d)
		}
	}
	switch {
	case f.HeartbeatTimeout < time.Second:
		return fmt.Errorf("--heartbeat-timeout %s: it must be 1s or more", f.HeartbeatTimeout)
	case f.PowerFailures < 1:
		return fmt.Errorf("--power-failures %d: it must be 1 or more", f.PowerFailures)
	case f.ISCSIPort < 1 || f.ISCSIPort > 65535 || f.ISCSIPort == 860:
		return fmt.Errorf("--iscsi-portal-port %d: it must be a port, and not 860, which agents need themselves", f.ISCSIPort)
	case f.BMCPace < 1:
		return fmt.Errorf("--bmc-pace %d: it must be 1 or more", f.BMCPace)
	case f.CacheGiB <= 0:
		return fmt.Errorf("--cache-gib %g: it must be more than 0", f.CacheGiB)
	}
	return errors.Join(f.taskFlags.check(), f.budget().Check())
}

// mostKernelParams leaves room for what a node's fields and rackd itself add (agentapi.MaxCommandLine).
const mostKernelParams = 380

func (f flags) rack() (r *daemon.Rack, err error) {
	r = &daemon.Rack{Interface: f.Interface, Address: f.Address, DHCP: f.DHCP, DHCPRelays: f.DHCPRelays, Mask: net.CIDRMask(f.Prefix, 32), Router: f.Router, DNS: f.DNS,
		HTTPPort: f.HTTPPort, AgentPort: f.AgentPort, HTTPSPort: f.HTTPSPort, HTTPS: boottls.Files{Certificate: f.HTTPSCert, Key: f.HTTPSKey}, BootPrograms: f.BootPrograms, Kernel: f.Kernel, Ramdisk: f.Ramdisk, RescueRamdisk: f.Rescue, UKI: f.UKI, RescueUKI: f.RescueUKI, UKIARM64: f.UKIARM64, RescueUKIARM64: f.RescueARM64,
		KernelParams: strings.Fields(f.KernelParams), Discovery: f.Discovery, RouterAdvertisements: f.RouterAdv}
	if f.Address.IsValid() && !r.Address.Is4() {
		return nil, fmt.Errorf("--address %s: it must be an IPv4 address; an IPv6 address is --address6", f.Address)
	}
	if !f.Address.IsValid() && !f.Address6.IsValid() {
		return nil, fmt.Errorf("--interface %s needs --address or --address6, an address of this rackd on it", f.Interface)
	}
	if err := f.six(r); err != nil {
		return nil, err
	}
	if r.Loaders, err = f.loaders(); err != nil {
		return nil, err
	}
	for _, text := range f.RamdiskFor {
		more, err := rackramdisk.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("--ramdisk-for %w", err)
		}
		r.Ramdisks = append(r.Ramdisks, more)
	}
	for name, port := range map[string]int{"http-port": f.HTTPPort, "agent-port": f.AgentPort, "https-port": f.HTTPSPort} {
		if port < 1 || port > 65535 {
			return nil, fmt.Errorf("--%s %d: a port must be 1 to 65535", name, port)
		}
	}
	if (f.HTTPSCert == "") != (f.HTTPSKey == "") {
		return nil, errors.New("--https-certificate and --https-key: give both or neither")
	}
	if f.Prefix < 1 || f.Prefix > 30 {
		return nil, fmt.Errorf("--prefix %d: it must be 1 to 30", f.Prefix)
	}
	for _, door := range f.AgentAPIURL {
		u, err := url.Parse(door)
		if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil || u.RawQuery != "" || len(door) > 80 || len(f.AgentAPIURL) > 4 {
			return nil, fmt.Errorf("--agent-api-url %q: give up to four URLs of at most 80 bytes, http or https, without user and query", door)
		}
		r.AgentAPIURLs = append(r.AgentAPIURLs, strings.TrimRight(door, "/"))
	}
	if len(f.KernelParams) > mostKernelParams {
		return nil, fmt.Errorf("--kernel-params has %d bytes; with more than %d the kernel would cut off the end of its command line", len(f.KernelParams), mostKernelParams)
	}
	if part := agentapi.Spoiled(f.KernelParams); part != "" {
		return nil, fmt.Errorf("--kernel-params holds %q, which boot loaders read as their own, so that it does not reach the kernel: remove it", part)
	}
	if i := slices.IndexFunc(r.KernelParams, func(p string) bool { return strings.Count(p, `"`)%2 != 0 }); i >= 0 {
		return nil, fmt.Errorf("--kernel-params: %s holds a quote that does not end within the word: give values without spaces", r.KernelParams[i])
	}
	for _, text := range f.DHCPSubnets {
		n, err := dhcp.ParseSubnet(text)
		if err != nil {
			return nil, fmt.Errorf("--dhcp-subnet: %w", err)
		}
		r.Subnets = append(r.Subnets, n)
	}
	for _, text := range f.Networks {
		n, err := daemon.ParseNetwork(text)
		if err != nil {
			return nil, fmt.Errorf("--further-network: %w", err)
		}
		r.Further = append(r.Further, n)
	}
	if len(r.Subnets) > 0 && (f.DHCP != "serve" || !f.Address.IsValid()) {
		return nil, errors.New("--dhcp-subnet: addresses are given with --dhcp serve and --address alone; a proxy is told of networks by --dhcp-relays")
	}
	if f.DHCP == "serve" && f.Address.IsValid() {
		from, to, ok := strings.Cut(f.DHCPRange, "-")
		var err1, err2 error
		r.RangeFrom, err1 = netip.ParseAddr(from)
		r.RangeTo, err2 = netip.ParseAddr(to)
		network := netip.PrefixFrom(f.Address, f.Prefix).Masked()
		switch {
		case !ok || err1 != nil || err2 != nil:
			return nil, fmt.Errorf("--dhcp-range %q: want FROM-TO, two IPv4 addresses", f.DHCPRange)
		case !network.Contains(r.RangeFrom) || !network.Contains(r.RangeTo) || r.RangeTo.Less(r.RangeFrom):
			return nil, fmt.Errorf("--dhcp-range %s: want a first and a last address inside %s, the network of --address %s and --prefix", f.DHCPRange, network, f.Address)
		}
	}
	return r, nil
}

// debianLoaders are the boot loaders besides iPXE, where Debian has them.
var debianLoaders = map[string]string{bootfiles.Shim: "/usr/lib/shim/shimx64.efi.signed", bootfiles.GRUB: "/usr/lib/grub/x86_64-efi-signed/grubnetx64.efi.signed",
	bootfiles.PXELinux: "/usr/lib/PXELINUX/pxelinux.0", bootfiles.PXELinuxCore: "/usr/lib/syslinux/modules/bios/ldlinux.c32"}

// loaders are the files of the boot loaders besides iPXE, empty where they are not wanted. Pxelinux may be left out.
func (f flags) loaders() (map[string]string, error) {
	for name := range f.LoaderFiles {
		if debianLoaders[name] == "" || f.PXELoader != "grub" {
			return nil, fmt.Errorf("--pxe-loader-files %s: with --pxe-loader grub there are %s", name, strings.Join(slices.Sorted(maps.Keys(debianLoaders)), ", "))
		}
	}
	if f.PXELoader != "grub" {
		return nil, nil
	}
	all := maps.Clone(debianLoaders)
	maps.Copy(all, f.LoaderFiles)
	_, err := os.Stat(all[bootfiles.PXELinux])
	if errors.Is(err, fs.ErrNotExist) && f.LoaderFiles[bootfiles.PXELinux] == "" {
		delete(all, bootfiles.PXELinux)
		delete(all, bootfiles.PXELinuxCore)
	}
	return all, nil
}

// member opens the folder of a rackd that has joined, and lets it say what flags would
// say otherwise; nil without one.
func (f *flags) member() (*membership.Member, error) {
	if f.Member == "" {
		if f.Bus == "" || f.Key == "" {
			return nil, errors.New("rackd needs --member, or --bus and --key-file")
		}
		return nil, nil
	}
	m, err := membership.Open(f.Member)
	if err != nil {
		return nil, err
	}
	f.Name, f.Group = m.Scope.Name, m.Scope.Group
	if f.Bus == "" {
		f.Bus = m.BusURL()
	}
	return m, nil
}

// keys reads the keys of the conductor groups.
func (f flags) keys(m *membership.Member, log *slog.Logger) (*seal.Keyring, error) {
	if m != nil && f.Key == "" {
		secretfile.Check(m.Path(membership.KeysFile), log)
		return m.Keyring()
	}
	text, err := secretfile.Read(f.Key, log)
	if err != nil {
		return nil, fmt.Errorf("--key-file: %w", err)
	}
	ring, err := seal.ParseKeyring(string(text), f.Group)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Key, err)
	}
	return ring, nil
}

// takeUp uses the keys that a renewal has brought, where a rackd that runs can.
func (f flags) takeUp(m *membership.Member, keys *seal.Keyring, log *slog.Logger) {
	if f.Key != "" {
		return // the keys are the operator's
	}
	fresh, err := m.Keyring()
	if err == nil {
		err = keys.Adopt(fresh)
	}
	if err != nil {
		log.Warn("the keys in the folder have changed, and are not in use: restart this rackd", "folder", m.Dir, "reason", err)
		return
	}
	log.Info("the keys in the folder have changed, and are in use", "folder", m.Dir)
}

// connect connects to the bus, or begins to: rackd may be started before it.
func (f flags) connect(m *membership.Member, log *slog.Logger) (*nats.Conn, error) {
	shown, err := bus.ShowURLs(f.Bus)
	if err != nil {
		return nil, fmt.Errorf("--bus: %w", err)
	}
	// A server that is gone without a word is noticed within the lease, and while the bus
	// is away writes fail at once: those who wrote try again, and nodes with work go on.
	opts := append(bus.Lasting(log.With("bus", shown)), nats.Name("rackd "+f.Name), nats.ReconnectWait(500*time.Millisecond), nats.PingInterval(time.Second))
	if m != nil {
		own, err := m.BusOptions()
		if err != nil {
			return nil, err
		}
		opts = append(opts, own...)
		if f.Bus == m.BusURL() { // else the operator says where the bus is
			opts = append(opts, nats.SetCustomDialer(m.Dialer()), nats.SkipHostLookup()) // the dialer is to see names
		}
	}
	if f.BusAuth != "" {
		token, err := secretfile.Read(f.BusAuth, log)
		if err != nil {
			return nil, fmt.Errorf("--bus-token-file: %w", err)
		}
		opts = append(opts, nats.Token(strings.TrimSpace(string(token))))
	}
	return nats.Connect(f.Bus, opts...)
}
