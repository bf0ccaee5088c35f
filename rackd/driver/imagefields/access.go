package imagefields

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

const (
	fieldPullSecret = "image_pull_secret"
	fieldHeader     = "image_request_authorization_secret"
	fieldStrategy   = "image_server_auth_strategy"
	fieldUser       = "image_server_user"
	fieldPassword   = "image_server_password"
	fieldHosts      = "image_server_hosts"
	fieldHTTPProxy  = "image_http_proxy"
	fieldHTTPSProxy = "image_https_proxy"
	fieldNoProxy    = "image_no_proxy"
)

var properties = map[string]string{
	fieldHTTPProxy:  "URL of a proxy server for HTTP connections, by which rackd fetches the node's images. Default: that of rackd's environment.",
	fieldHTTPSProxy: "URL of a proxy server for HTTPS connections, by which rackd fetches the node's images. Default: that of rackd's environment.",
	fieldNoProxy: "A comma-separated list of host names, IP addresses and domain names (with optional :port) that will be excluded from proxying. " +
		"To denote a domain name, use a dot to prefix the domain name. It is ignored without image_http_proxy and image_https_proxy. Default: none.",
	fieldStrategy:   "How rackd logs in to the servers of images: noauth, or http_basic with image_server_user and image_server_password. Default noauth.",
	fieldUser:       "User at the servers of images that image_server_hosts names.",
	fieldPassword:   "Password at the servers of images that image_server_hosts names.",
	fieldPullSecret: "For the servers and registries that image_server_hosts names: user:password, base64 of that as in the auth of a config.json, or a token. instance_info has one of its own, which goes first.",
	fieldHosts: "Hosts, with :port unless it is the usual one, separated by commas, to which the credentials of driver_info are sent. They are sent with TLS, and without it to a host that is given as http://HOST[:PORT], a registry of rackd's --plain-registries included. " +
		"Required with them: another caller may name the image.",
}

// login is what servers of images are shown, and which may be shown it without TLS: as driver.ImageSource has them.
type login struct{ header, inTheClear string }

// authorization returns what the server of the image at u is shown: the credentials of the instance, else those of the
// node where u is at one of its hosts.
func authorization(n *node.Document, u *url.URL) (shown login, wrong []string) {
	own, wrong := ofDriverInfo(n)
	if u == nil {
		return login{}, wrong
	}
	verbatim, secret := n.InstanceString(fieldHeader), n.InstanceString(fieldPullSecret)
	switch {
	case verbatim == "" && secret == "":
		hosts := list(n.DriverString(fieldHosts))
		if own != "" && slices.ContainsFunc(hosts, func(host string) bool { return names(host, u) }) {
			return login{own, strings.Join(openOf(hosts), ",")}, wrong
		}
		return login{}, wrong
	case u.Scheme == "file":
		return login{}, append(wrong, "instance_info has credentials for an image of scheme file: remove them")
	case verbatim != "" && secret != "":
		return login{}, append(wrong, fmt.Sprintf("instance_info has %s and %s: give one", fieldHeader, fieldPullSecret))
	case verbatim != "" && !sendable(verbatim):
		return login{}, append(wrong, fmt.Sprintf("instance_info %s is no value of an Authorization header, as in \"Bearer TOKEN\"", fieldHeader))
	case verbatim != "":
		return login{verbatim, driver.AnyHost}, wrong
	case !sendable(secret):
		return login{}, append(wrong, fmt.Sprintf("instance_info %s holds a character that cannot be sent", fieldPullSecret))
	}
	return login{headerOf(secret), driver.AnyHost}, wrong
}

// ofDriverInfo reads the credentials of driver_info.
func ofDriverInfo(n *node.Document) (header string, wrong []string) {
	strategy, user, password := n.DriverString(fieldStrategy), n.DriverString(fieldUser), n.DriverString(fieldPassword)
	secret := n.DriverString(fieldPullSecret)
	switch strategy {
	case "", "noauth":
		header = headerOf(secret)
	case "http_basic":
		var missing []string
		if user == "" {
			missing = append(missing, "'"+fieldUser+"'")
		}
		if password == "" {
			missing = append(missing, "'"+fieldPassword+"'")
		}
		if len(missing) > 0 {
			wrong = append(wrong, fmt.Sprintf("Missing [%s] fields from HTTP(S) basic auth config", strings.Join(missing, ", ")))
		}
		if strings.Contains(user, ":") {
			wrong = append(wrong, fmt.Sprintf("driver_info %s contains a colon, which no user of HTTP's basic authentication may", fieldUser))
		}
		if secret != "" {
			wrong = append(wrong, fmt.Sprintf("driver_info has %s http_basic and %s: give one", fieldStrategy, fieldPullSecret))
		}
		header = "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
	default:
		wrong = append(wrong, fmt.Sprintf("driver_info %s is %q: give noauth or http_basic", fieldStrategy, strategy))
	}
	if !sendable(secret) {
		wrong = append(wrong, fmt.Sprintf("driver_info %s holds a character that cannot be sent", fieldPullSecret))
	}
	hosts := list(n.DriverString(fieldHosts))
	if header != "" && len(hosts) == 0 {
		wrong = append(wrong, fmt.Sprintf("driver_info has credentials for servers of images and no %s: name the hosts that they are sent to", fieldHosts))
	}
	for _, entry := range hosts {
		h := strings.TrimPrefix(strings.ToLower(entry), inTheClear)
		if u, err := url.Parse("https://" + h); err != nil || u.Host != h || u.Hostname() == "" {
			wrong = append(wrong, fmt.Sprintf("driver_info %s contains %.100q, which is no host or host:port, alone or behind http://", fieldHosts, entry))
		}
	}
	return header, wrong
}

// headerOf turns a pull secret into the value of a header: user:password, base64 of that, or a token.
func headerOf(secret string) string {
	if secret == "" {
		return ""
	}
	if strings.Contains(secret, ":") {
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(secret))
	}
	if plain, err := base64.StdEncoding.DecodeString(secret); err == nil && strings.Contains(string(plain), ":") {
		return "Basic " + secret
	}
	return "Bearer " + secret
}

// sendable reports whether a text can stand in a header.
func sendable(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// inTheClear marks a host of the list that is spoken to without TLS. Without the mark who names the image could have the credentials
// sent where all on the way read them.
const inTheClear = "http://"

// names reports whether a host of the list, with its port, is the one of u. A registry's address does not tell whether that has TLS. So
// both kinds of entry name it, and its client shows credentials without TLS to those that openOf returns.
func names(entry string, u *url.URL) bool {
	host, open := strings.CutPrefix(strings.ToLower(entry), inTheClear)
	if u.Scheme == "http" && !open || u.Scheme == "https" && open {
		return false
	}
	usual := ":443"
	if open {
		usual = ":80"
	}
	plain := func(h string) string { return strings.TrimSuffix(strings.ToLower(h), usual) }
	return plain(host) == plain(u.Host)
}

// openOf returns the hosts of a list that have the mark, without it.
func openOf(entries []string) (hosts []string) {
	for _, entry := range entries {
		if host, open := strings.CutPrefix(strings.ToLower(entry), inTheClear); open {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

func list(text string) (items []string) {
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}

// proxiesOf reads the proxies of a node, with Ironic's rules and words.
func proxiesOf(n *node.Document) (p driver.ImageProxies, wrong []string) {
	p = driver.ImageProxies{HTTP: n.DriverString(fieldHTTPProxy), HTTPS: n.DriverString(fieldHTTPSProxy), No: n.DriverString(fieldNoProxy)}
	var bad []string
	for field, proxy := range map[string]string{fieldHTTPProxy: p.HTTP, fieldHTTPSProxy: p.HTTPS} {
		if proxy == "" {
			continue
		}
		// A value without a scheme is a proxy too, and its port is not one.
		u, err := url.Parse(proxy)
		if err == nil && !strings.Contains(proxy, "://") {
			u, err = url.Parse("http://" + proxy)
		}
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			bad = append(bad, field)
		}
	}
	if len(bad) > 0 {
		slices.Sort(bad)
		wrong = append(wrong, fmt.Sprintf("Proxy URL should either have HTTP(S) scheme or no scheme at all, the following URLs are invalid: %s.", strings.Join(bad, ", ")))
	}
	if !validNoProxy(p.No) {
		wrong = append(wrong, fmt.Sprintf("image_no_proxy should be a list of host names, IP addresses or domain names to exclude from proxying, the specified list %.200q is incorrect. "+
			"To denote a domain name, prefix it with a dot (instead of e.g. '.*').", p.No))
	}
	return p, wrong
}

var hostLabel = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$`)

// validNoProxy is Ironic's check of such a list.
func validNoProxy(text string) bool {
	for item := range strings.SplitSeq(text, ",") {
		host, _, _ := strings.Cut(strings.TrimSpace(item), ":")
		if host == "" {
			continue
		}
		host = strings.TrimPrefix(host, ".")
		if len(host) > 253 || !all(strings.SplitSeq(host, "."), hostLabel.MatchString) {
			return false
		}
	}
	return true
}

func all(items func(func(string) bool), fits func(string) bool) bool {
	for item := range items {
		if !fits(item) {
			return false
		}
	}
	return true
}
