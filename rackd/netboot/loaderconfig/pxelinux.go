package loaderconfig

import (
	"fmt"
	"strings"

	"github.com/ironyard/ironyard/rackd/netboot"
	"github.com/ironyard/ironyard/rackd/netboot/bootfiles"
	"github.com/ironyard/ironyard/rackd/netboot/ipxescript"
)

// PXELinux returns the configuration of m, which called from mac (lower case, colons).
func PXELinux(m netboot.Machine, mac string, r ipxescript.Ramdisk) string {
	switch {
	case m.Order.Load != nil:
		p, err := prepare(m, mac, r)
		if err != nil {
			return wait(fmt.Sprintf("%s: %v", ipxescript.Label(m), err), true)
		}
		// One that does not load ends at a prompt, which times out into asking again.
		return fmt.Sprintf("SAY %s\nDEFAULT ironyard\nPROMPT 0\nTIMEOUT %d\nONTIMEOUT again\nONERROR again\nLABEL ironyard\nLINUX %s\nINITRD %s\nAPPEND %s\n%s",
			ipxescript.Line(greeting(m, p.what)), 10*ipxescript.RetrySeconds, p.kernel.pxelinux(), p.ramdisk.pxelinux(), strings.Join(p.words, " "), again)
	case m.Order.Disk:
		return fmt.Sprintf("SAY %s\nDEFAULT disk\nPROMPT 0\nLABEL disk\nLOCALBOOT 0\n", ipxescript.Line(greeting(m, "from "+m.Order.Installed())))
	}
	text, forGood := reason(m)
	return wait(text, forGood)
}

// PXELinuxUnknown is for a machine that is no node; PXELinuxForeign for a caller that is not the machine; PXELinuxUnheard for a
// machine whose address no rackd knows.
func PXELinuxUnknown(named string) string { return wait(unknown(named), true) }

// PXELinuxForeign is explained with PXELinuxUnknown.
func PXELinuxForeign() string { return wait(foreign, true) }

// PXELinuxUnheard is explained with PXELinuxUnknown.
func PXELinuxUnheard(netboot.Machine, string, ipxescript.Ramdisk) string {
	return wait(unheard, false)
}

// wait says why there is nothing to load. The machine asks again in a while.
func wait(why string, forGood bool) string {
	title, seconds := "Ironyard: the boot waits.", ipxescript.RetrySeconds
	if forGood {
		title, seconds = "Ironyard: nothing to boot.", ipxescript.RefusedSeconds
	}
	return fmt.Sprintf("SAY %s\nSAY Reason: %s\nSAY Going on in %d s.\nDEFAULT again\nPROMPT 1\nTIMEOUT %d\n%s", title, ipxescript.Line(why), seconds, 10*seconds, again)
}

// again starts pxelinux once more, which then asks for its configuration. CONFIG in its place fails from the second time on
// (6.04, on iPXE's network).
const again = "LABEL again\nKERNEL /" + bootfiles.PXELinux + "\n"

func (f file) pxelinux() string {
	if f.host == "" {
		return f.path
	}
	return "tftp://" + f.host + f.path
}
