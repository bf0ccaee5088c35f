package bmc

import "testing"

// What lets a reader in is taken out of URLs, in each form that a BMC repeats them in. Host and path stay.
func TestURLsLetNoReaderIn(t *testing.T) {
	for said, want := range map[string]string{
		"https://u:p@h/f?s=1":                   "https://h/f",
		"cannot load 'nfs://h:2049/a/b.iso'.":   "cannot load 'nfs://h:2049/a/b.iso'.",
		`https:\/\/u:p@h\/f?s=1 is wrong`:       `https:\/\/h\/f is wrong`,
		"https%3A%2F%2Fu%3Ap%40h%2Ff%3Fs%3D1":   "https%3A%2F%2Fh%2Ff",
		"https://u:p@q@h:8443?s=1#x":            "https://h:8443",
		"http://h/a%20b/c@d":                    "http://h/a%20b/c@d",
		"https://@h/f":                          "https://h/f",
		"see http://a/1?x and http://b@c/2#y, ": "see http://a/1 and http://c/2",
		"http://h/media/1be26c0b/Zm9vYmFyYmF6LXRoZS1jb2RlLW9mLXRoZS1kcml2ZS0x/boot.iso": "http://h/media/1be26c0b/******/boot.iso",
		"/redfish/v1/Systems/1?x": "/redfish/v1/Systems/1?x",
	} {
		if got := Clean(said); got != want {
			t.Errorf("%q became %q, want %q", said, got, want)
		}
	}
}
