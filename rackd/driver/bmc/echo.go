package bmc

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/ironyard/ironyard/protocol/hardware"
)

// A BMC, or what stands before it, may repeat in an error what it was sent: a body in JSON, a URL, a header, each again in a page
// of HTML. A secret is taken out in each of these forms.

// mask stands where a secret was.
const mask = "******"

// longestLoose is for how many bytes of a secret each character may stand in any form. Longer ones are keys in PEM.
const longestLoose = 256

// shortest is how long a secret is whose base64 is looked for: that of a shorter one is found in words.
const shortest = 4

// Without returns text without a secret.
func Without(text, secret string) string {
	if secret == "" {
		return text
	}
	if len(secret) >= shortest {
		text = takeOutBase64(text, secret)
	}
	if len(secret) <= longestLoose {
		if loose, err := regexp.Compile(anyForm(secret)); err == nil {
			return loose.ReplaceAllLiteralString(text, mask)
		}
	}
	for _, form := range []string{secret, strings.ReplaceAll(secret, "\n", `\n`), url.QueryEscape(secret), url.PathEscape(secret)} {
		text = strings.ReplaceAll(text, form, mask)
	}
	return text
}

// address finds URLs, also as JSON or another URL writes them.
var address = regexp.MustCompile(`(?i)[a-z][a-z0-9+.-]*(?::|%3a)(?:/|\\/|%2f){2}[^\s"'<>]+`)

// parts divides a URL into what comes before its authority, the authority, the path, and what follows.
var parts = regexp.MustCompile(`(?i)^([^:%]+(?::|%3a)(?:/|\\/|%2f){2})((?:[^/\\?#%]|%[^23]|%2[^3f]|%3[^f])*)((?:[^?#%]|%[^23]|%2[^3]|%3[^f])*)(.*)$`)

// WithoutAccess takes out of the URLs in a text what lets its reader in where they lead: user, password, query, and the code of a medium
// that a rackd serves. A BMC that is told of a file repeats the URL when it cannot load it.
func WithoutAccess(text string) string {
	text = address.ReplaceAllStringFunc(text, func(u string) string {
		p := parts.FindStringSubmatch(u)
		if p == nil {
			return mask
		}
		host := p[2]
		for _, at := range []string{"@", "%40"} {
			if i := strings.LastIndex(host, at); i >= 0 {
				host = host[i+len(at):]
			}
		}
		return p[1] + host + p[3]
	})
	return hardware.WithoutCodes(text)
}

func takeOutBase64(text, secret string) string {
	for _, encoded := range []string{base64.StdEncoding.EncodeToString([]byte(secret)), base64.URLEncoding.EncodeToString([]byte(secret))} {
		text = strings.ReplaceAll(strings.ReplaceAll(text, encoded, mask), strings.TrimRight(encoded, "="), mask)
	}
	return text
}

// names are what JSON, HTML and URLs write for some characters besides their numbers.
var names = map[rune][]string{'"': {`\"`, "&quot;"}, '\\': {`\\`}, '/': {`\/`}, '&': {"&amp;"}, '<': {"&lt;"}, '>': {"&gt;"}, '\'': {"&apos;", `\'`}, ' ': {"+", "&nbsp;"},
	'\n': {`\n`}, '\r': {`\r`}, '\t': {`\t`}}

// anyForm is an expression for a secret of which each character stands as it is, or as JSON, HTML or a URL writes it.
func anyForm(secret string) string {
	var b strings.Builder
	for i, r := range secret {
		_, size := utf8.DecodeRuneInString(secret[i:])
		percent := ""
		for _, c := range []byte(secret[i : i+size]) {
			percent += fmt.Sprintf("%%%02x", c)
		}
		b.WriteString("(?:")
		b.WriteString(regexp.QuoteMeta(string(r)))
		for _, name := range names[r] {
			b.WriteString("|" + regexp.QuoteMeta(name))
		}
		fmt.Fprintf(&b, `|(?i:%s|\\u%04x|&#0*%d;|&#x0*%x;))`, percent, r, r, r)
	}
	return b.String()
}

// basic is what a header for basic authentication says of a user, empty for none.
func basic(user, password string) string {
	if password == "" {
		return ""
	}
	return base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
}
