package driverinfo

import (
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	keys "golang.org/x/crypto/ssh"
)

// check says what is wrong with a text.
type check = func(field, text, uuid string) string

func portOf(text string) (n int, isNumber, inRange bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil, err == nil && n >= 1 && n <= 65535
}

// port has Ironic's words.
func port(field, text, _ string) string {
	switch _, isNumber, inRange := portOf(text); {
	case !isNumber:
		return fmt.Sprintf("%s \"%s\" is not a valid integer.", field, text)
	case !inRange:
		return fmt.Sprintf("%s \"%s\" is out of range. Valid port numbers must be between 1 and 65535.", field, text)
	}
	return ""
}

// validPort has the words of Ironic's vendors.
func validPort(field, text, _ string) string {
	if _, _, inRange := portOf(text); !inRange {
		return fmt.Sprintf("%s \"%s\" is not a valid port.", field, text)
	}
	return ""
}

// bare is a check without its full stop, for drivers that list what is wrong.
func bare(c check) check {
	return func(field, text, uuid string) string { return strings.TrimSuffix(c(field, text, uuid), ".") }
}

func number(lowest, highest int) check {
	return func(field, text, _ string) string {
		text = strings.TrimSpace(text)
		if text == "" {
			return ""
		}
		if v, err := strconv.ParseInt(text, 0, 32); err != nil || int(v) < lowest || int(v) > highest {
			return fmt.Sprintf("%s is %q: give a number from %d to %d", field, text, lowest, highest)
		}
		return ""
	}
}

// Truth reads a boolean in the words that Ironic takes.
func Truth(text string) (is, known bool) {
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "true", "t", "1", "on", "yes", "y":
		return true, true
	case "false", "f", "0", "off", "no", "n":
		return false, true
	}
	return false, false
}

func truth(field, text, _ string) string {
	if _, known := Truth(text); !known && strings.TrimSpace(text) != "" {
		return fmt.Sprintf("%s is %q: give true or false", field, text)
	}
	return ""
}

// give takes some words only, and lists them.
func give(list string, words ...string) check {
	return func(field, text, _ string) string {
		if slices.Contains(words, text) {
			return ""
		}
		return fmt.Sprintf("%s is %q: give %s", field, text, list)
	}
}

// says refuses all but some words with one sentence.
func says(sentence string, words ...string) check {
	return func(_, text, _ string) string {
		if slices.Contains(words, text) {
			return ""
		}
		return sentence
	}
}

func longest(most int, format string) check {
	return func(field, text, _ string) string {
		if len(text) > most {
			return fmt.Sprintf(format, field)
		}
		return ""
	}
}

// authorities judges what holds PEM. A word, or a file of the rackd's machine, is the rackd's to judge.
func authorities(field, text, _ string) string {
	if strings.Contains(text, "-----BEGIN") && !x509.NewCertPool().AppendCertsFromPEM([]byte(text)) {
		return field + " holds no PEM certificate"
	}
	return ""
}

// authoritiesFile is for the name of a PEM file, as Ironic has it. A pin is asked for in ilo_verify_ca alone, by which central has racks
// forget keys. So is a check that is left out: it is not to come of a field that says which file checks.
func authoritiesFile(field, text, _ string) string {
	word := strings.ToLower(strings.TrimSpace(text))
	if is, known := Truth(word); known {
		word = strconv.FormatBool(is)
	} else if word != "pin" {
		return authorities("ilo_verify_ca", text, "")
	}
	return fmt.Sprintf("%s is %q, and it is the name of a PEM file: set ilo_verify_ca to %s, and remove %[1]s", field, text, word)
}

// What is around an address of IPv6: strict drivers take off each bracket, the others a pair.
const (
	strict = iota
	paired
)

func host(portField string, brackets int) check {
	return func(field, text, _ string) string {
		if brackets == strict {
			text = strings.Trim(text, "[]")
		} else if text = strings.TrimSpace(text); strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]") {
			text = text[1 : len(text)-1]
		}
		if _, err := netip.ParseAddr(text); err != nil && (text == "" && brackets == paired || strings.ContainsAny(text, "/:@?#% \t\r\n\\")) {
			return fmt.Sprintf("%s is neither a host name nor an address: %q. The port goes into %s.", field, text, portField)
		}
		return ""
	}
}

func wolHost(field, text, _ string) string {
	if _, err := netip.ParseAddr(text); err != nil && strings.ContainsAny(text, "/:[]@?#% \t\r\n\\") {
		return fmt.Sprintf("%s is neither a host name nor an address: %q", field, text)
	}
	return ""
}

func secureOn(field, text, _ string) string {
	if octets, err := hex.DecodeString(strings.NewReplacer(":", "", "-", "").Replace(text)); err != nil || len(octets) != 6 {
		return field + " is not six octets in hexadecimal digits"
	}
	return ""
}

// vendorHost is the address of an iLO or an iRMC.
func vendorHost(account string) check {
	return func(field, text, _ string) string {
		if text = strings.Trim(text, "[]"); strings.ContainsAny(text, "/@?#") {
			return field + " is neither a host name nor an address"
		}
		return endpoint(field, "https://"+net.JoinHostPort(text, "443"), account)
	}
}

// overLAN is such an address where IPMI is spoken, too.
func overLAN(account, portField string) check {
	return func(field, text, uuid string) string {
		text = strings.TrimSpace(strings.Trim(text, "[]"))
		if vendorHost(account)(field, text, uuid) != "" || text == "" || Addressed(text) {
			return "" // another rule says it
		}
		return invalidIPMIAddress(text, portField)
	}
}

// IPMI.

func ipmiAddress(field, text, _ string) string {
	if text = strings.TrimSpace(text); text == "" || Addressed(text) {
		return ""
	}
	return invalidIPMIAddress(text, "ipmi_port")
}

func invalidIPMIAddress(text, portField string) string {
	return fmt.Sprintf("Invalid IPMI address %q: must be a valid IP address or hostname, and its port in %s", text, portField)
}

// Addressed reports whether a text is an IP address or may be a host's name.
func Addressed(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	if len(host) > 253 {
		return false
	}
	for label := range strings.SplitSeq(strings.TrimSuffix(host, "."), ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || strings.Trim(strings.ToLower(label), "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return false
		}
	}
	return true
}

func privilege(field, text, _ string) string {
	if slices.Contains([]string{"ADMINISTRATOR", "CALLBACK", "OPERATOR", "USER"}, text) {
		return ""
	}
	return fmt.Sprintf("Invalid privilege level value: %q in %s, the valid value can be one of ADMINISTRATOR, CALLBACK, OPERATOR, USER", text, field)
}

func ipmiVersion(field, text, _ string) string {
	if slices.Contains([]string{"2.0", "2", "1.5"}, text) { // JSON's 2.0 is a number
		return ""
	}
	return fmt.Sprintf("Invalid IPMI protocol version value %q in %s, the valid value can be one of 2.0, 1.5", text, field)
}

// cipherSuite leaves it to the driver which suites it uses.
func cipherSuite(field, text, _ string) string {
	text = strings.TrimSpace(text)
	if _, err := strconv.Atoi(text); err != nil && text != "" {
		return fmt.Sprintf("Invalid cipher suite %q in %s, expected a number", text, field)
	}
	return ""
}

func ipmiKey(field, text, _ string) string {
	key, err := hex.DecodeString(text)
	switch {
	case len(text)%2 != 0:
		return fmt.Sprintf("Number of %s characters is not even", field)
	case err != nil:
		return field + " is not hexadecimal"
	case len(key) > 20:
		return field + " has more than 40 digits, which no key of IPMI has"
	}
	return ""
}

func bridging(field, text, _ string) string {
	if slices.Contains([]string{"no", "single", "dual"}, text) {
		return ""
	}
	return fmt.Sprintf("Invalid value for %s: %q, the valid value can be one of: no, single, dual", field, text)
}

// Redfish.

func redfishAddress(field, text, _ string) string {
	if !strings.Contains(text, "://") {
		if strings.Count(text, ":") > 1 && !strings.HasPrefix(text, "[") {
			text = "[" + text + "]" // an address of IPv6
		}
		text = "https://" + text
	}
	return endpoint(field, text, "redfish_username and redfish_password")
}

// dracAddress is a host, whose port is a field of its own.
func dracAddress(field, text, _ string) string {
	return endpoint(field, "https://"+net.JoinHostPort(strings.Trim(text, "[]"), "443"), "drac_username and drac_password")
}

func endpoint(field, text, account string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Hostname() == "" {
		return field + " is neither a URL nor a host"
	}
	rest := strings.TrimSuffix(u.Path, "/")
	switch {
	case u.Scheme != "https" && u.Scheme != "http":
		return fmt.Sprintf("%s has the scheme %q: give https", field, u.Scheme)
	case u.User != nil:
		return field + " contains a user name: give it in " + account
	case rest != "" && rest != "/redfish" && rest != "/redfish/v1", u.RawQuery != "", u.Fragment != "":
		return field + " has a path: give scheme, host and port only"
	}
	return ""
}

func redfishSystem(field, text, _ string) string {
	if !strings.HasPrefix(text, "/") {
		text = "/redfish/v1/Systems/" + url.PathEscape(text)
	}
	if strings.ContainsAny(text, "?#@\\ \r\n\t") || path.Clean(text) != strings.TrimSuffix(text, "/") {
		return fmt.Sprintf("%s is %q: give a path such as /redfish/v1/Systems/1", field, text)
	}
	return ""
}

// HPE's and Fujitsu's words.

func seconds(text string) bool {
	s, err := strconv.Atoi(text)
	return err == nil && s >= 1 && s <= 3600
}

func iloTimeout(field, text, _ string) string {
	if seconds(text) {
		return ""
	}
	return fmt.Sprintf("The following iLO parameters from the node's driver_info should be integers: ['%s']", field)
}

func iloProtocol(words ...string) check {
	return func(field, text, _ string) string {
		if slices.Contains(words, strings.ToUpper(text)) {
			return ""
		}
		return fmt.Sprintf("Invalid value %s given for driver_info parameter %s. Give %s.", text, field, strings.Join(words, " or "))
	}
}

func irmcPort(field, text, _ string) string {
	switch p, _, inRange := portOf(text); {
	case !inRange:
		return validPort(field, text, "")
	case p != 80 && p != 443:
		return fmt.Sprintf("Value '%s' is not supported for '%s'.", text, field)
	}
	return ""
}

func irmcWord(words ...string) check {
	return func(field, text, _ string) string {
		if text = strings.ToLower(text); slices.Contains(words, text) {
			return ""
		}
		return fmt.Sprintf("Value '%s' is not supported for '%s'.", text, field)
	}
}

func irmcTimeout(field, text, _ string) string {
	if seconds(text) {
		return ""
	}
	return fmt.Sprintf("Value '%s' is not an integer for '%s'", text, field)
}

func irmcProtocol(words ...string) check {
	return func(field, text, _ string) string {
		if slices.Contains(words, text) {
			return ""
		}
		return fmt.Sprintf("Invalid value %s given for driver info parameter %s, the valid values are %s.", text, field, strings.Join(words, ", "))
	}
}

func irmcSNMPVersion(field, text, _ string) string {
	if slices.Contains([]string{"v1", "v2c", "v3"}, strings.ToLower(text)) {
		return ""
	}
	return fmt.Sprintf("Value '%s' is not supported for '%s'. Give v1, v2c or v3.", text, field)
}

// PDUs.

func pduType(_, text, _ string) string {
	if slices.Contains(PDUs, text) {
		return ""
	}
	return fmt.Sprintf("SNMPPowerDriver: unknown driver: '%s'. There are %s.", text, strings.Join(PDUs, ", "))
}

func pduAddress(field, text, _ string) string {
	if PDUHost(text) != "" {
		return ""
	}
	return fmt.Sprintf("%s is neither a host name nor an address: %q. The port goes into snmp_port.", field, text)
}

// PDUHost is a host name or an address without brackets, empty for what is neither.
func PDUHost(address string) string {
	host := address
	if inner, ok := strings.CutPrefix(address, "["); ok {
		host = strings.TrimSuffix(inner, "]")
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return host
	}
	if strings.ContainsAny(host, "/:[]@?#% \t\r\n\\") {
		return ""
	}
	return host
}

func pduPort(field, text, _ string) string {
	p, err := strconv.ParseUint(text, 10, 16)
	digits := strings.Trim(strings.TrimPrefix(text, "-"), "0123456789") == ""
	switch {
	case err != nil && !digits:
		return fmt.Sprintf("%s \"%s\" is not a valid integer.", field, text)
	case err != nil || p == 0:
		return fmt.Sprintf("SNMPPowerDriver: SNMP UDP port out of range: %s", text)
	}
	return ""
}

func outlet(_, text, _ string) string {
	switch n, err := strconv.Atoi(text); {
	case err != nil:
		return "SNMPPowerDriver: PDU power outlet index is not an integer: " + text
	case n < 1:
		return fmt.Sprintf("SNMPPowerDriver: PDU power outlet index is %d: outlets are counted from 1", n)
	}
	return ""
}

func snmpVersion(_, text, _ string) string {
	if slices.Contains([]string{"1", "2c", "3"}, text) {
		return ""
	}
	return fmt.Sprintf("SNMPPowerDriver: unknown SNMP version: '%s'", text)
}

func snmpProtocol(what string, words []string) check {
	return func(field, text, uuid string) string {
		if slices.Contains(words, text) {
			return ""
		}
		return fmt.Sprintf("SNMPPowerDriver: unknown SNMPv3 %s protocol `driver_info/%s` %s in node %s configuration, known protocols are: %s",
			what, field, text, uuid, strings.Join(words, ", "))
	}
}

// EngineID reads an SnmpEngineID (RFC 3411) in hexadecimal digits; nil for what is none.
func EngineID(text string) []byte {
	id, err := hex.DecodeString(strings.TrimPrefix(strings.TrimPrefix(text, "0x"), "0X"))
	if err != nil || len(id) < 5 || len(id) > 32 {
		return nil
	}
	return id
}

func engineID(field, text, _ string) string {
	if EngineID(text) != nil {
		return ""
	}
	return fmt.Sprintf("%s is %q: give 5 to 32 octets in hexadecimal digits", field, text)
}

func community(_, text, _ string) string {
	if len(text) > longestCommunity {
		return fmt.Sprintf("a community of driver_info has more than %d characters", longestCommunity)
	}
	return ""
}

func shortKey(what, in string) check {
	return func(field, text, uuid string) string {
		if len(text) < shortestKey {
			return fmt.Sprintf("SNMPPowerDriver: short SNMPv3 %s key `driver_info/%s` %s %s configuration (8+ chars required)", what, field, in, uuid)
		}
		return ""
	}
}

func shortest(format string) check {
	return func(field, text, _ string) string {
		if len(text) < shortestKey {
			return fmt.Sprintf(format, field)
		}
		return ""
	}
}

// mostRelays is how many relays an iBoot may have.
const mostRelays = 32

func relay(field, text, _ string) string {
	switch n, err := strconv.Atoi(text); {
	case err != nil:
		return "iBoot PDU relay id must be an integer."
	case n < 1 || n > mostRelays:
		return fmt.Sprintf("%s is %d: relays are counted from 1 to %d", field, n, mostRelays)
	}
	return ""
}

// The rest.

func amtProtocol(_, text, _ string) string {
	if text == "http" || text == "https" {
		return ""
	}
	return fmt.Sprintf("Invalid protocol %s.", text)
}

func virtType(_, text, _ string) string {
	if slices.Contains([]string{"virsh", "vbox", "vmware", "parallels", "xenserver"}, text) {
		return ""
	}
	return fmt.Sprintf("SSHPowerDriver '%s' is not a valid virt_type.", text)
}

func seamicroVersion(_, text, _ string) string {
	if text == "2" {
		return ""
	}
	return fmt.Sprintf("Invalid 'seamicro_api_version' parameter. Reason: Invalid client version '%s'. must be one of: 2.", text)
}

var serverID, profileName = regexp.MustCompile(`^[0-9]+/[0-9]+$`), regexp.MustCompile(`^org-root(/org-[^/]+)*/ls-[^/]+$`)

func seamicroServer(_, text, _ string) string {
	if serverID.MatchString(text) {
		return ""
	}
	return "Invalid 'seamicro_server_id' parameter in node's driver_info. Expected format of 'seamicro_server_id' is <int>/<int>"
}

func ucsProfile(field, text, _ string) string {
	if profileName.MatchString(text) {
		return ""
	}
	return fmt.Sprintf("%s is %q: give a distinguished name such as org-root/ls-web1", field, text)
}

// Hosts of virtual machines, by SSH and by libvirt.

func hostKey(field, text, _ string) string {
	if strings.EqualFold(text, "false") {
		return ""
	}
	if _, _, _, _, err := keys.ParseAuthorizedKey([]byte(text)); err != nil {
		return field + ` is no public key such as "ssh-ed25519 AAAA…": it says which host is the right one. false skips the check`
	}
	return ""
}

func privateKey(field, text, _ string) string {
	if _, err := keys.ParsePrivateKey([]byte(text)); err != nil {
		return field + " is no private key in PEM without a passphrase"
	}
	return ""
}

// keyContents leaves it to the driver whether a passphrase is the key's.
func keyContents(field, text, _ string) string {
	_, err := keys.ParsePrivateKey([]byte(text))
	if _, needs := errors.AsType[*keys.PassphraseMissingError](err); err != nil && !needs {
		return field + " is no private key in PEM, or ssh_password is not its passphrase"
	}
	return ""
}

func keyFile(field, _, _ string) string {
	return field + " is not read: a rackd opens no file for a node. Give the key itself in ssh_key_contents."
}

// word is a boolean in Go's words.
func word(field, text, _ string) string {
	if _, err := strconv.ParseBool(strings.ToLower(text)); err != nil {
		return fmt.Sprintf("%s is %q: give true or false", field, text)
	}
	return ""
}

// libvirtURI takes the transports that ask who calls: libvirt's plain TCP does not.
func libvirtURI(field, text, _ string) string {
	u, err := url.Parse(text)
	if err != nil || u.Path == "" || u.Fragment != "" {
		return field + " is no URI of libvirt, such as qemu+ssh://HOST/system"
	}
	if _, secret := u.User.Password(); secret {
		return field + " holds a password: give it in libvirt_password"
	}
	kind, transport, found := strings.Cut(u.Scheme, "+")
	local := transport == "unix" || !found && u.Host == ""
	if kind == "" || local != (u.Host == "") || found && !slices.Contains([]string{"unix", "tls", "ssh"}, transport) {
		return fmt.Sprintf("%s is %q: give qemu+ssh://HOST/system, qemu+tls://HOST/system or qemu:///system", field, u.Redacted())
	}
	return ""
}

// web reports whether a text is an http or https URL without a user.
func web(text string) (u *url.URL, is bool) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, false
	}
	return u, (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && u.User == nil && u.Fragment == ""
}

func seamicroEndpoint(_, text, _ string) string {
	if u, is := web(text); is && u.RawQuery == "" {
		return ""
	}
	return "Invalid 'seamicro_api_endpoint' parameter in node's driver_info."
}

func msftocsURL(field, text, _ string) string {
	switch u, is := web(text); {
	case u != nil && u.User != nil:
		return field + " holds a user or a password: give them in msftocs_username and msftocs_password"
	case !is || u.RawQuery != "":
		return fmt.Sprintf(`"%s" is not a valid "%s"`, text, field)
	}
	return ""
}

func rpcURL(field, text, _ string) string {
	if _, is := web(text); is {
		return ""
	}
	return field + " is no URL of a service, such as https://HOST/power, without a user and a password"
}

func blade(field, text, _ string) string {
	switch n, err := strconv.Atoi(text); {
	case err != nil:
		return fmt.Sprintf(`"%s" is not a valid "%s"`, text, field)
	case n < 1:
		return fmt.Sprintf(`"%s" must be greater than 0. The provided value is: %d`, field, n)
	}
	return ""
}
