package agentapi

import (
	"slices"
	"strings"
)

// reserved are the kernel parameters that say whom the agent calls, whom it believes, which machine
// it is on and which disks it spares: rackd and its operator write them, no node's fields.
var reserved = []string{ParamAPIURL, ParamAPIFingerprint, ParamNode, ParamBootServer, ParamBootMAC, ParamGuardShared, ParamInsecure, ParamInspection, "initrd",
	"ipa-agent-token", "ipa-agent-token-required", "ipa-ca-file", "ipa-cafile", "ipa-cert-file", "ipa-certfile", "ipa-key-file", "ipa-keyfile",
	"ipa-advertise-host", "ipa-advertise-port", "ipa-advertise-protocol", "ipa-listen-tls", "ipa-enable-auto-tls", "ipa-standalone"}

// Reserved reports whether a word of a kernel's command line is a parameter that only rackd writes, or
// one that would swallow those behind it: with a quote that does not end.
func Reserved(word string) bool {
	name, _, _ := strings.Cut(strings.ReplaceAll(word, `"`, ""), "=")
	name = strings.ReplaceAll(strings.ToLower(name), "_", "-")
	return strings.Count(word, `"`)%2 != 0 || slices.ContainsFunc(reserved, func(r string) bool { return strings.EqualFold(r, name) })
}

// hiding are the kernel parameters that keep hardware from the ramdisk, or run something else in its place.
var hiding = []string{"module-blacklist", "modprobe.blacklist", "rd.driver.blacklist", "initcall-blacklist", "init", "rdinit", "libata.force",
	"libata.ignore-hpa", "scsi-mod.scan", "pci-stub.ids", "vfio-pci.ids", "xen-pciback.hide", "systemd.mask", "systemd.unit", "systemd.run"}

// Hides reports whether a word of a kernel's command line may hide disks from the ramdisk, or the agent from rackd. Who operates
// the machine may have reasons for such a word, who uses its instance has none.
func Hides(word string) bool {
	name, _, _ := strings.Cut(strings.ReplaceAll(word, `"`, ""), "=")
	return slices.Contains(hiding, strings.ReplaceAll(strings.ToLower(name), "_", "-"))
}

// Spoiled returns the first part of a text for a kernel's command line that does not reach the kernel: boot loaders read it as their
// own, so that rackd writes "_" in its place. Empty: all of it does. Words are divided by spaces, tabs and newlines.
func Spoiled(text string) string {
	if strings.Contains(text, "&&") {
		return "&&"
	}
	for _, r := range text {
		if r != '\t' && r != '\n' && r < ' ' || r > '~' || strings.ContainsRune(loadersOwn, r) {
			return string(r)
		}
	}
	return ""
}

// loadersOwn are characters that iPXE, GRUB or pxelinux read as their own.
const loadersOwn = `$|#\`

// Unspoiled writes "_" for all that is spoiled, and for what divides words: one word of a command line.
func Unspoiled(word string) string {
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' || strings.ContainsRune(loadersOwn, r) {
			return '_'
		}
		return r
	}, strings.ReplaceAll(word, "&&", "__"))
}

// MaxCommandLine is how many bytes of its command line Linux reads on x86; it cuts off the rest
// without a word. MaxOwnParams bounds what a node's fields add to it, so that there is room for rackd's.
const (
	MaxCommandLine = 2047
	MaxOwnParams   = 800
)
