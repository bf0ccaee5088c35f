package bmc

import (
	"errors"
	"strings"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/outbound"
)

// Calls counts calls to BMCs. It is safe for concurrent use.
type Calls interface {
	// BMCCalled counts one for a node of a hardware type, by the machine's vendor (Vendor) and what became of it (Results).
	BMCCalled(hardwareType, vendor, result string)
}

// Results are what may become of a call: it is answered, or fails by its class.
var Results = []string{"ok", "unknown", "unreachable", "denied", "busy", "invalid", "unsupported", "refused", "fenced"}

var classNames = map[Class]string{Unknown: "unknown", Unreachable: "unreachable", Denied: "denied", Busy: "busy", Invalid: "invalid", Unsupported: "unsupported", Refused: "refused"}

// count counts a call. One that was not made, because the BMC rests or refused these credentials before, counts for nothing.
func (p *Pool[S]) count(a Account, err error) {
	calls := p.opts.Shared.Calls
	if calls == nil {
		return
	}
	held, refused := errors.AsType[*heldBack](err)
	_, resting := errors.AsType[*Resting](err)
	if refused && !held.tried || resting {
		return
	}
	hardwareType, vendor := p.opts.Driver, Vendor("")
	if a.Node != nil {
		said, _ := a.Node.Properties["vendor"].(string)
		hardwareType, vendor = a.Node.Driver, Vendor(said)
	}
	calls.BMCCalled(hardwareType, vendor, p.result(err))
}

// result names what became of a call, as Attempt.Explain sorts it.
func (p *Pool[S]) result(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, driver.ErrFenced):
		return "fenced"
	}
	for _, known := range []struct {
		err error
		is  Class
	}{{driver.ErrUnsupported, Unsupported}, {driver.ErrInvalid, Invalid}, {driver.ErrUnknown, Unknown}, {driver.ErrUnreachable, Unreachable}, {driver.ErrDenied, Denied}} {
		if errors.Is(err, known.err) {
			return classNames[known.is]
		}
	}
	if f, is := errors.AsType[*Failure](err); is {
		return classNames[f.Class]
	}
	lost, gone := errors.AsType[*Lost](err)
	_, elsewhere := errors.AsType[*outbound.RefusedError](err)
	switch {
	case elsewhere, gone && untrusted(err):
		return classNames[Invalid]
	case gone && lost.Unknown:
		return classNames[Unknown]
	case gone:
		return classNames[Unreachable]
	case p.opts.Result != nil:
		return classNames[p.opts.Result(err)]
	}
	return classNames[Refused]
}

// vendors are those that are told apart, by a word of what BMCs or operators call them. The list bounds what counters have: anyone who
// may write a node's properties may write a vendor.
var vendors = []struct{ word, name string }{
	{"dell", "dell"}, {"hpe", "hpe"}, {"hewlett", "hpe"}, {"hp", "hpe"}, {"fujitsu", "fujitsu"}, {"fsas", "fujitsu"}, {"lenovo", "lenovo"}, {"ibm", "ibm"},
	{"supermicro", "supermicro"}, {"super micro", "supermicro"}, {"cisco", "cisco"}, {"intel", "intel"}, {"huawei", "huawei"}, {"xfusion", "huawei"},
	{"inspur", "inspur"}, {"gigabyte", "gigabyte"}, {"giga computing", "gigabyte"}, {"quanta", "quanta"}, {"wiwynn", "wiwynn"}, {"asrock", "asrock"},
	{"nvidia", "nvidia"}, {"ampere", "ampere"}, {"openbmc", "openbmc"}, {"american megatrends", "ami"}, {"ami", "ami"}, {"qemu", "qemu"}, {"ironyard", "ironyard"},
}

// Vendor is the name in counters for what is known of a machine's vendor: "unknown" for nothing, "other" for one that is not told apart.
func Vendor(said string) string {
	said = strings.Join(strings.FieldsFunc(strings.ToLower(said), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') }), " ")
	if said == "" {
		return "unknown"
	}
	for _, v := range vendors {
		if strings.Contains(" "+said+" ", " "+v.word+" ") {
			return v.name
		}
	}
	return "other"
}
