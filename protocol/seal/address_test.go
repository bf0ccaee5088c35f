package seal

import (
	"strings"
	"testing"
	"time"
)

func TestMaskAddresses(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"image_http_proxy", "http://user:pass@proxy:3128/", "http://user:*@proxy:3128/"},
		{"image_https_proxy", "https://user:p%40ss@[2001:db8::1]:3128", "https://user:*@[2001:db8::1]:3128"},
		{"HTTPS_PROXY", "user:pass@proxy:3128", "user:*@proxy:3128"},
		{"proxy", "http://:pass@proxy", "http://:*@proxy"},
		{"proxy", "http://user:a/b?c#d@e:f@proxy", "http://user:*@proxy"}, // no URL, and no less a password
		{"proxy", "HTTPS://user:pass@proxy", "HTTPS://user:*@proxy"},
		{"proxy", "user:pa://ss@proxy:3128", "user:*@proxy:3128"},
		{"proxy", "user://pass@proxy:3128", "user:*@proxy:3128"},
		{"Proxies", "http://user:pass@proxy", "http://user:*@proxy"},
		{"proxy", "http://user@proxy:3128", "http://user@proxy:3128"},
		{"proxy", "http://user:@proxy:3128", "http://user:@proxy:3128"},
		{"proxy", "http://proxy:3128", "http://proxy:3128"},
		{"proxy", "proxy:3128", "proxy:3128"},
		{"image_no_proxy", ".example.org,10.0.0.1:80", ".example.org,10.0.0.1:80"},

		{"image_source", "https://user:pass@images/a.raw?x=1@2", "https://user:*@images/a.raw?x=1@2"},
		{"image_source", "https://:pass@[2001:db8::1]:8443/a", "https://:*@[2001:db8::1]:8443/a"},
		{"image_source", "https://user:p@ss@images/a@b", "https://user:*@images/a@b"},
		{"image_source", "https://user:a/b@images/c", "https://user:*@images/c"}, // written wrongly
		{"url", "ftp://user:1/x@host", "ftp://user:1/x@host"},                    // which may be a port
		{"image_source", "oci://registry:5000/image@sha256:0123", "oci://registry:5000/image@sha256:0123"},
		{"image_source", "oci://[2001:db8::1]:5000/image@sha256:0123", "oci://[2001:db8::1]:5000/image@sha256:0123"},
		{"libvirt_uri", "qemu+ssh://root@host/system", "qemu+ssh://root@host/system"},
		{"image_source", "https://token:@images/a", "https://token:@images/a"},
		{"kernel_append_params", "a=b inst.ks=http://u:p@h/ks inst.repo=nfs:x:y@z c='ftp://v:q@h' d", "a=b inst.ks=http://u:*@h/ks inst.repo=nfs:x:y@z c='ftp://v:*@h' d"},
		{"text", "http://u:p://v:q@h", "http://u:*@h"},
		{"mail", "someone:else@example.org", "someone:else@example.org"},
		{"text", "@ http://", "@ http://"},
	} {
		if got := MaskAddresses(c.name, c.text, "*"); got != c.want {
			t.Errorf("%s %s: %s, want %s", c.name, c.text, got, c.want)
		}
		if holds := HoldsPassword(c.name, c.text); holds != (c.text != c.want) {
			t.Errorf("%s %s: holds a password: %v", c.name, c.text, holds)
		}
		if holds := HoldsMask(c.name, c.want, "*"); holds != strings.Contains(c.want, ":*@") {
			t.Errorf("%s %s: holds the mask: %v", c.name, c.want, holds)
		}
	}
}

// A text of addresses without an end costs no more than its length: callers may send megabytes.
func TestLongTextsAreReadOnce(t *testing.T) {
	for _, part := range []string{"://", "a://b:c/", "@://", "http://u:p@h ", "://:@", "a:b@", "://[x:y/@"} {
		text := strings.Repeat(part, 4<<20/len(part))
		began := time.Now()
		MaskAddresses("url", text, "*")
		if took := time.Since(began); took > time.Minute {
			t.Errorf("%d bytes of %q take %s", len(text), part, took)
		}
	}
}

func FuzzMaskAddresses(f *testing.F) {
	for _, text := range []string{"http://u:p@h", "a://b:c/d@e f://g:h@i", "://:@", "u:p@h://"} {
		f.Add("url", text)
		f.Add("proxy", text)
	}
	f.Fuzz(func(t *testing.T, name, text string) {
		masked := MaskAddresses(name, text, "******")
		if again := MaskAddresses(name, masked, "******"); again != masked {
			t.Errorf("%q of %q: %q, and then %q", text, name, masked, again)
		}
		if HoldsPassword(name, text) != HoldsMask(name, masked, "******") {
			t.Errorf("%q of %q becomes %q", text, name, masked)
		}
	})
}
