// Package microversion negotiates the version of the API that one request speaks.
//
// The major version is always 1, so a Version is the minor one. The package
// imports the standard library only, and holds no state.
package microversion

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// Version is the minor API version.
type Version int

// The range that the server speaks.
const (
	Min Version = 1
	Max Version = 115
)

// The headers that carry versions.
const (
	Header    = "X-OpenStack-Ironic-API-Version"
	MinHeader = "X-OpenStack-Ironic-API-Minimum-Version"
	MaxHeader = "X-OpenStack-Ironic-API-Maximum-Version"
	// Standard is the header of all OpenStack services: "baremetal 1.N".
	Standard = "OpenStack-API-Version"
)

// service is our name in the Standard header.
const service = "baremetal"

func (v Version) String() string { return "1." + strconv.Itoa(int(v)) }

// NotAcceptableError says that the version asked for is unreadable or not spoken
// here: HTTP 406.
type NotAcceptableError struct{ Reason string }

func (e *NotAcceptableError) Error() string { return e.Reason }

// Negotiate returns the version that a request asks for: Min when it names none.
func Negotiate(h http.Header) (Version, error) {
	asked, header := standard(h), Standard
	if asked == "" {
		asked, header = strings.TrimSpace(h.Get(Header)), Header
	}
	switch {
	case asked == "":
		return Min, nil
	case strings.EqualFold(asked, "latest"):
		return Max, nil
	}
	major, minor, ok := parse(asked)
	switch {
	case !ok:
		return 0, &NotAcceptableError{fmt.Sprintf("Invalid value for %s header", header)}
	case major != 1:
		return 0, &NotAcceptableError{fmt.Sprintf("Mutually exclusive versions requested. Version %s requested but not supported by "+
			"this service. The supported version range is: [%s, %s].", asked, Min, Max)}
	case minor < int(Min) || minor > int(Max):
		return 0, &NotAcceptableError{fmt.Sprintf("Version %s was requested but the minor version is not supported by this service. "+
			"The supported version range is: [%s, %s].", asked, Min, Max)}
	}
	return Version(minor), nil
}

// Explicit reports whether the request names a version at all.
func Explicit(h http.Header) bool { return standard(h) != "" || h.Get(Header) != "" }

// WriteRange sets the headers that every answer has, and Vary.
func WriteRange(h http.Header) {
	h.Set(MinHeader, Min.String())
	h.Set(MaxHeader, Max.String())
	h.Add("Vary", Header)
	h.Add("Vary", Standard)
}

// Write sets the negotiated version.
func (v Version) Write(h http.Header) {
	h.Set(Header, v.String())
	h.Set(Standard, service+" "+v.String())
}

// standard returns our version in the Standard header, which may be given for
// many services, in one header or in several.
func standard(h http.Header) string {
	for _, line := range h.Values(Standard) {
		for entry := range strings.SplitSeq(line, ",") {
			name, version, ok := strings.Cut(strings.TrimSpace(entry), " ")
			if ok && strings.EqualFold(name, service) {
				return strings.TrimSpace(version)
			}
		}
	}
	return ""
}

func parse(s string) (major, minor int, ok bool) {
	a, b, found := strings.Cut(s, ".")
	if !found || !digits(a) || !digits(b) {
		return 0, 0, false
	}
	major, errA := strconv.Atoi(a)
	minor, errB := strconv.Atoi(b)
	return major, minor, errA == nil && errB == nil
}

func digits(s string) bool {
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return s != "" && len(s) < 10
}
