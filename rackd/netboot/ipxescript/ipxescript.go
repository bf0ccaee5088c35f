// Package ipxescript writes the iPXE script of a machine: a pure function of what
// the machine is to do.
//
// It may import rackd/netboot and protocol. Text that comes from operators (names,
// reasons) is reduced to printable ASCII without iPXE's special characters, so it
// can neither end a line nor expand a variable.
package ipxescript

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/rackd/netboot"
)

// Ramdisk says where kernel and ramdisk are and what the agent is told.
type Ramdisk struct {
	// HTTP and TFTP are base URLs without a slash at the end.
	HTTP, TFTP string
	// Kernel and Initramfs are file names below them.
	Kernel, Initramfs string
	// Params are added to the kernel's command line.
	Params []string
}

// RetrySeconds is how long a machine waits before it tries again.
const RetrySeconds = 5

// Write returns the script for m, which called from mac (lower case, colons).
func Write(m netboot.Machine, mac string, r Ramdisk) string {
	var b strings.Builder
	b.WriteString("#!ipxe\n")
	switch m.Order {
	case netboot.Ramdisk:
		ramdisk(&b, m, mac, r)
	case netboot.LocalDisk:
		local(&b, m)
	default:
		Refusal(&b, m.Reason)
	}
	return b.String()
}

func ramdisk(b *strings.Builder, m netboot.Machine, mac string, r Ramdisk) {
	base, query := r.HTTP+"/files/", "?mac="+url.QueryEscape(mac)
	if m.OverTFTP {
		base, query = r.TFTP+"/", ""
	}
	params := []string{"initrd=ramdisk"}
	if mac != "" {
		params = append(params, agentapi.ParamBootMAC+"=01-"+strings.ReplaceAll(mac, ":", "-"))
	}
	if m.UUID != "" {
		params = append(params, agentapi.ParamNode+"="+m.UUID)
	}
	params = append(params, r.Params...)
	for i := range params {
		params[i] = word(params[i])
	}
	fmt.Fprintf(b, "echo Ironyard: %s boots the ramdisk, state %s\n", line(label(m)), line(string(m.State)))
	b.WriteString(":again\n")
	fmt.Fprintf(b, "kernel %s%s%s %s || goto failed\n", base, r.Kernel, query, strings.Join(params, " "))
	fmt.Fprintf(b, "initrd --name ramdisk %s%s%s || goto failed\n", base, r.Initramfs, query)
	b.WriteString("boot || goto failed\n:failed\n")
	fmt.Fprintf(b, "echo Ironyard: the ramdisk did not load, trying again in %d s\nsleep %d\ngoto again\n", RetrySeconds, RetrySeconds)
}

// local boots the disk. UEFI goes on with the next boot option when iPXE ends;
// a BIOS does not reliably, so iPXE boots the first disk itself.
func local(b *strings.Builder, m netboot.Machine) {
	fmt.Fprintf(b, "echo Ironyard: %s boots from its disk\n", line(label(m)))
	if m.BootMode == "bios" {
		b.WriteString("sanboot --no-describe --drive 0x80 || exit 1\n")
		return
	}
	b.WriteString("exit 1\n")
}

// Refusal writes lines that show why there is nothing to boot and ask again later.
func Refusal(b *strings.Builder, reason string) {
	fmt.Fprintf(b, "echo\necho Ironyard: nothing to boot.\necho %s\necho Asking again in 30 s.\nsleep 30\nreboot\n", line(reason))
}

func label(m netboot.Machine) string {
	if m.Name == "" {
		return "node " + m.UUID
	}
	return "node " + m.Name + " (" + m.UUID + ")"
}

// line reduces text to one safe line of an iPXE script.
func line(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r < ' ' || r > '~':
			return ' '
		case r == '$' || r == '|' || r == '&' || r == '#' || r == '\\':
			return '_'
		}
		return r
	}, s)
	if len(s) > 400 {
		s = s[:400]
	}
	return s
}

// word is line without spaces, for one kernel parameter.
func word(s string) string { return strings.ReplaceAll(line(s), " ", "_") }
