// Package cisco speaks the XML API that UCS Manager and the IMC of Cisco's servers have in common.
//
// It owns the form of managed objects, sessions with their refresh and log-out, and what the API's error codes mean. It may
// import rackd/driver, rackd/driver/bmc and protocol; rackd/driver/ucs and rackd/driver/cimc import it. Invariants:
//   - Each request is a POST to /nuova. Configure is the only one that changes a machine, and the only one behind the fence.
//   - A session that was opened is logged out of: a UCS Manager has 32 for each user, an IMC has 4 in all.
//   - The password is in the bodies of logins and refreshes, and in no error.
//
// Sources: the XML API programmer's guides of both, and the object models of CiscoUcs/ucsmsdk and CiscoUcs/imcsdk.
package cisco

import (
	"encoding/xml"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ironyard/ironyard/rackd/driver/bmc"
)

// Object is a managed object, or the body of a method. Its class is the element's name.
type Object struct {
	XMLName  xml.Name
	Attrs    []xml.Attr `xml:",any,attr"`
	Children []Object   `xml:",any"`
}

// New returns an object of that class; attrs are names and values in turn.
func New(class string, attrs ...string) Object {
	o := Object{XMLName: xml.Name{Local: class}}
	for i := 0; i+1 < len(attrs); i += 2 {
		o.Attrs = append(o.Attrs, xml.Attr{Name: xml.Name{Local: attrs[i]}, Value: attrs[i+1]})
	}
	return o
}

// Class is the object's class.
func (o Object) Class() string { return o.XMLName.Local }

// Get is an attribute's value, empty where there is none.
func (o Object) Get(attr string) string {
	for _, a := range o.Attrs {
		if a.Name.Local == attr {
			return a.Value
		}
	}
	return ""
}

// Set returns the object with another value of an attribute. The object that it is called on stays as it is.
func (o Object) Set(attr, value string) Object {
	o.Attrs = slices.Clone(o.Attrs)
	for i := range o.Attrs {
		if o.Attrs[i].Name.Local == attr {
			o.Attrs[i].Value = value
			return o
		}
	}
	o.Attrs = append(o.Attrs, xml.Attr{Name: xml.Name{Local: attr}, Value: value})
	return o
}

// With returns the object with those children in place of its own.
func (o Object) With(children ...Object) Object {
	o.Children = children
	return o
}

// Below returns the object as it is written below its parent: with its rn, and without its dn, what the API keeps for itself and
// those attributes.
func (o Object) Below(without ...string) Object {
	rn := o.RN()
	o.Attrs = slices.DeleteFunc(slices.Clone(o.Attrs), func(a xml.Attr) bool {
		return a.Value == "" || slices.Contains(ownAttrs, a.Name.Local) || slices.Contains(without, a.Name.Local)
	})
	return o.Set("rn", rn)
}

// ownAttrs are attributes of each object that a write leaves out.
var ownAttrs = []string{"dn", "childAction", "sacl", "propAcl", "status"}

// RN is the last part of the object's distinguished name, as it is known to its parent.
func (o Object) RN() string {
	if rn := o.Get("rn"); rn != "" {
		return rn
	}
	dn := o.Get("dn")
	depth := 0
	for i := len(dn) - 1; i >= 0; i-- { // names may hold slashes in brackets
		switch dn[i] {
		case ']':
			depth++
		case '[':
			depth--
		case '/':
			if depth == 0 {
				return dn[i+1:]
			}
		}
	}
	return dn
}

// Child returns the first child of a class.
func (o Object) Child(class string) (Object, bool) {
	for _, c := range o.Children {
		if c.Class() == class {
			return c, true
		}
	}
	return Object{}, false
}

// Order is the number by which boot devices are sorted, large where there is none.
func (o Object) Order() int {
	n, err := strconv.Atoi(o.Get("order"))
	if err != nil || n < 1 {
		return 1 << 20
	}
	return n
}

// Ordered returns the children by their order; those of one order stay as they are.
func (o Object) Ordered() []Object {
	list := slices.Clone(o.Children)
	slices.SortStableFunc(list, func(a, b Object) int { return a.Order() - b.Order() })
	return list
}

// The error codes that matter. Others are refusals for a reason of their own.
const (
	codeLogin     = "551" // wrong user or password
	codeNoSession = "552" // the cookie is not known, or has ended
	codeExpired   = "555" // the session is not there
	codeSessions  = "572" // the user has as many sessions as there may be
	codeRights    = "554" // the user may not
)

// failure is the API's error in an answer, nil for none.
func failure(answer Object) error {
	code := answer.Get("errorCode")
	if code == "" || code == "0" {
		return nil
	}
	f := &bmc.Failure{Said: fmt.Sprintf("error %s: %s", code, answer.Get("errorDescr"))}
	login := answer.Class() == "aaaLogin"
	switch {
	case code == codeLogin && login:
		f.Class = bmc.Denied
		return bmc.RefusedLogin(f)
	case code == codeSessions:
		f.Class = bmc.Busy
		f.Said += "; log out other sessions of this user, or wait until they end"
	case !login && (code == codeLogin || code == codeNoSession || code == codeExpired):
		f.Class = bmc.Denied
		return bmc.Forgotten(f)
	case code == codeRights:
		f.Class = bmc.Denied
	}
	return f
}

// Maker is who made a server, in lower case as IPMI's vendors are: "cisco" for what calls itself Cisco Systems Inc.
func Maker(server Object) string {
	vendor := strings.ToLower(strings.TrimSpace(server.Get("vendor")))
	if strings.HasPrefix(vendor, "cisco") {
		return "cisco"
	}
	return vendor
}
