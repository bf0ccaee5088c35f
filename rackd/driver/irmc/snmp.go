package irmc

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gosnmp/gosnmp"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
	"github.com/ironyard/ironyard/rackd/driver/snmp/snmpclient"
)

// Fields of driver_info for the iRMC's SNMP agent, with Ironic's names.
const (
	fieldSNMPVersion      = "irmc_snmp_version"
	fieldSNMPPort         = "irmc_snmp_port"
	fieldSNMPCommunity    = "irmc_snmp_community"
	fieldSNMPUser         = "irmc_snmp_user"
	fieldSNMPSecurity     = "irmc_snmp_security"
	fieldSNMPAuthProto    = "irmc_snmp_auth_proto"
	fieldSNMPAuthPassword = "irmc_snmp_auth_password"
	fieldSNMPPrivProto    = "irmc_snmp_priv_proto"
	fieldSNMPPrivPassword = "irmc_snmp_priv_password"
)

// withSNMP adds what the fields of SNMP are for.
func withSNMP(properties map[string]string) map[string]string {
	maps.Copy(properties, map[string]string{
		fieldSNMPVersion: "SNMP version; either 'v1', 'v2c' or 'v3'. The default value is 'v2c'. " +
			"SNMP is read by inspections of an iRMC without a Redfish service. Optional.",
		fieldSNMPPort:      "UDP port of the iRMC's SNMP agent. The default value is 161. Optional.",
		fieldSNMPCommunity: "Community for the versions 'v1' and 'v2c'. The default value is 'public'. Optional.",
		fieldSNMPUser:      "User for the version 'v3'. Required there.",
		fieldSNMPSecurity:  "The older name of irmc_snmp_user, which goes before it.",
		fieldSNMPAuthProto: "How 'v3' authenticates; either 'sha' (iRMC S4 and S5), 'sha256', 'sha384' or 'sha512' (S6). " +
			"The default value is 'sha'. Optional.",
		fieldSNMPAuthPassword: "Password for that, of eight characters at least. Required for 'v3'.",
		fieldSNMPPrivProto:    "How 'v3' encrypts; only 'aes'. The default value is 'aes'. Optional.",
		fieldSNMPPrivPassword: "Password for that, of eight characters at least. Required for 'v3'.",
	})
	return properties
}

var (
	snmpVersions  = map[string]gosnmp.SnmpVersion{"v1": gosnmp.Version1, "v2c": gosnmp.Version2c, "v3": gosnmp.Version3}
	snmpAuthProto = map[string]gosnmp.SnmpV3AuthProtocol{"sha": gosnmp.SHA, "sha256": gosnmp.SHA256, "sha384": gosnmp.SHA384,
		"sha512": gosnmp.SHA512}
	snmpPrivProto = map[string]gosnmp.SnmpV3PrivProtocol{"aes": gosnmp.AES}
)

// readSNMP reads how the iRMC's SNMP agent is reached, and refuses it in Ironic's words.
func readSNMP(n *node.Document) (snmpclient.Target, error) {
	names := bmc.Fields{Address: fieldAddress + ", " + fieldSNMPPort + ", " + fieldSNMPVersion + " and " + fieldSNMPCommunity,
		User: fieldSNMPUser, Password: fieldSNMPAuthPassword + ", " + fieldSNMPPrivPassword}
	t := snmpclient.Target{Host: strings.Trim(n.DriverString(fieldAddress), "[]"), Names: snmpclient.Names{Read: fieldSNMPCommunity, Fields: names}}
	version, known := snmpVersions[strings.ToLower(cmp.Or(n.DriverString(fieldSNMPVersion), "v2c"))]
	if !known {
		return t, driver.Refuse("Value '%s' is not supported for '%s'. Give v1, v2c or v3.", n.DriverString(fieldSNMPVersion), fieldSNMPVersion)
	}
	t.Version = version
	port := cmp.Or(n.DriverString(fieldSNMPPort), "161")
	p, err := strconv.ParseUint(port, 10, 16)
	if err != nil || p == 0 {
		return t, driver.Refuse("%s \"%s\" is not a valid port.", fieldSNMPPort, port)
	}
	t.Port = uint16(p)
	if version == gosnmp.Version3 {
		err := readUser(n, &t)
		return t, err
	}
	if !isText(n, fieldSNMPCommunity) {
		return t, driver.Refuse("The value is not a string for '%s'.", fieldSNMPCommunity)
	}
	t.Read = cmp.Or(n.DriverString(fieldSNMPCommunity), "public")
	if len(t.Read) > snmpclient.LongestCommunity {
		return t, driver.Refuse("%s has more than %d characters.", fieldSNMPCommunity, snmpclient.LongestCommunity)
	}
	return t, nil
}

// readUser reads the fields of version 3, which all iRMCs authenticate and encrypt.
func readUser(n *node.Document, t *snmpclient.Target) error {
	user := fieldSNMPUser
	if n.DriverString(user) == "" && n.DriverString(fieldSNMPSecurity) != "" {
		user = fieldSNMPSecurity
	}
	t.User, t.AuthKey, t.PrivKey = n.DriverString(user), n.DriverString(fieldSNMPAuthPassword), n.DriverString(fieldSNMPPrivPassword)
	// With another key to encrypt by, an agent may find no request in what it gets, and say nothing.
	t.Names.Address, t.Names.User = fieldAddress+", "+fieldSNMPPort+", "+fieldSNMPVersion+" and "+fieldSNMPPrivPassword, user
	given := []struct{ field, value string }{{user, t.User}, {fieldSNMPAuthPassword, t.AuthKey}, {fieldSNMPPrivPassword, t.PrivKey}}
	var missing []string
	for _, f := range given {
		if f.value == "" {
			missing = append(missing, "'"+f.field+"'")
		}
	}
	if len(missing) > 0 {
		return driver.Refuse("The following required SNMP parameters are missing: [%s]", strings.Join(missing, ", "))
	}
	for _, f := range given {
		switch {
		case !isText(n, f.field):
			return driver.Refuse("The value is not a string for '%s'.", f.field)
		case f.field != user && len(f.value) < snmpclient.ShortestKey:
			return driver.Refuse("%s is too short. (%d+ chars required)", f.field, snmpclient.ShortestKey)
		}
	}
	var err error
	if t.Auth, err = oneOf(n, fieldSNMPAuthProto, "sha", snmpAuthProto); err == nil {
		t.Priv, err = oneOf(n, fieldSNMPPrivProto, "aes", snmpPrivProto)
	}
	return err
}

// isText reports whether a field is a string, or not there. A number is no name that an iRMC takes.
func isText(n *node.Document, field string) bool {
	v, there := n.DriverInfo[field]
	_, is := v.(string)
	return is || !there || v == nil
}

// oneOf is the value that a field names.
func oneOf[V any](n *node.Document, field, byDefault string, values map[string]V) (V, error) {
	name := cmp.Or(n.DriverString(field), byDefault)
	v, known := values[name]
	if !known {
		return v, driver.Refuse("Invalid value %s given for driver info parameter %s, the valid values are %s.", name, field,
			strings.Join(slices.Sorted(maps.Keys(values)), ", "))
	}
	return v, nil
}
