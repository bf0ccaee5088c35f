package seal

import "testing"

func TestMaskProxy(t *testing.T) {
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
		{"image_source", "oci://registry:5000/image@sha256:0123", "oci://registry:5000/image@sha256:0123"},
		{"image_no_proxy", ".example.org,10.0.0.1:80", ".example.org,10.0.0.1:80"},
	} {
		if got := MaskProxy(c.name, c.text, "*"); got != c.want {
			t.Errorf("%s %s: %s, want %s", c.name, c.text, got, c.want)
		}
	}
}
