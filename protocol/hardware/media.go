package hardware

import "regexp"

// codeOfMedium finds the code in the address of a medium that a rackd serves (rackd/netboot/mediaweb). The address may be written in JSON
// or in another URL.
var codeOfMedium = regexp.MustCompile(`(?i)(media(?:/|\\/|%2f)[^/\\%\s"'<>]{1,64}(?:/|\\/|%2f))[a-z0-9_-]{16,}`)

// codeOfImage finds the code in the address of an image in a rackd's cache (rackd/imagecache), with what names the image behind it.
var codeOfImage = regexp.MustCompile(`(?i)(images(?:/|\\/|%2f))[a-z0-9_-]{22}((?:/|\\/|%2f)[a-z0-9]+-[0-9a-f]{16,})`)

// WithoutCodes is a text without the codes of media and images that rackds serve. Who has such a code may read the medium, as a BMC does:
// a config drive has an instance's secrets. Those who may see what is in a drive may not.
func WithoutCodes(text string) string {
	text = codeOfMedium.ReplaceAllString(text, "${1}******")
	return codeOfImage.ReplaceAllString(text, "${1}******${2}")
}
