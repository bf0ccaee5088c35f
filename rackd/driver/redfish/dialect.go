package redfish

import (
	"time"

	"github.com/ironyard/ironyard/protocol/node"
)

// Values has a value for each field of driver_info that says how a BMC is reached: of a dialect the names of
// these fields, of a node what stands there.
type Values struct {
	Address, System, User, Password, VerifyCA, Auth, Identity string
}

// Dialect is how a hardware type's driver_info says what the redfish_* fields say. The zero value is these fields.
type Dialect struct {
	// Driver is the name of the hardware type, for errors and metrics; default redfish.
	Driver string
	// Names are those of the fields; where one is empty there is no such field.
	Names Values
	// Properties explains the fields.
	Properties map[string]string
	// Read reads the fields, and how long an answer may take; 0: the driver's own limit. Its errors wrap
	// driver.ErrInvalid. It must be set.
	Read func(n *node.Document) (Values, time.Duration, error)
	// SSH names the fields of a serial console by SSH; nil: those of the hardware type redfish. A secret of one driver does not go where
	// fields of another say.
	SSH func() (hostKey, sharedCLI string)
	// MayLack: there are BMCs of that type without a Redfish service. Calls to them end with an ErrNoService.
	MayLack bool
}

// own is the dialect of the hardware type redfish.
var own = Dialect{
	Driver: "redfish",
	Read:   readOwn,
	SSH:    ownSSH,
	Names:  Values{fieldAddress, fieldSystem, fieldUser, fieldPassword, fieldVerifyCA, fieldAuth, fieldIdentity},
	Properties: map[string]string{
		fieldAddress:  "Address of the BMC: a URL, or a host name or address for https. Required.",
		fieldSystem:   "Path or id of the machine's system, such as /redfish/v1/Systems/1. Required where the BMC has several systems.",
		fieldUser:     "User of the BMC. Required together with redfish_password.",
		fieldPassword: "Password of that user.",
		fieldVerifyCA: "How to check the BMC's certificate: true (the system's authorities), false (not at all), pin (the key that it shows first, and no other), PEM itself, or the name of a PEM file below the folder that rackd --ca-dir names. Default true.",
		fieldIdentity: "trust: work fails if the machine's UUID or serial number differs from what the BMC reports. ignore: they are not compared, for a BMC that reports wrong ones. Default trust.",
		fieldAuth:     "auto, session or basic. auto: a session, or basic authentication where the BMC opens none. Default auto.",
	},
}

// orOwn is the dialect, or that of the hardware type redfish.
func (d Dialect) orOwn() Dialect {
	if d.Driver == "" {
		return own
	}
	if d.SSH == nil {
		d.SSH = ownSSH
	}
	return d
}

// readOwn reads the redfish_* fields.
func readOwn(n *node.Document) (Values, time.Duration, error) {
	return Values{Address: n.DriverString(fieldAddress), System: n.DriverString(fieldSystem), User: n.DriverString(fieldUser), Password: n.DriverString(fieldPassword),
		VerifyCA: n.DriverString(fieldVerifyCA), Auth: n.DriverString(fieldAuth), Identity: n.DriverString(fieldIdentity)}, 0, nil
}
