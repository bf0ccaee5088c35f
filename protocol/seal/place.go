package seal

import (
	"slices"
	"strings"
)

// A secret of driver_info is sent to a place that other fields of the same driver name: an address,
// a port, how to check the certificate there, how to log in. Drivers begin the names of their fields
// with the same word, up to the first underscore: redfish_password goes where redfish_address says.

// DecidesPlace reports whether a field of driver_info may decide where the secret of another field is
// sent. Both names are those of the outermost fields. A name without such a word is of every driver, and so is one with a
// word that is no driver's.
func DecidesPlace(field, secret string) bool {
	a, ofDriver := driverOf(field)
	b, ofDriverToo := driverOf(secret)
	return !ofDriver || !ofDriverToo || a == b
}

// driverOf is the word that the fields of one driver begin with.
func driverOf(field string) (word string, found bool) {
	field = strings.ToLower(field)
	if word, found = elsewhere[field]; found {
		return word, word != ""
	}
	word, _, found = strings.Cut(field, "_")
	return word, found && word != "" && !slices.Contains(noDriver, word)
}

// noDriver are words of fields that are a driver's and do not begin with its name: Ironic's iLO driver has client_port,
// client_timeout, ca_file and console_port.
var noDriver = []string{"client", "ca", "console"}

// elsewhere are the drivers of fields that begin with the name of another. Ironic's iLO driver has SNMP's names for what goes where
// ilo_address says. One of them is the snmp driver's too, so it is of every driver.
var elsewhere = map[string]string{"snmp_auth_user": "ilo", "snmp_auth_prot_password": "ilo", "snmp_auth_priv_password": "ilo",
	"snmp_auth_priv_protocol": "ilo", "snmp_auth_protocol": ""}

// changes marks a field of driver_info that asks for another secret: ilo_change_password for that of ilo_password.
const changes = "_change_"

// AsksFor is the secret of driver_info in whose place a step puts what a field holds; empty: the field asks for none.
func AsksFor(field string) string {
	driver, secret, asks := strings.Cut(field, changes)
	if !asks || driver == "" || !IsSecret(secret) {
		return ""
	}
	return driver + "_" + secret
}
