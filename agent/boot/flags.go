// Package boot wires the agent together: parameters, network, lookup, command API,
// heartbeats, logs, and the machine's end by reboot or power-off.
//
// It may import protocol/agentapi and all packages of the agent; nothing imports it
// but main. In the ramdisk it configures the network and may reboot the machine;
// run as an ordinary program it does neither.
package boot

import (
	"errors"
	"fmt"
	"os"

	"github.com/alecthomas/kong"

	"github.com/ironyard/ironyard/agent/cmdline"
	"github.com/ironyard/ironyard/agent/efiboot"
	"github.com/ironyard/ironyard/protocol/release"
)

// RamdiskFlag tells the agent that it owns the machine.
const RamdiskFlag = "--ramdisk"

const about = `The Ironyard agent runs in a ramdisk on a bare-metal machine. It asks the rackd
of its rack which node it is, then obeys commands: write an image to a disk, erase
disks, describe the hardware, reboot.

In the ramdisk it is /init and takes its settings from the kernel command line:
ipa-api-url, ironyard-api-fingerprint, BOOTIF, ironyard-node, ipa-debug,
ipa-guard-special-filesystems. With ironyard-boot-server it asks a rackd for these,
and with boot_method=vmedia a second virtual medium tells them (label ir-vfd-dev).
Started by hand it takes them from flags, touches only the disks named by --disk,
and never reboots or configures the network; a request to do so ends it.`

// Flags are the settings of the agent.
type Flags struct {
	APIURL         string   `name:"api-url" placeholder:"URL,..." help:"Base URLs (https) of rackds, tried in turn."`
	APIFingerprint string   `name:"api-fingerprint" placeholder:"HEX" help:"SHA-256 of the rackd's certificate. No other certificate is trusted."`
	Node           string   `placeholder:"UUID" help:"UUID of this node. Default: look it up by MAC address."`
	MAC            []string `name:"mac" placeholder:"MAC" help:"MAC addresses for the lookup, instead of the machine's own."`
	BootMAC        string   `name:"boot-mac" placeholder:"MAC" help:"MAC address of the interface that the firmware booted from."`
	Listen         string   `default:":9999" help:"Address of the command API."`
	Advertise      string   `placeholder:"IP" help:"Address that rackd is told for the command API. Default: the one that reaches rackd."`
	Disk           []string `placeholder:"PATH" help:"A disk of the machine: block device or regular file. May be repeated."`
	SpoolDir       string   `name:"spool-dir" default:"/tmp" help:"Folder, in memory, for a qcow2 image while it is converted."`
	TokenFile      string   `name:"token-file" placeholder:"PATH" help:"File for the agent token, so that a restarted agent keeps it."`
	EFIVars        string   `name:"efi-vars" default:"${efivars}" help:"Mount point of the EFI variables."`
	EraseShared    bool     `name:"erase-shared" help:"Also erase disks with a file system that machines share: VMFS, GPFS, GFS2."`
	Debug          bool     `help:"Write debug messages to the log."`
	Ramdisk        bool     `hidden:"" help:"Run as the ramdisk's agent: read the kernel command line, configure the network, reboot the machine."`

	// BootServers are where the other settings are asked for, and AskDHCP: DHCP tells one.
	BootServers []string `kong:"-"`
	AskDHCP     bool     `kong:"-"`
	// ByMedium: a second virtual medium tells the other settings. commandLine is the kernel's.
	ByMedium    bool   `kong:"-"`
	commandLine string `kong:"-"`

	Version kong.VersionFlag `help:"Print the version and exit."`
}

// parse reads the flags, and in the ramdisk the kernel command line.
func parse(args []string) (Flags, error) {
	var f Flags
	parser, err := kong.New(&f, kong.Name("agent"), kong.Description(about), kong.Vars{"efivars": efiboot.Dir, "version": "agent " + release.Text()}, kong.UsageOnError())
	if err != nil {
		return f, err
	}
	if _, err = parser.Parse(args); err != nil {
		return f, err
	}
	if !f.Ramdisk {
		if len(f.Disk) == 0 {
			// Without this rule a try on a workstation could cost its disk.
			return f, errors.New("outside the ramdisk name the disks that may be written: --disk PATH")
		}
		return f, nil
	}
	line, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return f, fmt.Errorf("reading the kernel command line: %w", err)
	}
	return f, f.commanded(string(line))
}

// commanded takes settings from the kernel command line of the ramdisk.
func (f *Flags) commanded(line string) error {
	f.commandLine = line
	return f.kernel(line)
}

// kernel takes settings from the kernel command line. What could be read is set
// even when the error says that something could not.
func (f *Flags) kernel(line string) error {
	p, err := cmdline.Parse(line)
	for i, u := range p.APIURLs {
		if i > 0 {
			f.APIURL += ","
		}
		f.APIURL += u
	}
	f.APIFingerprint, f.BootMAC, f.Node, f.Debug, f.EraseShared = p.Fingerprint, p.BootMAC, p.Node, p.Debug, p.EraseShared
	f.BootServers, f.AskDHCP, f.ByMedium = p.BootServers, p.AskDHCP, p.ByMedium
	f.TokenFile = "/run/ironyard/token"
	return err
}
