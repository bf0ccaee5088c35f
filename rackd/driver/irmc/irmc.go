// Package irmc is the interfaces of Fujitsu's PRIMERGY machines. Their iRMC speaks Redfish (S6, S5 from 2.0 on), or SCCI, XML
// over HTTP, beside IPMI (S4 and before).
//
// It may import rackd/driver, rackd/driver/bringup, rackd/driver/redfish, rackd/driver/ipmi (for the names of fields),
// rackd/driver/snmp/snmpclient, rackd/driver/bmc, rackd/driver/namedfile, rackd/outbound, protocol and gosnmp. What is the standard's is
// rackd/driver/redfish's. Invariants:
//   - An iRMC is asked whether it has a Redfish service, and then gets its orders in one of the two ways only.
//   - eLCM is a third way, for RAID and BIOS settings. A step that has begun by one way goes on by it.
//   - SCCI tells no state: it is read by IPMI before each order, and orders for what is already so are not given.
//
// Everything exported is safe for concurrent use.
package irmc

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
	"github.com/ironyard/ironyard/rackd/driver/ipmi"
	"github.com/ironyard/ironyard/rackd/driver/redfish"
)

// Fields of driver_info, with Ironic's names.
const (
	fieldAddress  = "irmc_address"
	fieldUser     = "irmc_username"
	fieldPassword = "irmc_password"
	fieldVerifyCA = "irmc_verify_ca"
	fieldPort     = "irmc_port"
	fieldAuth     = "irmc_auth_method"
	fieldTimeout  = "irmc_client_timeout"
	fieldSensors  = "irmc_sensor_method"
	// These are Ironyard's own.
	fieldIdentity = "irmc_identity"
	fieldIPMIPort = "irmc_ipmi_port"
)

var names = redfish.Values{Address: fieldAddress, User: fieldUser, Password: fieldPassword, VerifyCA: fieldVerifyCA, Identity: fieldIdentity}

// Dialect is the fields of an iRMC.
var Dialect = redfish.Dialect{
	Driver: "irmc", Names: names, Read: read, MayLack: true,
	Properties: withSNMP(map[string]string{
		fieldAddress:  "IP address or hostname of the iRMC. Required.",
		fieldUser:     "Username for the iRMC with administrator privileges. Required.",
		fieldPassword: "Password for irmc_username. Required.",
		fieldPort:     "Port to be used for iRMC operations; either 80 or 443. The default value is 443. Optional.",
		fieldAuth:     "Authentication method for SCCI; either 'basic' or 'digest'. The default value is 'basic'. Redfish has ways of its own. Optional.",
		fieldTimeout:  "Timeout (in seconds) for iRMC operations. The default value is 60. Optional.",
		fieldSensors:  "How sensors are read: 'ipmitool' is by IPMI. By default they are read by Redfish, or by IPMI where the iRMC has no such service. 'scci' is refused: the report of SCCI tells limits of sensors and no readings. Optional.",
		fieldIPMIPort: "UDP port of the iRMC for IPMI: sensors, event log, console, and the states of an iRMC without a Redfish service. The default value is 623. Optional.",
		fieldVerifyCA: "How to check the iRMC's certificate: true (the system's authorities), false (not at all), pin (the key that it shows first, and no other), PEM itself, or the name of a PEM file below the folder that rackd --ca-dir names. Default true.",
		fieldIdentity: "trust: work fails if the machine's UUID or serial number differs from what the iRMC reports. ignore: they are not compared. Default trust.",
	}),
}

// anyPort lets tests listen elsewhere than an iRMC does.
var anyPort = false

// read reads driver_info, and refuses it in Ironic's words.
func read(n *node.Document) (redfish.Values, time.Duration, error) {
	v := redfish.Values{Address: n.DriverString(fieldAddress), User: n.DriverString(fieldUser), Password: n.DriverString(fieldPassword),
		VerifyCA: n.DriverString(fieldVerifyCA), Identity: n.DriverString(fieldIdentity)}
	var missing []string
	for _, f := range []struct{ field, value string }{{fieldAddress, v.Address}, {fieldUser, v.User}, {fieldPassword, v.Password}} {
		if f.value == "" {
			missing = append(missing, "'"+f.field+"'")
		}
	}
	if len(missing) > 0 {
		return redfish.Values{}, 0, driver.Refuse("Missing the following iRMC parameters in node's driver_info: [%s].", strings.Join(missing, ", "))
	}
	var wrong []string
	bad := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	either := func(field, text, byDefault string, values ...string) {
		text = strings.ToLower(text)
		if text == "" {
			text = byDefault
		}
		for _, v := range values {
			if text == v {
				return
			}
		}
		bad("Value '%s' is not supported for '%s'.", text, field)
	}
	either(fieldAuth, n.DriverString(fieldAuth), "basic", "basic", "digest")
	either(fieldSensors, n.DriverString(fieldSensors), "ipmitool", "ipmitool", "scci")
	port := n.DriverString(fieldPort)
	if port == "" {
		port = "443"
	}
	switch p, err := strconv.Atoi(port); {
	case err != nil || p < 1 || p > 65535:
		bad("%s \"%s\" is not a valid port.", fieldPort, port)
	case p != 80 && p != 443 && !anyPort:
		bad("Value '%s' is not supported for '%s'.", port, fieldPort)
	}
	timeout := 60 * time.Second
	if text := n.DriverString(fieldTimeout); text != "" {
		s, err := strconv.Atoi(text)
		if err != nil || s < 1 || s > 3600 {
			bad("Value '%s' is not an integer for '%s'", text, fieldTimeout)
		}
		timeout = time.Duration(s) * time.Second
	}
	host := strings.Trim(v.Address, "[]")
	if strings.ContainsAny(host, "/@?#") {
		bad("%s is neither a host name nor an address", fieldAddress)
	}
	if _, err := bmc.Port(n, fieldIPMIPort, "623"); err != nil {
		bad("%v", err)
	}
	if len(wrong) > 0 {
		return redfish.Values{}, 0, driver.Refuse("The following errors were encountered while parsing driver_info: %s", strings.Join(wrong, " "))
	}
	if _, err := readSNMP(n); err != nil {
		return redfish.Values{}, 0, err
	}
	scheme := "https"
	if port == "80" {
		scheme = "http"
	}
	v.Address = scheme + "://" + net.JoinHostPort(host, port)
	return v, timeout, nil
}

// sensorsBy is how the sensors are to be read: "ipmitool", or empty for the way that the iRMC speaks.
func sensorsBy(n *node.Document) (string, error) {
	method := strings.ToLower(n.DriverString(fieldSensors))
	if method == "scci" {
		return "", fmt.Errorf("node %s: %w", n.Label(), driver.Refuse("%s is \"scci\": the report of SCCI tells limits of sensors and no readings. "+
			"Remove the field, or give \"ipmitool\"", fieldSensors))
	}
	return method, nil
}

// OverLAN are the fields by which an iRMC's IPMI is reached.
func OverLAN() ipmi.Names {
	return ipmi.Names{Address: fieldAddress, User: fieldUser, Password: fieldPassword, Port: fieldIPMIPort}
}

// byIPMI is the node as a driver of IPMI reads it: IPMI has the same address and account.
func byIPMI(n *node.Document) *node.Document { return OverLAN().Node(n) }
