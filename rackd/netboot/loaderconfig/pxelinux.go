package loaderconfig

import (
	"fmt"
	"strings"

	"github.com/ironyard/ironyard/rackd/netboot"
	"github.com/ironyard/ironyard/rackd/netboot/ipxescript"
)

// PXELinux returns the configuration of m, which called from mac (lower case, colons).
func PXELinux(m netboot.Machine, mac string, r ipxescript.Ramdisk) string {
	switch {
	case m.Order.Load != nil:
		p, err := prepare(m, mac, r)
		if err != nil {
			return wait(fmt.Sprintf("%s: %v", ipxescript.Label(m), err), mac, true)
		}
		// One that does not load ends at a prompt, which times out into asking again.
		return fmt.Sprintf("SAY %s\nDEFAULT ironyard\nPROMPT 0\nTIMEOUT %d\nONTIMEOUT again\nONERROR again\nLABEL ironyard\nLINUX %s\nINITRD %s\nAPPEND %s\n%s",
			ipxescript.Line(greeting(m, p.what)), 10*ipxescript.RetrySeconds, p.kernel.pxelinux(), p.ramdisk.pxelinux(), strings.Join(p.words, " "), again(mac))
	case m.Order.Disk:
		return fmt.Sprintf("SAY %s\nDEFAULT disk\nPROMPT 0\nLABEL disk\nLOCALBOOT 0\n", ipxescript.Line(greeting(m, "from its disk")))
	}
	text, forGood := reason(m)
	return wait(text, mac, forGood)
}

// PXELinuxUnknown is for a machine that is no node; PXELinuxForeign for a caller that is not the machine; PXELinuxUnheard for a
// machine whose address no rackd knows.
func PXELinuxUnknown(named string) string { return wait(unknown(named), "", true) }

// PXELinuxForeign is explained with PXELinuxUnknown.
func PXELinuxForeign() string { return wait(foreign, "", true) }

// PXELinuxUnheard is explained with PXELinuxUnknown.
func PXELinuxUnheard(_ netboot.Machine, mac string, _ ipxescript.Ramdisk) string {
	return wait(unheard, mac, false)
}

// wait says why there is nothing to load. The machine asks again in a while, or goes on with its next boot device where it has no
// name to ask by.
func wait(why, mac string, forGood bool) string {
	title, seconds := "Ironyard: the boot waits.", ipxescript.RetrySeconds
	if forGood {
		title, seconds = "Ironyard: nothing to boot.", ipxescript.RefusedSeconds
	}
	then := again(mac)
	if mac == "" {
		then = "LABEL again\nLOCALBOOT -1\n"
	}
	return fmt.Sprintf("SAY %s\nSAY Reason: %s\nSAY Going on in %d s.\nDEFAULT again\nPROMPT 1\nTIMEOUT %d\n%s", title, ipxescript.Line(why), seconds, 10*seconds, then)
}

// again reads the machine's configuration once more.
func again(mac string) string {
	return "LABEL again\nCONFIG /" + netboot.PXELinuxPath + netboot.Dashed(mac) + "\n"
}

func (f file) pxelinux() string {
	if f.host == "" {
		return f.path
	}
	return "tftp://" + f.host + f.path
}
