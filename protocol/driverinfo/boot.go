package driverinfo

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/protocol/agentapi"
)

// bootField is a check whose driver names driver_info in front.
func bootField(c check) check {
	return func(field, text, uuid string) string {
		if why := c(field, text, uuid); why != "" {
			return "driver_info " + why
		}
		return ""
	}
}

// kernelParams judges parameters that a node brings beside rackd's own.
func kernelParams(field, text, _ string) string {
	if len(text) > agentapi.MaxOwnParams {
		return fmt.Sprintf("driver_info %s has %d bytes, and at most %d fit on the kernel's command line beside rackd's own", field, len(text), agentapi.MaxOwnParams)
	}
	if part := agentapi.Spoiled(text); part != "" {
		return fmt.Sprintf("driver_info %s holds %q, which boot loaders read as their own, so that it does not reach the kernel: remove it", field, part)
	}
	for p := range strings.FieldsSeq(text) {
		if strings.Count(p, `"`)%2 != 0 {
			return fmt.Sprintf("driver_info %s: %.60q holds a quote that does not end within the word, and would swallow rackd's own parameters or be cut: give values without spaces", field, p)
		}
		if agentapi.Reserved(p) {
			return fmt.Sprintf("driver_info %s: rackd itself sets %.60q: remove it. For all machines of a rack use rackd's --kernel-params and --agent-api-url", field, p)
		}
	}
	return ""
}

// agentParams judges those of machines whose kernel comes with its command line: the agent alone is told more.
func agentParams(field, text, uuid string) string {
	if kernelParams(field, text, uuid) != "" {
		return "" // that rule says it
	}
	for word := range strings.FieldsSeq(text) {
		if word != "%default%" && !strings.HasPrefix(word, "ipa-") {
			return fmt.Sprintf("driver_info %s: %.60q is for the kernel, whose command line is in the rack's program and under its signature: remove it, give it to all machines (ironyard ramdisk build --uki-params), or use http-ipxe", field, word)
		}
	}
	return ""
}

// file is the URL of a kernel or a ramdisk.
func file(field, text, _ string) string {
	u, err := url.Parse(text)
	switch {
	case err != nil, !slices.Contains([]string{"http", "https", "file", "oci", "tftp"}, u.Scheme), u.Path == "", (u.Host == "") != (u.Scheme == "file"):
		return fmt.Sprintf("driver_info %s must be an http, https, tftp, oci or file URL", field)
	case u.User != nil:
		return fmt.Sprintf("driver_info %s contains a user name: any machine on the network can read boot scripts", field)
	}
	return ""
}

// fileForImage is one that rackd reads to make an image of it.
func fileForImage(field, text, uuid string) string {
	if u, err := url.Parse(text); err == nil && u.Scheme == "tftp" && u.Path != "" && u.Host != "" {
		return fmt.Sprintf("driver_info %s is a URL of scheme %s: rackd reads what it puts into an image by http, https or file", field, u.Scheme)
	}
	return file(field, text, uuid)
}

func notLoaded(field, _, _ string) string {
	return fmt.Sprintf("driver_info %s: the boot interface http loads the rack's program, which holds kernel and ramdisk: remove the field, or use http-ipxe", field)
}

// webImage is the URL of an image that BMCs or firmware load.
func webImage(field, text, _ string) string {
	u, err := url.Parse(text)
	switch {
	case err == nil && (u.Scheme == "nfs" || u.Scheme == "cifs" || u.Scheme == "smb"):
		return fmt.Sprintf("driver_info %s is a URL of scheme %s: rackd has BMCs load images by http and https alone", field, u.Scheme)
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return fmt.Sprintf("driver_info %s is not an http or https URL", field)
	}
	return ""
}

// httpsImage is one that firmware loads which loads by https alone.
func httpsImage(field, text, _ string) string {
	if u, err := url.Parse(text); err != nil || u.Host == "" || u.Scheme != "https" {
		return fmt.Sprintf("driver_info %s is not an https URL, and its firmware loads by https alone", field)
	}
	return ""
}

func overHTTPS(field, text, _ string) string {
	if slices.Contains([]string{"true", "True", "false", "False", "verify"}, text) {
		return ""
	}
	return fmt.Sprintf("driver_info %s is %.20q: give true, false or verify", field, text)
}

func notOverHTTPS(field, text, uuid string) string {
	if why := overHTTPS(field, text, uuid); why != "" || strings.EqualFold(text, "false") {
		return why
	}
	return fmt.Sprintf("driver_info %s is for virtual media: firmware loads by https wherever rackd has --https-certificate, and is given its authority by other means: remove the field", field)
}

func secondMedium(field, text, _ string) string {
	if strings.EqualFold(text, "true") || strings.EqualFold(text, "false") {
		return ""
	}
	return fmt.Sprintf("driver_info %s is %.20q: give true or false", field, text)
}

func noSecondMedium(field, text, uuid string) string {
	if strings.EqualFold(text, "true") {
		return fmt.Sprintf("driver_info %s is true, and its firmware loads one image by HTTP, with no second medium: remove the field, or choose redfish-virtual-media", field)
	}
	return secondMedium(field, text, uuid)
}

func noBootloader(field, _, _ string) string {
	return fmt.Sprintf("driver_info %s: rackd makes images with the GRUB of its host, and takes no other boot loader: remove the field, or give a ready image as deploy_iso", field)
}
