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
	asked, name := standard(h), Standard
	if asked == "" {
		asked, name = last(h[header]), Header
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
		return 0, &NotAcceptableError{fmt.Sprintf("Invalid value for %s header", name)}
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
func Explicit(h http.Header) bool { return standard(h) != "" || last(h[header]) != "" }

// Every answer has the same headers: they are made once, under the names by which
// http.Header keeps them. Nobody changes a header's values in place:
// http.Header.Add copies them, since they have no room for more.
var (
	header, minHeader, maxHeader = http.CanonicalHeaderKey(Header), http.CanonicalHeaderKey(MinHeader), http.CanonicalHeaderKey(MaxHeader)
	standardHeader               = http.CanonicalHeaderKey(Standard)

	minValue, maxValue, vary = []string{Min.String()}, []string{Max.String()}, []string{Header, Standard}
	values, standardValues   = func() (own, standard [Max + 1][]string) {
		for v := Min; v <= Max; v++ {
			own[v], standard[v] = []string{v.String()}, []string{service + " " + v.String()}
		}
		return own, standard
	}()
)

// WriteRange sets the headers that every answer has, and Vary.
func WriteRange(h http.Header) {
	h[minHeader], h[maxHeader] = minValue, maxValue
	h["Vary"] = vary
}

// Write sets the negotiated version.
func (v Version) Write(h http.Header) {
	h[header], h[standardHeader] = values[v], standardValues[v]
}

// standard returns our version in the Standard header, which may be given for
// many services, in one header or in several.
func standard(h http.Header) string {
	for _, line := range h[standardHeader] {
		for entry := range strings.SplitSeq(line, ",") {
			name, version, ok := strings.Cut(strings.TrimSpace(entry), " ")
			if ok && strings.EqualFold(name, service) {
				return strings.TrimSpace(version)
			}
		}
	}
	return ""
}

// last returns what the last line, or the last part of it between commas, says: proxies put
// the lines of a header into one.
func last(values []string) string {
	if len(values) == 0 {
		return ""
	}
	line := values[len(values)-1]
	return strings.TrimSpace(line[strings.LastIndexByte(line, ',')+1:])
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
