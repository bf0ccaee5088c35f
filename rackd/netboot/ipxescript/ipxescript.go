// Package ipxescript writes the iPXE script of a machine: a pure function of what
// the machine is to do.
//
// It may import rackd/bootorder, rackd/netboot and protocol. Text that comes from operators (names,
// reasons, kernel parameters) is reduced to printable ASCII without iPXE's special
// characters, so it can neither end a line, nor expand a variable, nor join commands.
//
// The pxe boot interface is a script as well, whose URLs are tftp: one boot path to
// understand and to test instead of a second one by pxelinux or GRUB, which read
// files that would have to be written per node.
package ipxescript

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/rackd/netboot"
)

// Server is where a rackd serves machines: base URLs without a slash at the end.
type Server struct{ HTTP, TFTP string }

// Ramdisk says where kernel and ramdisk are and what the agent is told.
type Ramdisk struct {
	// Server is the rackd that writes the script.
	Server
	// Others are the rackds that a machine turns to when this one has gone: each can
	// boot any machine of the group.
	Others []Server
	// Kernel and Initramfs are file names below them; empty: the rack has none for the machine.
	Kernel, Initramfs string
	// RescueKernel and RescueInitramfs are those of rescues; empty: Kernel, Initramfs.
	RescueKernel, RescueInitramfs string
	// Params are added to the kernel's command line.
	Params []string
	// Fingerprint is that of the certificate which Doors show, the base URLs that agents call.
	Fingerprint string
	Doors       []string
	// Inspection: ramdisks that are inspected send what they find to the first door, which is central's.
	Inspection bool
}

// Files are the names of the rack's kernel and initramfs for a machine; empty: it has none.
func (r Ramdisk) Files(rescue bool) (kernel, initramfs string) {
	if rescue {
		return cmp.Or(r.RescueKernel, r.Kernel), cmp.Or(r.RescueInitramfs, r.Initramfs)
	}
	return r.Kernel, r.Initramfs
}

// ErrNoRamdisk: the rack has no kernel and initramfs for a machine of its class and architecture.
var ErrNoRamdisk = errors.New("this rack has no kernel and ramdisk for a machine of its resource class and cpu_arch: see rackd's --ramdisk-for")

// RetrySeconds is how long a machine waits before it tries again to load the
// ramdisk; RefusedSeconds how long one waits that has nothing to boot.
const (
	RetrySeconds   = 5
	RefusedSeconds = 30
)

// Write returns the script for m, which called from mac (lower case, colons; empty
// when it named itself by UUID).
func Write(m netboot.Machine, mac string, r Ramdisk) string {
	var b strings.Builder
	b.WriteString("#!ipxe\n")
	switch {
	case m.Order.Load != nil:
		load(&b, m, mac, r)
	case m.Order.Image != nil:
		image(&b, m, mac, r)
	case m.Order.Volumes != nil:
		attach(&b, m, mac, r)
	case m.Order.Disk:
		local(&b, m)
	case m.Order.Again:
		later(&b, m, mac, r)
	default:
		refusal(&b, m.Order.Reason)
	}
	return b.String()
}

func load(b *strings.Builder, m netboot.Machine, mac string, r Ramdisk) {
	racksKernel, racks := r.Files(m.Order.Load.Rescue)
	kernel, err := file(m, mac, r, m.Order.Load.Kernel.URL, racksKernel)
	initramfs, err2 := file(m, mac, r, m.Order.Load.Initramfs.URL, racks)
	if err == nil {
		err = err2
	}
	if l := m.Order.Load; l.Instance && (l.Kernel.URL == "" || l.Initramfs.URL == "") {
		err = errNoInstance
	}
	if err != nil {
		refusal(b, fmt.Sprintf("%s: %v", label(m), err))
		return
	}
	what := What(m)
	list, err := CommandLine(m, mac, r)
	if err != nil {
		refusal(b, fmt.Sprintf("%s: %v", label(m), err))
		return
	}
	words := strings.Join(append([]string{named}, list...), " ")
	fmt.Fprintf(b, "echo Ironyard: %s boots %s, state %s\n", line(label(m)), what, line(string(m.State)))
	b.WriteString("imgfree ||\n") // what an earlier try has loaded
	b.WriteString("echo Ironyard: loading the kernel\n")
	fmt.Fprintf(b, "kernel %s %s || goto failed\n", kernel, words)
	b.WriteString("echo Ironyard: loading the ramdisk\n")
	fmt.Fprintf(b, "initrd --name ramdisk %s || goto failed\n", initramfs)
	b.WriteString("echo Ironyard: starting the kernel\nboot ||\n:failed\n")
	again(b, m, mac, r, what)
}

// again asks once more, for what did not load. Not the same again, and no reboot: the order may have changed meanwhile, and a boot
// device that was set for one boot would be gone.
func again(b *strings.Builder, m netboot.Machine, mac string, r Ramdisk, what string) {
	fmt.Fprintf(b, "echo Ironyard: %s did not load, asking again in %d s\nsleep %d\n", what, RetrySeconds, RetrySeconds)
	chain(b, m, mac, append([]Server{r.Server}, r.Others...))
}

// image boots an image of a CD: iPXE shows it to the firmware as a drive, for as long as the firmware reads it.
func image(b *strings.Builder, m netboot.Machine, mac string, r Ramdisk) {
	at, err := file(m, mac, r, m.Order.Image.URL, "")
	if m.Order.Image.URL == "" {
		err = errors.New("its instance_info names no boot_iso any more")
	}
	if err != nil {
		refusal(b, fmt.Sprintf("%s: %v", label(m), err))
		return
	}
	fmt.Fprintf(b, "echo Ironyard: %s boots its image, state %s\nimgfree ||\nsanboot --no-describe %s ||\n", line(label(m)), line(string(m.State)), at)
	again(b, m, mac, r, "the image")
}

// lengthOf is how many bytes of a command line some parameters take.
func lengthOf(params []string) int { return len(strings.Join(params, " ")) }

// later sends the machine, in a while, to another rackd of the group, and back here when
// none answers.
func later(b *strings.Builder, m netboot.Machine, mac string, r Ramdisk) {
	fmt.Fprintf(b, "echo Ironyard: the boot waits.\necho Reason: %s\necho Asking again in %d s.\nsleep %d\n", line(m.Order.Reason), RetrySeconds, RetrySeconds)
	chain(b, m, mac, append(r.Others[:len(r.Others):len(r.Others)], r.Server))
}

// chain goes on with the script of the first server that answers.
func chain(b *strings.Builder, m netboot.Machine, mac string, servers []Server) {
	chainTo(b, servers, func(s Server) string { return scriptURL(m, mac, s) })
}

func chainTo(b *strings.Builder, servers []Server, script func(Server) string) {
	for _, s := range servers {
		fmt.Fprintf(b, "chain --replace %s || ", script(s))
	}
	b.WriteString("reboot\n")
}

// file returns the URL of kernel or initramfs: the machine's own, or the rack's.
func file(m netboot.Machine, mac string, r Ramdisk, own, name string) (string, error) {
	if own != "" {
		u, err := url.Parse(own)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "tftp" {
			return "", fmt.Errorf("%q is not a URL that a machine can load from: give http or tftp and a host", own)
		}
		return word(u.String()), nil
	}
	if name == "" {
		return "", ErrNoRamdisk
	}
	if m.Order.OverTFTP {
		return r.TFTP + "/" + name, nil
	}
	u := r.HTTP + "/files/" + name
	if mac != "" {
		u += "?mac=" + url.QueryEscape(mac)
	}
	return u, nil
}

// named is the parameter by which UEFI finds the ramdisk.
const named = "initrd=ramdisk"

// CommandLine returns the words of the command line that a boot loader gives the kernel, with none that are for the loader. It fails
// where the kernel would not read all of them.
func CommandLine(m netboot.Machine, mac string, r Ramdisk) ([]string, error) {
	l := m.Order.Load
	if l.Instance && (l.Kernel.URL == "" || l.Initramfs.URL == "") {
		return nil, errNoInstance
	}
	list := params
	if l.Instance {
		list = instanceParams
	}
	if l.Installer != nil {
		list = installerParams
	}
	return readable(list(m, mac, r), named, m, r)
}

// MediumParams are Params for a medium, whose loader adds its own word. It fails where the kernel would not read all of them.
func MediumParams(m netboot.Machine, r Ramdisk, own string) ([]string, error) {
	if m.Order.Load.Instance {
		return readable(instanceParams(m, "", r), own, m, r)
	}
	return readable(Params(m, r), own, m, r)
}

// readable fails for words of a command line, with one of the loader's own, that the kernel would cut off.
func readable(words []string, own string, m netboot.Machine, r Ramdisk) ([]string, error) {
	if n := lengthOf(words) + len(own) + 1; n > agentapi.MaxCommandLine {
		return nil, fmt.Errorf("the command line of the ramdisk's kernel has %d bytes, and the kernel reads %d. Of them %d are kernel_append_params of the node and %d --kernel-params of rackd: shorten these",
			n, agentapi.MaxCommandLine, lengthOf(m.Order.Load.Params), lengthOf(r.Params))
	}
	return words, nil
}

// What names what a machine that has something to load loads, for people.
func What(m netboot.Machine) string {
	switch {
	case m.Order.Load.Installer != nil:
		return "the installer"
	case m.Order.Load.Instance:
		return "the instance"
	}
	return "the ramdisk"
}

// errNoInstance: the instance's files are no longer named.
var errNoInstance = errors.New("its instance_info names no kernel and ramdisk any more")

func params(m netboot.Machine, mac string, r Ramdisk) []string {
	bootif := "01-" + strings.ReplaceAll(mac, ":", "-")
	if mac == "" {
		bootif = "01-${netX/mac:hexhyp}" // the interface that iPXE used last
	}
	return append(Params(m, r), agentapi.ParamBootMAC+"="+bootif)
}

// instanceParams are the words of the command line of an instance's kernel: what the rack gives to all kernels, but nothing that is
// for agents, and what the instance asks for.
func instanceParams(m netboot.Machine, _ string, r Ramdisk) (list []string) {
	for _, p := range r.Params {
		if p != "" && !agentapi.Reserved(p) {
			list = append(list, word(p))
		}
	}
	for _, p := range m.Order.Load.Params {
		if p != "" {
			list = append(list, word(p))
		}
	}
	return list
}

// installerParams are the words of the command line of an installer's kernel: what the instance asks for, and where the installer
// finds its kickstart and its system. Each rackd that may be asked has both. An installer tries them in their order where the
// parameter with .all says so, and an old one the last alone.
func installerParams(m netboot.Machine, mac string, r Ramdisk) []string {
	list := instanceParams(m, mac, r)
	servers := append(r.Others[:len(r.Others):len(r.Others)], r.Server)
	each := func(name, file string) {
		for _, s := range servers {
			list = append(list, word(name+"="+netboot.InstallerURL(s.HTTP, m, file)))
		}
		if len(servers) > 1 {
			list = append(list, name+".all")
		}
	}
	each("inst.ks", netboot.InstallerKickstart)
	if i := m.Order.Load.Installer; i.Stage2.URL != "" {
		each("inst.stage2", netboot.InstallerStage2)
	} else {
		list = append(list, word("inst.repo="+i.Repository))
	}
	if mac != "" {
		list = append(list, agentapi.ParamBootMAC+"=01-"+strings.ReplaceAll(mac, ":", "-"))
	}
	return list
}

// Words are Params as an agent is told them that asked from mac: a command line.
func Words(m netboot.Machine, mac string, r Ramdisk) string {
	return strings.Join(append(Params(m, r), agentapi.ParamBootMAC+"=01-"+strings.ReplaceAll(mac, ":", "-")), " ")
}

// Params are the words of the kernel's command line that a machine gets by whichever way its ramdisk comes. They hold no
// space, no quote that does not end, and no sign that boot loaders read as their own.
func Params(m netboot.Machine, r Ramdisk) (list []string) {
	for _, p := range r.Params {
		if p != "" {
			list = append(list, word(p))
		}
	}
	for _, p := range m.Order.Load.Params {
		if p != "" && !agentapi.Reserved(p) {
			list = append(list, word(p))
		}
	}
	// Of several equal parameters the last wins: whom the agent calls and believes is not the node's to say.
	add := func(name, value string) {
		if value != "" {
			list = append(list, word(name+"="+value))
		}
	}
	add(agentapi.ParamAPIFingerprint, r.Fingerprint)
	var doors []string
	for _, d := range r.Doors {
		doors = append(doors, agentapi.WithBoot(d, m.BootID))
	}
	add(agentapi.ParamAPIURL, strings.Join(doors, ","))
	if r.Inspection && len(doors) > 0 && m.State.In([]provision.State{provision.Inspecting, provision.InspectWait}) {
		add(agentapi.ParamInspection, doors[0]+"/v1/continue_inspection")
	}
	add(agentapi.ParamNode, m.UUID)
	return list
}

// WriteUnheard is for a machine of which no DHCP server here has heard: it speaks DHCP, and asks again.
// It says nothing of the node.
func WriteUnheard(m netboot.Machine, mac string, r Ramdisk) string {
	var b strings.Builder
	b.WriteString("#!ipxe\n")
	fmt.Fprintf(&b, "echo Ironyard: the boot waits.\necho Reason: no rackd has seen which address this machine was given\necho Asking again in %d s.\nsleep %d\n%s netX ||\n", RetrySeconds, RetrySeconds, configures(r))
	chain(&b, m, mac, append([]Server{r.Server}, r.Others...))
	return b.String()
}

// configures is iPXE's command that has it speak DHCP by the version of IP that leads to the server.
func configures(r Ramdisk) string {
	if strings.HasPrefix(r.HTTP, "http://[") {
		return "ifconf --configurator ipv6"
	}
	return "dhcp"
}

// WriteForeign is for a caller that has another address than the machine was given. It says nothing of the node.
func WriteForeign() string {
	var b strings.Builder
	b.WriteString("#!ipxe\n")
	refusal(&b, "this is not the address that DHCP gave the machine whose script was asked for; rackd's log says more")
	return b.String()
}

// WriteElsewhere sends a machine that asked by a way on which it cannot be known to the rackds' own
// servers of scripts. It says nothing of the node but how the caller named it.
func WriteElsewhere(uuid, mac string, r Ramdisk) string {
	var b strings.Builder
	b.WriteString("#!ipxe\necho Ironyard: asking the rack for the boot script\n")
	chain(&b, netboot.Machine{UUID: uuid}, mac, append([]Server{r.Server}, r.Others...))
	return b.String()
}

func scriptURL(m netboot.Machine, mac string, s Server) string {
	switch {
	case mac == "":
		return word(s.HTTP + netboot.ScriptPath + "?uuid=" + url.QueryEscape(m.UUID))
	case m.Order.OverTFTP:
		return word(netboot.TFTPScriptURL(s.TFTP, mac))
	}
	return word(netboot.ScriptURL(s.HTTP, mac))
}

// local boots the disk. UEFI goes on with its next boot option when iPXE ends with
// an error; when it ends well, firmware shows its menu instead. A BIOS does not go
// on reliably, so there iPXE boots the first disk itself.
func local(b *strings.Builder, m netboot.Machine) {
	fmt.Fprintf(b, "echo Ironyard: %s boots from %s\n", line(label(m)), m.Order.Installed())
	if m.BootMode == "bios" {
		b.WriteString("sanboot --no-describe --drive 0x80 || exit 1\n")
		return
	}
	b.WriteString("exit 1\n")
}

// refusal writes lines that show why there is nothing to boot. The machine reboots
// afterwards, so that it asks again, or boots what the BMC tells it to by then.
func refusal(b *strings.Builder, reason string) {
	fmt.Fprintf(b, "echo\necho Ironyard: nothing to boot.\necho Reason: %s\necho Starting again in %d s.\nsleep %d\nreboot\n",
		line(reason), RefusedSeconds, RefusedSeconds)
}

// WriteUnknown is for a machine that is no node, as far as this rackd knows. It says how the machine named itself, and nothing else.
func WriteUnknown(named string) string {
	var b strings.Builder
	b.WriteString("#!ipxe\n")
	refusal(&b, named+" is of no node: enrol the machine and create its port, or switch it off")
	return b.String()
}

// Label names a machine for people.
func Label(m netboot.Machine) string { return label(m) }

func label(m netboot.Machine) string {
	switch {
	case m.UUID == "":
		return "an unknown machine"
	case m.Name == "":
		return "node " + m.UUID
	}
	return "node " + m.Name + " (" + m.UUID + ")"
}
