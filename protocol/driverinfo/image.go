package driverinfo

import (
	"fmt"
	"math"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// proxy is of a server that images are fetched by, with Ironic's rule and words. Without a scheme it is one, too.
func proxy(field, text, _ string) string {
	u, err := url.Parse(text)
	if err == nil && !strings.Contains(text, "://") {
		u, err = url.Parse("http://" + text)
	}
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Sprintf("Proxy URL should either have HTTP(S) scheme or no scheme at all, the following URLs are invalid: %s.", field)
	}
	return ""
}

var hostLabel = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$`)

// noProxy is Ironic's check of a list of hosts, with its words.
func noProxy(field, text, _ string) string {
	for item := range strings.SplitSeq(text, ",") {
		host, _, _ := strings.Cut(strings.TrimSpace(item), ":")
		if host == "" {
			continue
		}
		host = strings.TrimPrefix(host, ".")
		fits := len(host) <= 253
		for label := range strings.SplitSeq(host, ".") {
			fits = fits && hostLabel.MatchString(label)
		}
		if !fits {
			return fmt.Sprintf("%s should be a list of host names, IP addresses or domain names to exclude from proxying, the specified list %.200q is incorrect. "+
				"To denote a domain name, prefix it with a dot (instead of e.g. '.*').", field, text)
		}
	}
	return ""
}

// imageHosts are those that credentials of driver_info are sent to.
func imageHosts(field, text, _ string) string {
	for entry := range strings.SplitSeq(text, ",") {
		if entry = strings.TrimSpace(entry); entry == "" {
			continue
		}
		h := strings.TrimPrefix(strings.ToLower(entry), "http://")
		if u, err := url.Parse("https://" + h); err != nil || u.Host != h || u.Hostname() == "" {
			return fmt.Sprintf("driver_info %s contains %.100q, which is no host or host:port, alone or behind http://", field, entry)
		}
	}
	return ""
}

func basicUser(field, text, _ string) string {
	if strings.Contains(text, ":") {
		return fmt.Sprintf("driver_info %s contains a colon, which no user of HTTP's basic authentication may", field)
	}
	return ""
}

func sendable(field, text, _ string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return fmt.Sprintf("driver_info %s holds a character that cannot be sent", field)
	}
	return ""
}

// minDisk takes JSON's numbers, which may come as floating point.
func minDisk(field, text, _ string) string {
	if f, err := strconv.ParseFloat(text, 64); err != nil || !(f >= 1 && f < math.MaxInt64/2) {
		return fmt.Sprintf("driver_info %s is %q: give a number of bytes", field, text)
	}
	return ""
}

// Playbooks.

func ansibleUser(field, text, _ string) string {
	if strings.HasPrefix(text, "-") || strings.ContainsAny(text, " \t\n@/") {
		return fmt.Sprintf("driver_info %s is %.60q, which is no name of a user", field, text)
	}
	for _, mark := range []string{"{{", "{%", "{#", "#jinja2:"} {
		if strings.Contains(text, mark) {
			return fmt.Sprintf("driver_info %s has the mark of a template, which Ansible would execute on rackd's host: remove it", field)
		}
	}
	return ""
}

var pythonPath = regexp.MustCompile(`^/[A-Za-z0-9_][A-Za-z0-9._/+-]*$`)

func interpreter(field, text, _ string) string {
	if !pythonPath.MatchString(text) {
		return fmt.Sprintf("driver_info %s is %.100q: give an absolute path, of letters, digits and the signs . _ / + - alone", field, text)
	}
	return ""
}

func notRead(instead string) check {
	return func(field, _, _ string) string {
		return fmt.Sprintf("driver_info %s is not read, for %s: remove it", field, instead)
	}
}
