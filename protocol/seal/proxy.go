package seal

import "strings"

// ProxyPassword finds the password in the address of a proxy server. name is that of the field, and any that says proxy is one.
// Without a password all of the text is before.
func ProxyPassword(name, text string) (before, password, after string) {
	at := strings.LastIndexByte(text, '@')
	if at < 0 || !strings.Contains(strings.ToLower(name), "proxy") {
		return text, "", ""
	}
	from := 0
	if i := strings.Index(text[:at], "://"); i >= 0 {
		from = i + len("://")
	}
	user := strings.IndexByte(text[from:at], ':')
	if user < 0 || from+user+1 == at {
		return text, "", ""
	}
	from += user + 1
	return text[:from], text[from:at], text[at:]
}

// MaskProxy returns the address of a proxy server with mask in place of its password.
func MaskProxy(name, text, mask string) string {
	before, password, after := ProxyPassword(name, text)
	if password == "" {
		return text
	}
	return before + mask + after
}
