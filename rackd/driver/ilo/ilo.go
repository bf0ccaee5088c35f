// Package ilo is the interfaces of HPE's machines. Their iLO speaks Redfish with additions of HPE's: iLO 5 and later, and iLO 4
// in part. Or it speaks RIBCL, which is XML over HTTPS: iLO 3 and iLO 4.
//
// It may import rackd/driver, rackd/driver/credential, rackd/driver/redfish, rackd/driver/ipmi (for the names of fields), rackd/driver/bmc,
// rackd/driver/namedfile, rackd/driver/snmp/snmpclient, rackd/outbound, protocol and gosnmp. What is the standard's is
// rackd/driver/redfish's. Invariants:
//   - An iLO is asked which of the two it speaks, once, and then gets one of them only.
//   - A password or a licence key stands in no error, also where the iLO repeats it.
//   - What an iLO has accepted counts once it shows it.
//
// Everything exported is safe for concurrent use.
package ilo

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/ironyard/ironyard/protocol/driverinfo"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/ipmi"
	"github.com/ironyard/ironyard/rackd/driver/redfish"
)

// Fields of driver_info, with Ironic's names.
const (
	fieldAddress     = "ilo_address"
	fieldUser        = "ilo_username"
	fieldPassword    = "ilo_password"
	fieldVerifyCA    = "ilo_verify_ca"
	fieldPort        = "client_port"
	fieldTimeout     = "client_timeout"
	fieldCAFile      = "ca_file"
	fieldConsolePort = "console_port"
	fieldNewPassword = "ilo_change_password"
	// These are Ironyard's own.
	fieldIdentity     = "ilo_identity"
	fieldIPMIPort     = "ilo_ipmi_port"
	fieldSSHHostKey   = "ilo_ssh_host_key"
	fieldSSHSharedCLI = "ilo_ssh_shared_cli"
)

// defaultTimeout is how long an iLO may take for an answer, Ironic's default.
const defaultTimeout = 60 * time.Second

var names = redfish.Values{Address: fieldAddress, User: fieldUser, Password: fieldPassword, VerifyCA: fieldVerifyCA, Identity: fieldIdentity}

// Dialect is the fields of an iLO.
var Dialect = redfish.Dialect{
	Driver: "ilo",
	Names:  names,
	Properties: withSNMP(map[string]string{
		fieldAddress:     "IP address or hostname of the iLO. Required.",
		fieldUser:        "Username for the iLO with administrator privileges. Required.",
		fieldPassword:    "Password for ilo_username. Required.",
		fieldPort:        "Port to be used for iLO operations; default is 443. Optional.",
		fieldTimeout:     "Timeout (in seconds) for iLO operations; default is 60. Optional.",
		fieldCAFile:      "Name of a PEM file to validate the iLO's certificate with. It counts before ilo_verify_ca, which is to be used instead, and alone for pin. Optional.",
		fieldVerifyCA:    "How to check the iLO's certificate: true (the system's authorities), false (not at all), pin (the key that it shows first, and no other), PEM itself, or the name of a PEM file below the folder that rackd --ca-dir names. Default true.",
		fieldConsolePort: "Port of Ironic's console. It is checked and opens nothing: consoles have no ports here. Optional.",
		fieldNewPassword: "New password for ilo_username, which the clean step reset_ilo_credential sets and puts in the place of ilo_password. Optional.",
		fieldIdentity:    "trust: work fails if the machine's UUID or serial number differs from what the iLO reports. ignore: they are not compared. Default trust.",
	}),
	Read:    read,
	SSH:     sshFields,
	MayLack: true,
}

// sshFields are the fields of a serial console by SSH.
func sshFields() (hostKey, sharedCLI string) { return fieldSSHHostKey, fieldSSHSharedCLI }

// OverLAN are the fields by which an iLO's Serial over LAN is reached.
func OverLAN() ipmi.Names {
	return ipmi.Names{Address: fieldAddress, User: fieldUser, Password: fieldPassword, Port: fieldIPMIPort}
}

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
		return redfish.Values{}, 0, driver.Refuse("The following required iLO parameters are missing from the node's driver_info: [%s]", strings.Join(missing, ", "))
	}
	port := n.DriverString(fieldPort)
	if port == "" {
		port = "443"
	}
	ports := map[string]string{fieldPort: port, fieldConsolePort: n.DriverString(fieldConsolePort), fieldIPMIPort: n.DriverString(fieldIPMIPort)}
	for field, value := range ports {
		if p, err := strconv.Atoi(value); value != "" && (err != nil || p < 1 || p > 65535) {
			return redfish.Values{}, 0, driver.Refuse("%s \"%s\" is not a valid port.", field, value)
		}
	}
	timeout := defaultTimeout
	if text := n.DriverString(fieldTimeout); text != "" {
		s, err := strconv.Atoi(text)
		if err != nil || s < 1 || s > 3600 {
			return redfish.Values{}, 0, driver.Refuse("The following iLO parameters from the node's driver_info should be integers: ['%s']", fieldTimeout)
		}
		timeout = time.Duration(s) * time.Second
	}
	host := strings.Trim(v.Address, "[]")
	if strings.ContainsAny(host, "/@?#") {
		return redfish.Values{}, 0, driver.Refuse("%s is neither a host name nor an address", fieldAddress)
	}
	v.Address = "https://" + net.JoinHostPort(host, port)
	if file := n.DriverString(fieldCAFile); file != "" {
		if why := driverinfo.Wrong("ilo", fieldCAFile, file, n.UUID); why != "" {
			return redfish.Values{}, 0, driver.Refuse("%s", why)
		}
		v.VerifyCA = file
	}
	_, err := readSNMP(n)
	return v, timeout, err
}

// refused is an error of an operation that an iLO does not support, in Ironic's words.
func refused(operation, why string) error {
	return fmt.Errorf("%s not supported. error: %s: %w", operation, why, driver.ErrUnsupported)
}
