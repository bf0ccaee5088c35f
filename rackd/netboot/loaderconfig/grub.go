package loaderconfig

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/rackd/netboot"
	"github.com/ironyard/ironyard/rackd/netboot/ipxescript"
)

// GRUBMain is what GRUB reads first, the same for all machines. It asks for the configuration of its machine until that boots, and
// starts the machine again when the rackd no longer answers: then DHCP names another.
func GRUBMain() string {
	return fmt.Sprintf(`while true; do
set ironyard=
source $prefix/%s$net_default_mac
if [ "$ironyard" != heard ]; then
echo 'Ironyard: this rackd does not answer, starting again in %d s'
sleep %d
reboot
fi
echo 'Ironyard: asking again in %d s'
sleep %d
done
`, strings.TrimPrefix(netboot.TFTPGRUBPath, "grub/"), ipxescript.RefusedSeconds, ipxescript.RefusedSeconds, ipxescript.RetrySeconds, ipxescript.RetrySeconds)
}

// heard begins each configuration.
const heard = "set ironyard=heard\n"

// GRUB returns the configuration of m, which called from mac (lower case, colons).
func GRUB(m netboot.Machine, mac string, r ipxescript.Ramdisk) string {
	switch {
	case m.Order.Load != nil:
		p, err := prepare(m, mac, r)
		if err != nil {
			return grubRefusal(fmt.Sprintf("%s: %v", ipxescript.Label(m), err))
		}
		if i := slices.IndexFunc(p.words, func(w string) bool { return strings.Contains(w, "'") }); i >= 0 {
			return grubRefusal(fmt.Sprintf("%s: the kernel parameter %s holds an apostrophe, which GRUB's configuration cannot: use the boot interface ipxe", ipxescript.Label(m), p.words[i]))
		}
		if i := slices.IndexFunc(p.words, func(w string) bool { return strings.Count(w, `"`)%2 != 0 }); i >= 0 {
			return grubRefusal(fmt.Sprintf("%s: a kernel parameter has a space within quotes, from %s on, which GRUB does not hand on: use the boot interface ipxe", ipxescript.Label(m), p.words[i]))
		}
		words := make([]string, len(p.words))
		for i, w := range p.words {
			words[i] = quoted(strings.ReplaceAll(w, `"`, "")) // GRUB would put a backslash before it, and the kernel reads it as nothing
		}
		return heard + fmt.Sprintf("echo %s\nif linux %s %s; then\nif initrd %s; then\nboot\nfi\nfi\necho %s\n",
			say(greeting(m, p.what)), p.kernel.grub(), strings.Join(words, " "), p.ramdisk.grub(), say("Ironyard: "+p.what+" did not load"))
	case m.Order.Disk:
		return heard + "echo " + say(greeting(m, "from "+m.Order.Installed())) + "\nexit 1\n"
	}
	text, forGood := reason(m)
	if forGood {
		return grubRefusal(text)
	}
	return grubLater(text)
}

// GRUBUnknown is for a machine that is no node; GRUBForeign for a caller that is not the machine; GRUBUnheard for a machine whose
// address no rackd knows: it speaks DHCP once more, and asks again.
func GRUBUnknown(named string) string { return grubRefusal(unknown(named)) }

// GRUBForeign is explained with GRUBUnknown.
func GRUBForeign() string { return grubRefusal(foreign) }

// GRUBUnheard is explained with GRUBUnknown.
func GRUBUnheard(netboot.Machine, string, ipxescript.Ramdisk) string {
	return grubLater(unheard) + "net_bootp\n"
}

func grubRefusal(why string) string {
	return heard + fmt.Sprintf("echo 'Ironyard: nothing to boot.'\necho %s\necho 'Starting again in %d s.'\nsleep %d\nreboot\n", say("Reason: "+why), ipxescript.RefusedSeconds, ipxescript.RefusedSeconds)
}

func grubLater(why string) string {
	return heard + fmt.Sprintf("echo 'Ironyard: the boot waits.'\necho %s\n", say("Reason: "+why))
}

func (f file) grub() string {
	if f.host == "" {
		return quoted(f.path)
	}
	return quoted("(tftp," + f.host + ")" + f.path)
}

// say is text for echo.
func say(text string) string { return quoted(ipxescript.Line(text)) }

// quoted makes one word of text, in which GRUB reads nothing as its own.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", "_") + "'" }
