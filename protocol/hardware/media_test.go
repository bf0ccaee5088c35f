package hardware

import (
	"net/url"
	"strings"
	"testing"
)

func TestCodesOfMediaAreHidden(t *testing.T) {
	const code = "Zm9vYmFyYmF6-XRoZS1jb2RlLW9mLXRoZS1kcml2_S0"
	const address = "http://192.0.2.1:8080/media/1be26c0b-03f2-4d2e-ae87-c02d7f33c123/" + code + "/configdrive.img"
	for _, text := range []string{address, "it says '" + address + "'", strings.ReplaceAll(address, "/", `\/`), url.QueryEscape(address), strings.ToUpper(url.PathEscape(address[:20])) + address, address + " " + address} {
		if shown := WithoutCodes(text); strings.Contains(shown, code) || !strings.Contains(shown, "1be26c0b") || !strings.Contains(shown, "configdrive.img") {
			t.Errorf("%s is shown as %s", text, shown)
		}
	}
	const image = "Zm9vYmFyYmF6-XRoZS1jb2"
	at := "http://192.0.2.1:8080/images/" + image + "/sha256-" + strings.Repeat("0a", 32)
	for _, text := range []string{at, "it fetches '" + at + "'", strings.ReplaceAll(at, "/", `\/`), url.QueryEscape(at), at + " " + at} {
		if shown := WithoutCodes(text); strings.Contains(shown, image) || !strings.Contains(shown, "sha256-0a0a") {
			t.Errorf("%s is shown as %s", text, shown)
		}
	}
	for _, text := range []string{"", "http://files.example/images/a-folder-of-22-letters/debian-12.img", "http://files.example/media/debian/boot.iso", "http://files.example/media/x/y/a-name-that-is-longer/boot.iso", "no address"} {
		if shown := WithoutCodes(text); shown != text {
			t.Errorf("%s is shown as %s", text, shown)
		}
	}
}
