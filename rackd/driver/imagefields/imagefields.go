// Package imagefields reads what a node's fields say of the image of its instance: where it is, what it must be, and with
// which credentials and proxies the rack fetches it. Every deploy interface that writes an image reads it here.
//
// It may import protocol and rackd/driver. Invariants: it only looks at the node; a credential of driver_info, whose holder
// may differ from the one who names the image, is for the hosts that driver_info names beside it; no message holds a secret.
// Without TLS such a credential goes to the hosts that have the mark for that.
package imagefields

import (
	"fmt"
	"maps"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/protocol/diskformat"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// Formats that an image may be declared to have. Agents are given the first two; the others are converted in the cache.
var formats = []string{diskformat.Raw, diskformat.QCOW2, diskformat.VMDK, diskformat.VHD, diskformat.VHDX, diskformat.VDI}

// compressions are the words for each compression: those of file names too.
var compressions = map[string]string{"": "", "gzip": diskformat.Gzip, "gz": diskformat.Gzip, "zstd": diskformat.Zstd, "zst": diskformat.Zstd,
	"xz": diskformat.XZ, driver.NotCompressed: driver.NotCompressed}

// Properties names the fields of driver_info that are read.
func Properties() map[string]string { return maps.Clone(properties) }

// InstanceFields names those of instance_info.
func InstanceFields() []string {
	return []string{"image_source", "image_checksum", "image_os_hash_algo", "image_os_hash_value", "image_disk_format", "image_compression",
		fieldPullSecret, fieldHeader}
}

// SecretFields names the fields of instance_info that hold credentials.
func SecretFields() []string { return []string{fieldPullSecret, fieldHeader} }

// Source reads the image of a node's instance. wrong names everything that is missing or wrong.
func Source(n *node.Document) (src driver.ImageSource, wrong []string) {
	bad := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	src.URL, src.Arch = n.InstanceString("image_source"), cpuArch(n)
	src.Format = n.InstanceString("image_disk_format")
	u, err := url.Parse(src.URL)
	switch {
	case src.URL == "":
		bad("instance_info has no image_source")
		u = nil
	case err != nil || !slices.Contains([]string{"http", "https", "file", "oci"}, u.Scheme) || u.Path == "" || u.Host == "" && u.Scheme != "file":
		bad("image_source must be an http, https, file or oci URL of an image file; an image of Glance is not known here: give the URL of its file")
		u = nil
	}
	if wrongSum := checksum(n, &src, u); wrongSum != "" {
		wrong = append(wrong, wrongSum)
	}
	if src.Format != "" && !slices.Contains(formats, src.Format) {
		bad("image_disk_format is %q: give raw, qcow2, vmdk, vhd, vhdx or vdi", src.Format)
	}
	said := n.InstanceString("image_compression")
	kind, known := compressions[said]
	if !known {
		bad("image_compression is %q: give gzip, zstd, xz or none", said)
	}
	src.Compression = kind
	proxies, wrongProxies := proxiesOf(n)
	src.Proxies, wrong = proxies, append(wrong, wrongProxies...)
	shown, wrongAccess := authorization(n, u)
	src.Authorization, src.InTheClear, wrong = shown.header, shown.inTheClear, append(wrong, wrongAccess...)
	return src, wrong
}

// cpuArch is the machine's architecture as the node has it; empty: not known.
func cpuArch(n *node.Document) string {
	arch, _ := n.Properties["cpu_arch"].(string)
	return arch
}

// digestBits is the length of a digest in hex digits, by algorithm.
var digestBits = map[string]int{"sha256": 64, "sha512": 128}

var hexDigest = regexp.MustCompile(`^[0-9a-fA-F]+$`)

// checksum reads the digest: image_os_hash_algo with image_os_hash_value, or image_checksum, whose length tells the
// algorithm and which may be the URL of a file of checksums. A file of this rackd's machine and a file of a registry need none.
func checksum(n *node.Document, src *driver.ImageSource, u *url.URL) (wrong string) {
	algo, value := strings.ToLower(n.InstanceString("image_os_hash_algo")), n.InstanceString("image_os_hash_value")
	short := n.InstanceString("image_checksum")
	switch {
	case value != "" && algo == "":
		return "instance_info has image_os_hash_value without image_os_hash_algo"
	case value == "" && short == "" && u != nil && (u.Scheme == "file" || u.Scheme == "oci"):
		return ""
	case value == "" && short == "":
		return "instance_info has no image_checksum (or image_os_hash_algo and image_os_hash_value)"
	case value == "" && (strings.HasPrefix(short, "http://") || strings.HasPrefix(short, "https://")):
		return checksumFile(src, short, u)
	case value == "":
		value = short
		for a, digits := range digestBits {
			if len(value) == digits {
				algo = a
			}
		}
		if algo == "" || len(value) != digestBits[algo] {
			return fmt.Sprintf("image_checksum has %d characters: give a SHA-256 (64) or SHA-512 (128) in hex, or the http or https URL of a file of such checksums; MD5 is not accepted", len(value))
		}
	}
	digits, known := digestBits[algo]
	if !known {
		return fmt.Sprintf("image_os_hash_algo is %q: give sha256 or sha512", algo)
	}
	if len(value) != digits || !hexDigest.MatchString(value) {
		return fmt.Sprintf("the %s of the image must be %d hex digits", algo, digits)
	}
	src.HashAlgo, src.HashValue = algo, strings.ToLower(value)
	return ""
}

// checksumFile takes the URL of a file of checksums, which lists the image by its name.
func checksumFile(src *driver.ImageSource, at string, image *url.URL) (wrong string) {
	u, err := url.Parse(at)
	switch {
	case err != nil || u.Host == "" || u.Path == "":
		return "image_checksum must be a checksum, or the http or https URL of a file of checksums"
	case image != nil && image.Scheme == "oci":
		return "image_checksum is a URL: a registry names its files by checksum; remove it, or give the SHA-256 of the file in hex"
	case image != nil && path.Base(image.Path) == "/":
		return "image_source has no name by which a file of checksums could list it"
	}
	src.HashValue = at
	return ""
}
