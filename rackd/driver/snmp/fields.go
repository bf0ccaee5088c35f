package snmp

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/gosnmp/gosnmp"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
	"github.com/ironyard/ironyard/rackd/driver/snmp/snmpclient"
	"github.com/ironyard/ironyard/rackd/outbound"
)

// Fields of driver_info, with Ironic's names.
const (
	fieldDriver         = "snmp_driver"
	fieldAddress        = "snmp_address"
	fieldOutlet         = "snmp_outlet"
	fieldPort           = "snmp_port"
	fieldVersion        = "snmp_version"
	fieldCommunity      = "snmp_community"
	fieldCommunityRead  = "snmp_community_read"
	fieldCommunityWrite = "snmp_community_write"
	fieldUser           = "snmp_user"
	fieldSecurity       = "snmp_security"
	fieldAuthProtocol   = "snmp_auth_protocol"
	fieldAuthKey        = "snmp_auth_key"
	fieldPrivProtocol   = "snmp_priv_protocol"
	fieldPrivKey        = "snmp_priv_key"
	fieldContextEngine  = "snmp_context_engine_id"
	fieldContextName    = "snmp_context_name"
)

// protocol is a way to authenticate or encrypt, under Ironic's name.
type protocol[P any] struct {
	name string
	is   P
}

var authProtocols = []protocol[gosnmp.SnmpV3AuthProtocol]{
	{"none", gosnmp.NoAuth}, {"md5", gosnmp.MD5}, {"sha", gosnmp.SHA}, {"sha224", gosnmp.SHA224}, {"sha256", gosnmp.SHA256},
	{"sha384", gosnmp.SHA384}, {"sha512", gosnmp.SHA512},
}

// Ironic's aes192 and aes256 lengthen their keys as draft-reeder-snmpv3-usm-3desede does, which most vendors do. Those
// with blmt do it as draft-blumenthal-aes-usm does.
var privProtocols = []protocol[gosnmp.SnmpV3PrivProtocol]{
	{"none", gosnmp.NoPriv}, {"des", gosnmp.DES}, {"aes", gosnmp.AES}, {"aes192", gosnmp.AES192C}, {"aes256", gosnmp.AES256C},
	{"aes192blmt", gosnmp.AES192}, {"aes256blmt", gosnmp.AES256},
}

func protocolNames[P any](list []protocol[P]) (names []string) {
	for _, p := range list {
		names = append(names, p.name)
	}
	return names
}

// target is an outlet and how its PDU is reached, as a node's driver_info has it.
type target struct {
	snmpclient.Target
	model  string
	outlet int
}

// pduNames are the fields that errors name.
var pduNames = snmpclient.Names{Read: fieldCommunityRead, Write: fieldCommunityWrite, Contexts: fieldContextEngine + " and " + fieldContextName,
	Fields: bmc.Fields{Address: fieldAddress, User: fieldUser, Password: fieldAuthKey + ", " + fieldPrivKey}}

// parse reads driver_info. Errors wrap driver.ErrInvalid and have Ironic's words where it has some.
func parse(n *node.Document) (t target, err error) {
	refuse := func(format string, args ...any) (target, error) {
		err := driver.Refuse(format, args...)
		if !strings.Contains(err.Error(), n.UUID) {
			err = fmt.Errorf("node %s: %w", n.Label(), err)
		}
		return target{}, err
	}
	t.Names = pduNames
	var missing []string
	for _, field := range []string{fieldDriver, fieldAddress, fieldOutlet} {
		if n.DriverString(field) == "" {
			missing = append(missing, "'"+field+"'")
		}
	}
	if len(missing) > 0 {
		return refuse("SNMP driver requires the following parameters to be set in node's driver_info: [%s].", strings.Join(missing, ", "))
	}
	if t.model = n.DriverString(fieldDriver); !slices.Contains(modelNames(), t.model) {
		return refuse("SNMPPowerDriver: unknown driver: '%s'. There are %s.", t.model, strings.Join(modelNames(), ", "))
	}
	if t.Host = hostOf(n.DriverString(fieldAddress)); t.Host == "" {
		return refuse("%s is neither a host name nor an address: %q. The port goes into %s.", fieldAddress, n.DriverString(fieldAddress), fieldPort)
	}
	t.Port = 161
	if text := n.DriverString(fieldPort); text != "" {
		port, err := strconv.ParseUint(text, 10, 16)
		if err != nil && !digits(text) {
			return refuse("%s \"%s\" is not a valid integer.", fieldPort, text)
		}
		if err != nil || port == 0 {
			return refuse("SNMPPowerDriver: SNMP UDP port out of range: %s", text)
		}
		t.Port = uint16(port)
	}
	text := n.DriverString(fieldOutlet)
	switch t.outlet, err = strconv.Atoi(text); {
	case err != nil:
		return refuse("SNMPPowerDriver: PDU power outlet index is not an integer: %s", text)
	case t.outlet < 1:
		return refuse("SNMPPowerDriver: PDU power outlet index is %d: outlets are counted from 1", t.outlet)
	}
	switch version := n.DriverString(fieldVersion); version {
	case "", "1":
		t.Version, err = gosnmp.Version1, t.communities(n)
	case "2c":
		t.Version, err = gosnmp.Version2c, t.communities(n)
	case "3":
		t.Version, err = gosnmp.Version3, t.userSecurity(n)
	default:
		return refuse("SNMPPowerDriver: unknown SNMP version: '%s'", version)
	}
	if err != nil {
		return refuse("%s", err)
	}
	return t, nil
}

func (t *target) communities(n *node.Document) error {
	both := n.DriverString(fieldCommunity)
	t.Read, t.Write = both, both
	if own := n.DriverString(fieldCommunityRead); own != "" {
		t.Read = own
	}
	if own := n.DriverString(fieldCommunityWrite); own != "" {
		t.Write = own
	}
	version := n.DriverString(fieldVersion)
	if version == "" {
		version = "1"
	}
	switch {
	case t.Read == "" || t.Write == "":
		return driver.Refuse("SNMP driver requires `%s` or `%s`/`%s` properties to be set for version %s.", fieldCommunity, fieldCommunityRead, fieldCommunityWrite, version)
	case len(t.Read) > snmpclient.LongestCommunity || len(t.Write) > snmpclient.LongestCommunity:
		return driver.Refuse("a community of driver_info has more than %d characters", snmpclient.LongestCommunity)
	}
	return nil
}

// userSecurity reads the fields of version 3.
func (t *target) userSecurity(n *node.Document) error {
	if t.User = n.DriverString(fieldUser); t.User == "" {
		t.User = n.DriverString(fieldSecurity)
	}
	if t.User == "" {
		return driver.Refuse("SNMP driver requires `driver_info/%s` to be set in node %s configuration for SNMP version 3.", fieldUser, n.UUID)
	}
	auth, err := chosen(n, fieldAuthProtocol, "authentication", authProtocols)
	if err != nil {
		return err
	}
	priv, err := chosen(n, fieldPrivProtocol, "privacy", privProtocols)
	if err != nil {
		return err
	}
	t.AuthKey, t.PrivKey = n.DriverString(fieldAuthKey), n.DriverString(fieldPrivKey)
	if t.AuthKey != "" && len(t.AuthKey) < snmpclient.ShortestKey {
		return driver.Refuse("SNMPPowerDriver: short SNMPv3 authentication key `driver_info/%s` in node %s configuration (8+ chars required)", fieldAuthKey, n.UUID)
	}
	if t.PrivKey != "" && len(t.PrivKey) < snmpclient.ShortestKey {
		return driver.Refuse("SNMPPowerDriver: short SNMPv3 privacy key `driver_info/%s` node %s configuration (8+ chars required)", fieldPrivKey, n.UUID)
	}
	t.Auth, t.Priv = gosnmp.NoAuth, gosnmp.NoPriv
	switch {
	case auth != nil:
		t.Auth = *auth
	case t.AuthKey != "":
		t.Auth = gosnmp.MD5
	}
	switch {
	case priv != nil:
		t.Priv = *priv
	case t.PrivKey != "":
		t.Priv = gosnmp.DES
	}
	switch {
	case t.Priv != gosnmp.NoPriv && t.Auth == gosnmp.NoAuth:
		return driver.Refuse("SNMPPowerDriver: SNMPv3 privacy requires authentication. Please add `driver_info/%s` property to node %s configuration.", fieldAuthProtocol, n.UUID)
	case t.Auth != gosnmp.NoAuth && t.AuthKey == "":
		return driver.Refuse("SNMPPowerDriver: missing SNMPv3 authentication key while `driver_info/%s` is present. Please add `driver_info/%s` to node %s configuration.",
			fieldAuthProtocol, fieldAuthKey, n.UUID)
	case t.Priv != gosnmp.NoPriv && t.PrivKey == "":
		return driver.Refuse("SNMPPowerDriver: missing SNMPv3 privacy key while `driver_info/%s` is present. Please add `driver_info/%s` to node %s configuration.",
			fieldPrivProtocol, fieldPrivKey, n.UUID)
	}
	t.Context = n.DriverString(fieldContextName)
	if text := n.DriverString(fieldContextEngine); text != "" {
		id, err := hex.DecodeString(strings.TrimPrefix(strings.TrimPrefix(text, "0x"), "0X"))
		if err != nil || len(id) < 5 || len(id) > 32 { // RFC 3411, SnmpEngineID
			return driver.Refuse("%s is %q: give 5 to 32 octets in hexadecimal digits", fieldContextEngine, text)
		}
		t.Engine = string(id)
	}
	return nil
}

// chosen is the protocol that a field names, nil for an empty field.
func chosen[P any](n *node.Document, field, what string, known []protocol[P]) (*P, error) {
	name := n.DriverString(field)
	if name == "" {
		return nil, nil
	}
	for i := range known {
		if known[i].name == name {
			return &known[i].is, nil
		}
	}
	return nil, driver.Refuse("SNMPPowerDriver: unknown SNMPv3 %s protocol `driver_info/%s` %s in node %s configuration, known protocols are: %s",
		what, field, name, n.UUID, strings.Join(protocolNames(known), ", "))
}

func digits(text string) bool {
	return strings.Trim(strings.TrimPrefix(text, "-"), "0123456789") == ""
}

// hostOf is a host name or an address without brackets, empty for what is neither.
func hostOf(address string) string {
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

// placed checks an address that is no name. What a name leads to is checked when it is dialled.
func (t target) placed(networks outbound.BMCs) error {
	ip, err := netip.ParseAddr(t.Host)
	if err != nil {
		return nil
	}
	if err := networks.Check(ip); err != nil {
		return fmt.Errorf("%s: %w: %w", fieldAddress, err, driver.ErrInvalid)
	}
	return nil
}
