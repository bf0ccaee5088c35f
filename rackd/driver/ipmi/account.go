package ipmi

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/ironyard/ironyard/protocol/driverinfo"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
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

// allowed refuses what is wrong with a field by itself. Central refuses the same when the field is set.
func (r *reader) allowed(field string) bool {
	why := driverinfo.Wrong("ipmitool", field, r.n.DriverString(field), r.n.UUID)
	if why != "" {
		r.refuse("%s", why)
	}
	return why == ""
}

// number reads a whole number, in decimal or with 0x; otherwise where it is not given.
func (r *reader) number(field string, otherwise int) int {
	text := strings.TrimSpace(r.n.DriverString(field))
	if text == "" {
		return otherwise
	}
	if !r.allowed(field) {
		return otherwise
	}
	v, _ := strconv.ParseInt(text, 0, 32)
	return int(v)
}

// port reads a port, with Ironic's words for those that are none.
func (r *reader) port(field string, otherwise int) int {
	text := r.n.DriverString(field)
	if text == "" || !r.allowed(field) {
		return otherwise
	}
	v, _ := strconv.Atoi(text)
	return v
}

// truth reads a boolean in the words that Ironic takes.
func (r *reader) truth(field string, otherwise bool) bool {
	if is, known := driverinfo.Truth(r.n.DriverString(field)); known {
		return is
	}
	r.allowed(field)
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
	if host == "" {
		r.refuse("Missing the following IPMI credentials in node's driver_info: %s", fieldAddress)
		return
	}
	r.allowed(fieldAddress)
}

func (r *reader) privilege(a *account) {
	a.privilege = lan.Administrator
	if text := r.n.DriverString(fieldPrivilege); text != "" && r.allowed(fieldPrivilege) {
		a.privilege = privileges[text]
	}
}

func (r *reader) version(a *account) {
	a.old = r.allowed(fieldVersion) && r.n.DriverString(fieldVersion) == "1.5"
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
	r.allowed(fieldUser)
}

func (r *reader) suite(a *account) {
	a.suite = -1
	text := strings.TrimSpace(r.n.DriverString(fieldSuite))
	if text == "" {
		return
	}
	if !r.allowed(fieldSuite) {
		return
	}
	v, _ := strconv.Atoi(text)
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
	if a.old {
		r.refuse("%s is of IPMI 2.0: remove it or %s", fieldKey, fieldVersion)
		return
	}
	if r.allowed(fieldKey) {
		a.key, _ = hex.DecodeString(a.keyText)
	}
}

func (r *reader) bridge(a *account) {
	kind := r.n.DriverString(fieldBridging)
	if kind == "" || kind == "no" || !r.allowed(fieldBridging) {
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
	b := &lan.Bridge{Local: uint8(r.number(fieldLocal, 0x20)), Dual: kind == "dual",
		TargetChannel: uint8(r.number(fieldTargetChannel, 0)), TargetAddress: uint8(r.number(fieldTargetAddress, 0))}
	if b.Dual {
		b.TransitChannel, b.TransitAddress = uint8(r.number(fieldTransitChannel, 0)), uint8(r.number(fieldTransitAddress, 0))
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
