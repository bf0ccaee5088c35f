// Package idrac is the interfaces of Dell's machines, whose iDRAC speaks Redfish with additions of Dell's: its job queue,
// its Lifecycle Controller, its configuration profiles and its virtual drives as boot devices.
//
// It may import rackd/driver, rackd/driver/redfish, rackd/driver/bmc, rackd/driver/bringup, rackd/outbound and protocol.
// What is the standard's is rackd/driver/redfish's. Invariants:
//   - Nothing is configured while the job queue holds unfinished jobs.
//   - An order that must not be given twice is a redfish.Errand.
//   - No configuration profile, which holds secrets, stands in an error or a log.
//
// Everything exported is safe for concurrent use.
package idrac

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/redfish"
)

// Fields of driver_info of the interfaces that spoke WS-Man, with Ironic's names.
const (
	fieldAddress  = "drac_address"
	fieldUser     = "drac_username"
	fieldPassword = "drac_password"
	fieldPort     = "drac_port"
	fieldPath     = "drac_path"
	fieldProtocol = "drac_protocol"
	// These are Ironyard's own.
	fieldVerifyCA = "drac_verify_ca"
	fieldIdentity = "drac_identity"
)

// dracNames are the fields of a BMC's address and account.
var dracNames = redfish.Values{Address: fieldAddress, User: fieldUser, Password: fieldPassword, VerifyCA: fieldVerifyCA, Identity: fieldIdentity}

// Drac is the fields of nodes that were enrolled for WS-Man. Redfish is spoken with them all the same.
var Drac = redfish.Dialect{
	Driver: "idrac",
	Names:  dracNames,
	Properties: map[string]string{
		fieldAddress:  "IP address or hostname of the DRAC card. Required.",
		fieldUser:     "Username used for authentication. Required.",
		fieldPassword: "Password used for authentication. Required.",
		fieldPort:     "Port of the DRAC card; default is 443. Optional.",
		fieldPath:     "Path of WS-Man, which is not used: Redfish has its own. Optional.",
		fieldProtocol: "One of http, https; default is https. Optional.",
		fieldVerifyCA: "How to check the DRAC card's certificate: true (the system's authorities), false (not at all), pin (the key that it shows first, and no other), PEM itself, or the name of a PEM file below the folder that rackd --ca-dir names. Default true.",
		fieldIdentity: "trust: work fails if the machine's UUID or serial number differs from what the DRAC card reports. ignore: they are not compared. Default trust.",
	},
	Read: readDrac,
}

func readDrac(n *node.Document) (redfish.Values, time.Duration, error) {
	v := redfish.Values{Address: n.DriverString(fieldAddress), User: n.DriverString(fieldUser), Password: n.DriverString(fieldPassword),
		VerifyCA: n.DriverString(fieldVerifyCA), Identity: n.DriverString(fieldIdentity)}
	var wrong []string
	for _, f := range []struct{ field, value string }{{fieldAddress, v.Address}, {fieldUser, v.User}, {fieldPassword, v.Password}} {
		if f.value == "" {
			wrong = append(wrong, fmt.Sprintf("'%s' not supplied to DracDriver.", f.field))
		}
	}
	protocol := n.DriverString(fieldProtocol)
	switch protocol {
	case "":
		protocol = "https"
	case "http", "https":
	default:
		wrong = append(wrong, "'drac_protocol' must be either 'http' or 'https'.")
	}
	if len(wrong) > 0 {
		return redfish.Values{}, 0, driver.Refuse("The following errors were encountered while parsing driver_info: %s", strings.Join(wrong, " "))
	}
	port := n.DriverString(fieldPort)
	if port == "" {
		port = "443"
	}
	if p, err := strconv.Atoi(port); err != nil || p < 1 || p > 65535 {
		return redfish.Values{}, 0, driver.Refuse("%s \"%s\" is not a valid port.", fieldPort, port)
	}
	v.Address = protocol + "://" + net.JoinHostPort(strings.Trim(v.Address, "[]"), port)
	return v, 0, nil
}
