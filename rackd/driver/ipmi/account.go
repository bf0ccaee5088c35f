package ipmi

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
	"github.com/ironyard/ironyard/rackd/driver/ipmi/lan"
	"github.com/ironyard/ironyard/rackd/outbound"
)

// Fields of driver_info, with Ironic's names.
const (
	fieldAddress        = "ipmi_address"
	fieldPort           = "ipmi_port"
	fieldUser           = "ipmi_username"
	fieldPassword       = "ipmi_password"
	fieldPrivilege      = "ipmi_priv_level"
	fieldVersion        = "ipmi_protocol_version"
	fieldSuite          = "ipmi_cipher_suite"
	fieldKey            = "ipmi_hex_kg_key"
	fieldBridging       = "ipmi_bridging"
	fieldLocal          = "ipmi_local_address"
	fieldTransitChannel = "ipmi_transit_channel"
	fieldTransitAddress = "ipmi_transit_address"
	fieldTargetChannel  = "ipmi_target_channel"
	fieldTargetAddress  = "ipmi_target_address"
	fieldNoTimeout      = "ipmi_disable_boot_timeout"
	fieldForce          = "ipmi_force_boot_device"
	// fieldTerminal is of consoles. It is checked with the others, as Ironic does, and no interface here reads it.
	fieldTerminal = "ipmi_terminal_port"
)

// account is what a node's driver_info says.
type account struct {
	host           string
	port           int
	user, password string
	privilege      lan.Privilege
	old            bool
	suite          int // -1: none is given
	key            []byte
	keyText        string
	bridge         *lan.Bridge
	noTimeout      bool
	force          bool
}

var privileges = map[string]lan.Privilege{"ADMINISTRATOR": lan.Administrator, "CALLBACK": lan.Callback, "OPERATOR": lan.Operator, "USER": lan.User}

// reader reads fields and notes all that is wrong with them.
type reader struct {
	n     *node.Document
	wrong []string
}

func (r *reader) refuse(format string, args ...any) {
	r.wrong = append(r.wrong, fmt.Sprintf(format, args...))
}

// number reads a whole number within bounds, in decimal or with 0x; otherwise where it is not given.
func (r *reader) number(field string, lowest, highest, otherwise int) int {
	text := strings.TrimSpace(r.n.DriverString(field))
	if text == "" {
		return otherwise
	}
	v, err := strconv.ParseInt(text, 0, 32)
	if err != nil || int(v) < lowest || int(v) > highest {
		r.refuse("%s is %q: give a number from %d to %d", field, text, lowest, highest)
		return otherwise
	}
	return int(v)
}

// port reads a port, with Ironic's words for those that are none.
func (r *reader) port(field string, otherwise int) int {
	text, err := bmc.Port(r.n, field, strconv.Itoa(otherwise))
	if err != nil {
		r.refuse("%s", strings.TrimSuffix(err.Error(), "."))
		return otherwise
	}
	v, _ := strconv.Atoi(text)
	return v
}

// truth reads a boolean in the words that Ironic takes.
func (r *reader) truth(field string, otherwise bool) bool {
	text := r.n.DriverString(field)
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "":
		return otherwise
	case "true", "t", "1", "on", "yes", "y":
		return true
	case "false", "f", "0", "off", "no", "n":
		return false
	}
	r.refuse("%s is %q: give true or false", field, text)
	return otherwise
}

// parse reads driver_info; errors wrap driver.ErrInvalid and name all that is wrong.
func parse(n *node.Document) (account, error) {
	r := &reader{n: n}
	a := account{user: n.DriverString(fieldUser), password: n.DriverString(fieldPassword), host: strings.TrimSpace(n.DriverString(fieldAddress)),
		port: r.port(fieldPort, 623), noTimeout: r.truth(fieldNoTimeout, true), force: r.truth(fieldForce, false)}
	r.port(fieldTerminal, 0)
	r.address(a.host)
	r.privilege(&a)
	r.version(&a)
	r.lengths(&a)
	r.suite(&a)
	r.key(&a)
	r.bridge(&a)
	if len(r.wrong) > 0 {
		return account{}, fmt.Errorf("node %s: driver_info: %s: %w", n.Label(), strings.Join(r.wrong, "; "), driver.ErrInvalid)
	}
	return a, nil
}

func (r *reader) address(host string) {
	switch {
	case host == "":
		r.refuse("Missing the following IPMI credentials in node's driver_info: %s", fieldAddress)
	case !addressed(host):
		r.refuse("Invalid IPMI address %q: must be a valid IP address or hostname, and its port in %s", host, fieldPort)
	}
}

// addressed reports whether a text is an IP address or may be a host's name.
func addressed(host string) bool {
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

func (r *reader) privilege(a *account) {
	a.privilege = lan.Administrator
	if text := r.n.DriverString(fieldPrivilege); text != "" {
		known := false
		if a.privilege, known = privileges[text]; !known {
			r.refuse("Invalid privilege level value: %q in %s, the valid value can be one of ADMINISTRATOR, CALLBACK, OPERATOR, USER", text, fieldPrivilege)
		}
	}
}

func (r *reader) version(a *account) {
	switch text := r.n.DriverString(fieldVersion); text {
	case "", "2.0", "2": // JSON's 2.0 is a number
	case "1.5":
		a.old = true
	default:
		r.refuse("Invalid IPMI protocol version value %q in %s, the valid value can be one of 2.0, 1.5", text, fieldVersion)
	}
}

// lengths are those of the protocol (sections 13.20 and 22.30): longer ones cannot be sent.
func (r *reader) lengths(a *account) {
	longest := 20
	if a.old {
		longest = 16
	}
	if len(a.password) > longest {
		r.refuse("%s has more than %d bytes, which this version of IPMI cannot send", fieldPassword, longest)
	}
	if len(a.user) > 16 {
		r.refuse("%s has more than 16 bytes, which IPMI cannot send", fieldUser)
	}
}

func (r *reader) suite(a *account) {
	a.suite = -1
	text := strings.TrimSpace(r.n.DriverString(fieldSuite))
	if text == "" {
		return
	}
	v, err := strconv.Atoi(text)
	if err != nil {
		r.refuse("Invalid cipher suite %q in %s, expected a number", text, fieldSuite)
		return
	}
	if a.old {
		r.refuse("Cipher suites cannot be used with IPMI 1.5: remove %s or %s", fieldSuite, fieldVersion)
		return
	}
	if ok, why := lan.Usable(v); !ok {
		r.refuse("%s %d is not used here, because %s: give 17, 3, 16 or 2", fieldSuite, v, why)
		return
	}
	a.suite = v
}

func (r *reader) key(a *account) {
	a.keyText = r.n.DriverString(fieldKey)
	if a.keyText == "" {
		return
	}
	var err error
	switch a.key, err = hex.DecodeString(a.keyText); {
	case a.old:
		r.refuse("%s is of IPMI 2.0: remove it or %s", fieldKey, fieldVersion)
	case len(a.keyText)%2 != 0:
		r.refuse("Number of %s characters is not even", fieldKey)
	case err != nil:
		r.refuse("%s is not hexadecimal", fieldKey)
	case len(a.key) > 20:
		r.refuse("%s has more than 40 digits, which no key of IPMI has", fieldKey)
	}
}

func (r *reader) bridge(a *account) {
	kind := r.n.DriverString(fieldBridging)
	if kind == "" || kind == "no" {
		return
	}
	if kind != "single" && kind != "dual" {
		r.refuse("Invalid value for %s: %q, the valid value can be one of: no, single, dual", fieldBridging, kind)
		return
	}
	needed := []string{fieldTargetChannel, fieldTargetAddress}
	if kind == "dual" {
		needed = append(needed, fieldTransitChannel, fieldTransitAddress)
	}
	for _, field := range needed {
		if r.n.DriverString(field) == "" {
			r.refuse("%s not provided, which %s %s needs", field, fieldBridging, kind)
		}
	}
	b := &lan.Bridge{Local: uint8(r.number(fieldLocal, 0, 255, 0x20)), Dual: kind == "dual",
		TargetChannel: uint8(r.number(fieldTargetChannel, 0, 15, 0)), TargetAddress: uint8(r.number(fieldTargetAddress, 0, 255, 0))}
	if b.Dual {
		b.TransitChannel, b.TransitAddress = uint8(r.number(fieldTransitChannel, 0, 15, 0)), uint8(r.number(fieldTransitAddress, 0, 255, 0))
	}
	a.bridge = b
}

// placed checks an address that is no name. What a name leads to is checked when it is dialled.
func (a account) placed(networks outbound.BMCs) error {
	ip, err := netip.ParseAddr(a.host)
	if err != nil {
		return nil
	}
	if err := networks.Check(ip); err != nil {
		return fmt.Errorf("%s: %w: %w", fieldAddress, err, driver.ErrInvalid)
	}
	return nil
}

// place is host:port.
func (a account) place() string { return net.JoinHostPort(a.host, strconv.Itoa(a.port)) }

// sum changes when anything that a session depends on does.
func (a account) sum() [32]byte {
	return sha256.Sum256([]byte(strings.Join([]string{a.place(), a.user, a.password, a.privilege.String(), strconv.FormatBool(a.old), strconv.Itoa(a.suite), a.keyText}, "\x00")))
}

// secrets are taken out of all that is said.
func (a account) secrets() []string { return []string{a.password, a.keyText} }
