// Package smbios tells machines apart by what their firmware and their BMCs call them.
//
// It may import nothing of the project. Firmware is careless with both UUIDs and serial numbers. So a
// value that many machines share says nothing here, and two orders of a UUID's bytes count as one:
// SMBIOS before 2.6 did not say that the first three fields are little endian (DSP0134, 7.2.1).
package smbios

import (
	"encoding/hex"
	"fmt"
	"strings"
	"unicode"
)

// System is what one source says of the machine. What is empty is not said.
type System struct {
	UUID   string `json:"uuid,omitempty"`
	Serial string `json:"serial,omitempty"`
	// SKU is the stock keeping unit of a BMC. Some vendors keep there what the firmware calls the serial number.
	SKU string `json:"sku,omitempty"`
}

// Telling returns s without what says nothing: placeholders, and what is no UUID.
func (s System) Telling() System {
	if _, ok := parseUUID(s.UUID); !ok {
		s.UUID = ""
	}
	s.Serial, s.SKU = telling(s.Serial), telling(s.SKU)
	return s
}

// Says reports whether s tells one machine from another at all.
func (s System) Says() bool { return s.Telling() != System{} }

// String names the machine for people.
func (s System) String() string {
	text := fmt.Sprintf("UUID %q, serial number %q", s.UUID, s.Serial)
	if s.SKU != "" {
		text += fmt.Sprintf(", SKU %q", s.SKU)
	}
	return text
}

// Differs reports whether one source speaks of two machines: it said s once and t another time, and
// the UUIDs or the serial numbers are not the same.
func (s System) Differs(t System) bool {
	s, t = s.Telling(), t.Telling()
	return s.UUID != "" && t.UUID != "" && !sameUUID(s.UUID, t.UUID) || s.Serial != "" && t.Serial != "" && plain(s.Serial) != plain(t.Serial)
}

// Conflicts reports whether two sources that are unlike, such as a BMC and the firmware, speak of two machines.
// The UUIDs decide where both say one: of the serial numbers one may be the board's and the other that
// of the chassis. Where a UUID is missing, no serial number or SKU of s is one of t.
func (s System) Conflicts(t System) bool {
	s, t = s.Telling(), t.Telling()
	if s.UUID != "" && t.UUID != "" {
		return !sameUUID(s.UUID, t.UUID)
	}
	told := false
	for _, a := range []string{s.Serial, s.SKU} {
		for _, b := range []string{t.Serial, t.SKU} {
			if a == "" || b == "" {
				continue
			}
			if plain(a) == plain(b) {
				return false
			}
			told = true
		}
	}
	return told && s.Serial != "" && t.Serial != "" // a SKU alone may be that of a whole series
}

// Matches reports whether two sources that may be unlike speak of one machine for sure: the UUIDs are the same or, where one is
// missing, a serial number is.
func (s System) Matches(t System) bool {
	s, t = s.Telling(), t.Telling()
	if s.UUID != "" && t.UUID != "" {
		return sameUUID(s.UUID, t.UUID)
	}
	same := func(a, b string) bool { return a != "" && b != "" && plain(a) == plain(b) }
	return same(s.Serial, t.Serial) || same(s.SKU, t.Serial) || same(s.Serial, t.SKU)
}

// sharedUUIDs are those that vendors forgot to replace.
var sharedUUIDs = map[string]bool{
	"03000200040005000006000700080009": true, // AMI's, in both orders
	"00020003000400050006000700080009": true,
	"12345678123456789012345678901234": true,
	"12345678123456781234567812345678": true,
}

// spelling is what a UUID may be written with besides its digits. It is made once: each lookup of an agent reads four.
var spelling = strings.NewReplacer("-", "", "{", "", "}", "", " ", "")

// parseUUID reads a UUID; ok is false for what is none, or says nothing.
func parseUUID(s string) (id [16]byte, ok bool) {
	s = strings.TrimPrefix(strings.ToLower(strings.TrimSpace(s)), "urn:uuid:")
	s = spelling.Replace(s)
	if len(s) != 2*len(id) || sharedUUIDs[s] || oneSign(s) {
		return id, false
	}
	_, err := hex.Decode(id[:], []byte(s))
	return id, err == nil
}

// sameUUID compares two that parseUUID takes.
func sameUUID(a, b string) bool {
	x, _ := parseUUID(a)
	y, _ := parseUUID(b)
	return x == y || mixed(x) == y
}

// mixed turns the first three fields of a UUID round.
func mixed(u [16]byte) [16]byte {
	u[0], u[1], u[2], u[3] = u[3], u[2], u[1], u[0]
	u[4], u[5] = u[5], u[4]
	u[6], u[7] = u[7], u[6]
	return u
}

// placeholders are what firmware has in place of a serial number, as plain returns them.
var placeholders = map[string]bool{"TOBEFILLEDBYOEM": true, "TOBEFILLEDBYODM": true, "DEFAULTSTRING": true, "DEFAULT": true, "NOTSPECIFIED": true,
	"NOTAVAILABLE": true, "NOTAPPLICABLE": true, "NOTPROVIDED": true, "NOTDEFINED": true, "NOTSET": true, "NONE": true, "NULL": true, "NIL": true, "NA": true,
	"UNKNOWN": true, "UNDEFINED": true, "UNSPECIFIED": true, "EMPTY": true, "INVALID": true, "OEM": true, "SERIAL": true, "SERIALNUMBER": true, "SN": true,
	"SYSTEMSERIALNUMBER": true, "SYSTEMSERIAL": true, "CHASSISSERIALNUMBER": true, "BASEBOARDSERIALNUMBER": true, "OEMSERIALNUMBER": true, "SKU": true, "SKUNUMBER": true,
	"SYSTEMSKU": true, "SYSTEMSKUNUMBER": true, "NOSERIAL": true, "BLANK": true, "TEST": true, "INTENTIONALLYLEFTBLANK": true}

// counted begins with the digits that stand in for a serial number.
const counted = "1234567890123456789012345678901234567890"

// telling returns a serial number without spaces around it, empty for one that says nothing.
func telling(s string) string {
	p := plain(s)
	if placeholders[p] || oneSign(p) || len(p) > 3 && (strings.HasPrefix(counted, p) || strings.HasPrefix("0"+counted, p)) {
		return ""
	}
	return strings.TrimSpace(s)
}

// oneSign reports whether s is one sign, repeated: zeros, or the letter x.
func oneSign(s string) bool { return s == "" || strings.Trim(s, s[:1]) == "" }

// plain is a serial number for comparison: case, spaces and punctuation differ between sources.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return -1
		}
		return unicode.ToUpper(r)
	}, s)
}
