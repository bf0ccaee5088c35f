package seal

import (
	"slices"
	"strings"
)

// proxySchemes are those of addresses of proxy servers.
var proxySchemes = []string{"http", "https", "socks4", "socks4a", "socks5", "socks5h"}

// ProxyPassword finds the password in the address of a proxy server. name is that of the field, and any that says proxy is one.
// Without a password all of the text is before.
func ProxyPassword(name, text string) (before, password, after string) {
	at := strings.LastIndexByte(text, '@')
	if at < 0 || !OfProxy(name) {
		return text, "", ""
	}
	from := 0
	// What stands before "://" may also be the user, and the password begin with it.
	if scheme, _, is := strings.Cut(text[:at], "://"); is && slices.Contains(proxySchemes, strings.ToLower(scheme)) {
		from = len(scheme) + len("://")
	}
	user := strings.IndexByte(text[from:at], ':')
	if user < 0 || from+user+1 == at {
		return text, "", ""
	}
	from += user + 1
	return text[:from], text[from:at], text[at:]
}

// OfProxy reports whether a field's name says that it holds the addresses of proxy servers.
func OfProxy(name string) bool {
	name = strings.ToLower(name)
	return strings.Contains(name, "proxy") || strings.Contains(name, "proxies")
}

// MaskProxy returns the address of a proxy server with mask in place of its password.
func MaskProxy(name, text, mask string) string {
	before, password, after := ProxyPassword(name, text)
	if password == "" {
		return text
	}
	return before + mask + after
}
