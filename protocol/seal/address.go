package seal

import (
	"slices"
	"strings"
)

// Addresses may hold a password: http://USER:PASSWORD@HOST. Whatever the field is called, those who may not see secrets are not shown it.
// A field of a proxy server may leave out the scheme, and its password may hold any sign.

// proxySchemes are those of addresses of proxy servers.
var proxySchemes = []string{"http", "https", "socks4", "socks4a", "socks5", "socks5h"}

// span is a part of a text.
type span struct{ from, to int }

// passwordsIn finds the passwords in the addresses that a text holds. Its time grows as the text does. name is that of the field.
func passwordsIn(name, text string) (all []span) {
	at := strings.LastIndexByte(text, '@')
	if at < 0 {
		return nil
	}
	if OfProxy(name) {
		return ofProxy(text, at)
	}
	for from := 0; from < len(text); {
		end := from + lengthOf(text[from:], ends)
		all = append(all, inWord(text[from:end], from)...)
		from = end + 1
	}
	return all
}

// ends are the signs beside white space that an address ends at.
const ends = "\"'<>"

// ofProxy finds the password in the address of a proxy server, whose last @ is at a place.
func ofProxy(text string, at int) []span {
	from := 0
	// What stands before "://" may also be the user, and the password begin with it.
	if scheme, _, is := strings.Cut(text[:at], "://"); is && slices.Contains(proxySchemes, strings.ToLower(scheme)) {
		from = len(scheme) + len("://")
	}
	user := strings.IndexByte(text[from:at], ':')
	if user < 0 || from+user+1 == at {
		return nil
	}
	return []span{{from + user + 1, at}}
}

// inWord finds the passwords in a word, which begins at a place of the text. Most words are one address.
func inWord(word string, place int) (all []span) {
	last := strings.LastIndexByte(word, '@')
	for from := 0; from < last; {
		i := strings.Index(word[from:last], "://")
		if i < 0 {
			break
		}
		from += i + len("://")
		authority := word[from : from+lengthOf(word[from:], "/?#")]
		at := strings.LastIndexByte(authority, '@')
		if at < 0 {
			// A password with a slash is written wrongly, and is none the less one. A port has digits alone.
			_, port, there := strings.Cut(authority, ":")
			if !there || strings.HasPrefix(authority, "[") || strings.Trim(port, "0123456789") == "" {
				continue
			}
			at = last - from
		}
		user := strings.IndexByte(word[from:from+at], ':')
		if user >= 0 && user+1 < at {
			all = append(all, span{place + from + user + 1, place + from + at})
		}
		from += at
	}
	return all
}

// lengthOf is the length of a text up to white space, or one of the signs that end it.
func lengthOf(text, ends string) int {
	for i := range len(text) {
		if text[i] <= ' ' || strings.IndexByte(ends, text[i]) >= 0 {
			return i
		}
	}
	return len(text)
}

// HoldsPassword reports whether an address in the text of a field holds a password. name is the field's, and any that says proxy is of a
// proxy server.
func HoldsPassword(name, text string) bool { return len(passwordsIn(name, text)) > 0 }

// HoldsMask reports whether mask stands in a text in the place of a password.
func HoldsMask(name, text, mask string) bool {
	return slices.ContainsFunc(passwordsIn(name, text), func(s span) bool { return text[s.from:s.to] == mask })
}

// OfProxy reports whether a field's name says that it holds the addresses of proxy servers.
func OfProxy(name string) bool {
	name = strings.ToLower(name)
	return strings.Contains(name, "proxy") || strings.Contains(name, "proxies")
}

// MaskAddresses returns the text of a field with mask in place of each password in its addresses.
func MaskAddresses(name, text, mask string) string {
	all := passwordsIn(name, text)
	if len(all) == 0 {
		return text
	}
	var b strings.Builder
	from := 0
	for _, s := range all {
		b.WriteString(text[from:s.from])
		b.WriteString(mask)
		from = s.to
	}
	return b.String() + text[from:]
}
