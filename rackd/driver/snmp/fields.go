package snmp

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/gosnmp/gosnmp"

	"github.com/ironyard/ironyard/protocol/driverinfo"
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
	for _, field := range []string{fieldDriver, fieldAddress, fieldPort, fieldOutlet, fieldVersion} {
		if why := alone(n, field); why != "" {
			return refuse("%s", why)
		}
	}
	t.model, t.Host, t.Port = n.DriverString(fieldDriver), driverinfo.PDUHost(n.DriverString(fieldAddress)), 161
	if text := n.DriverString(fieldPort); text != "" {
		port, _ := strconv.ParseUint(text, 10, 16)
		t.Port = uint16(port)
	}
	t.outlet, _ = strconv.Atoi(n.DriverString(fieldOutlet))
	switch n.DriverString(fieldVersion) {
	case "2c":
		t.Version, err = gosnmp.Version2c, t.communities(n)
	case "3":
		t.Version, err = gosnmp.Version3, t.userSecurity(n)
	default:
		t.Version, err = gosnmp.Version1, t.communities(n)
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
	auth, priv := chosen(n, fieldAuthProtocol, authProtocols), chosen(n, fieldPrivProtocol, privProtocols)
	for _, field := range []string{fieldAuthProtocol, fieldPrivProtocol} {
		if why := alone(n, field); why != "" {
			return driver.Refuse("%s", why)
		}
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
	if why := alone(n, fieldContextEngine); why != "" {
		return driver.Refuse("%s", why)
	}
	t.Engine = string(driverinfo.EngineID(n.DriverString(fieldContextEngine)))
	return nil
}

// alone says what is wrong with a field by itself. Central refuses the same when the field is set.
func alone(n *node.Document, field string) string {
	return driverinfo.Wrong("snmp", field, n.DriverString(field), n.UUID)
}

// chosen is the protocol that a field names, nil for none.
func chosen[P any](n *node.Document, field string, known []protocol[P]) *P {
	for i := range known {
		if known[i].name == n.DriverString(field) {
			return &known[i].is
		}
	}
	return nil
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
