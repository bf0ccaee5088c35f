package ilo

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gosnmp/gosnmp"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
	"github.com/ironyard/ironyard/rackd/driver/snmp/snmpclient"
)

// Fields of driver_info for the iLO's SNMP agent, with Ironic's names.
const (
	fieldSNMPUser         = "snmp_auth_user"
	fieldSNMPAuthPassword = "snmp_auth_prot_password"
	fieldSNMPPrivPassword = "snmp_auth_priv_password"
	fieldSNMPAuthProtocol = "snmp_auth_protocol"
	fieldSNMPPrivProtocol = "snmp_auth_priv_protocol"
)

// withSNMP adds what the fields of SNMP are for.
func withSNMP(properties map[string]string) map[string]string {
	maps.Copy(properties, map[string]string{
		fieldSNMPUser: "User for SNMPv3. With it, inspections read the sizes of disks by SNMP where the iLO tells none by RIBCL or Redfish. " +
			"Optional.",
		fieldSNMPAuthPassword: "Password by which SNMPv3 authenticates, of eight characters at least. Required with snmp_auth_user.",
		fieldSNMPPrivPassword: "Password by which SNMPv3 encrypts, of eight characters at least. Required with snmp_auth_user.",
		fieldSNMPAuthProtocol: "How SNMPv3 authenticates; either 'MD5' or 'SHA'. The default value is 'MD5'. Optional.",
		fieldSNMPPrivProtocol: "How SNMPv3 encrypts; either 'DES' or 'AES'. The default value is 'DES'. Optional.",
	})
	return properties
}

var (
	snmpAuthProtocols = map[string]gosnmp.SnmpV3AuthProtocol{"MD5": gosnmp.MD5, "SHA": gosnmp.SHA}
	snmpPrivProtocols = map[string]gosnmp.SnmpV3PrivProtocol{"DES": gosnmp.DES, "AES": gosnmp.AES}
)

// readSNMP reads how the iLO's SNMP agent is reached, and refuses it in Ironic's words. A target without a user means that the node asks
// for no SNMP.
func readSNMP(n *node.Document) (t snmpclient.Target, err error) {
	// With another key to encrypt by, an agent may find no request in what it gets, and say nothing.
	t.Names = snmpclient.Names{Fields: bmc.Fields{Address: fieldAddress + " and " + fieldSNMPPrivPassword, User: fieldSNMPUser,
		Password: fieldSNMPAuthPassword + ", " + fieldSNMPPrivPassword}}
	t.Host, t.Port, t.Version = strings.Trim(n.DriverString(fieldAddress), "[]"), 161, gosnmp.Version3
	t.User, t.AuthKey, t.PrivKey = n.DriverString(fieldSNMPUser), n.DriverString(fieldSNMPAuthPassword), n.DriverString(fieldSNMPPrivPassword)
	if t.User == "" {
		for _, field := range []string{fieldSNMPAuthPassword, fieldSNMPPrivPassword, fieldSNMPAuthProtocol, fieldSNMPPrivProtocol} {
			if n.DriverString(field) != "" {
				return t, driver.Refuse("%s is set, and %s is not, without which no SNMP is used: set it, or remove the other.", field, fieldSNMPUser)
			}
		}
		return t, nil
	}
	for _, field := range []string{fieldSNMPUser, fieldSNMPAuthPassword, fieldSNMPPrivPassword} {
		if _, is := n.DriverInfo[field].(string); !is && n.DriverInfo[field] != nil {
			return t, driver.Refuse("The value is not a string for '%s'.", field)
		}
	}
	var missing []string
	for _, f := range []struct{ field, value string }{{fieldSNMPAuthPassword, t.AuthKey}, {fieldSNMPPrivPassword, t.PrivKey}} {
		switch {
		case f.value == "":
			missing = append(missing, "'"+f.field+"'")
		case len(f.value) < snmpclient.ShortestKey:
			return t, driver.Refuse("%s is too short. An iLO takes %d characters and more.", f.field, snmpclient.ShortestKey)
		}
	}
	if len(missing) > 0 {
		return t, driver.Refuse("The following required SNMP parameters are missing from the node's driver_info: [%s]",
			strings.Join(missing, ", "))
	}
	if t.Auth, err = protocolOf(n, fieldSNMPAuthProtocol, "MD5", snmpAuthProtocols); err == nil {
		t.Priv, err = protocolOf(n, fieldSNMPPrivProtocol, "DES", snmpPrivProtocols)
	}
	return t, err
}

// protocolOf is the protocol that a field names.
func protocolOf[P any](n *node.Document, field, byDefault string, protocols map[string]P) (P, error) {
	p, known := protocols[strings.ToUpper(cmp.Or(n.DriverString(field), byDefault))]
	if !known {
		return p, driver.Refuse("Invalid value %s given for driver_info parameter %s. Give %s.", n.DriverString(field), field,
			strings.Join(slices.Sorted(maps.Keys(protocols)), " or "))
	}
	return p, nil
}

// driveSizes are the columns of HPE's MIBs with the sizes of physical drives, in MiB: behind a Smart Array, at a SCSI and at a SAS
// controller.
var driveSizes = []string{"1.3.6.1.4.1.232.3.2.5.1.1.45", "1.3.6.1.4.1.232.5.2.4.1.1.7", "1.3.6.1.4.1.232.5.5.2.1.1.8"}

// Drives finds the size of a machine's disk by SNMP, for inspections that find none otherwise.
type Drives struct {
	Agents *snmpclient.Reader
	// Port is that of SNMP agents; default 161.
	Port uint16
}

// Size is the size of the largest drive, in whole GiB, as proliantutils counts it. It is 0 where no drive is told, and where the node
// has no user for SNMP.
func (d Drives) Size(ctx context.Context, t *driver.Task) (gib int64, err error) {
	target, err := readSNMP(t.Node)
	if err != nil {
		return 0, fmt.Errorf("node %s: %w", t.Node.Label(), err)
	}
	if target.User == "" {
		t.Record.Phase("inventory incomplete", "the iLO tells the size of no disk: properties/local_gb is 0. "+
			"Set "+fieldSNMPUser+" and its passwords in driver_info, and SNMP is asked, or inspect by the agent")
		return 0, nil
	}
	target.Port = cmp.Or(d.Port, target.Port)
	drives, largest := 0, 0
	err = d.Agents.Read(ctx, t.Node, "read the sizes of disks", target, func(ctx context.Context, s *snmpclient.Session) (err error) {
		drives, largest, err = readDrives(ctx, s)
		return err
	})
	if err != nil {
		return 0, err
	}
	if drives == 0 {
		t.Record.Phase("inventory incomplete", "the iLO tells the size of no disk, and SNMP neither: properties/local_gb is 0. "+
			"Inspect by the agent")
		return 0, nil
	}
	t.Record.Phase("inventory", fmt.Sprintf("by SNMP: %d drives", drives))
	return int64(largest) / 1024, nil
}

// readDrives counts the drives with a size, and reads the largest size in MiB. Machines have one of the tables, or some.
func readDrives(ctx context.Context, s *snmpclient.Session) (drives, largest int, err error) {
	for _, column := range driveSizes {
		cells, err := s.Column(ctx, column)
		if err != nil {
			return 0, 0, err
		}
		for _, c := range cells {
			if mib, is := snmpclient.Integer(c.Value); is && mib > 0 {
				drives, largest = drives+1, max(largest, mib)
			}
		}
	}
	return drives, largest, nil
}
