package bmc

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
	"unicode"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/outbound"
)

// Class sorts what a BMC answered by what its caller does next.
type Class int

// The classes, and the sentinel errors of the contract that they wrap.
const (
	// Refused: the BMC refused the request for a reason of its own. It wraps none.
	Refused Class = iota
	// Unknown: a write may or may not have taken effect (driver.ErrUnknown).
	Unknown
	// Unreachable: the BMC does not answer (driver.ErrUnreachable).
	Unreachable
	// Denied: the credentials, or the rights of their user, do not do (driver.ErrDenied).
	Denied
	// Busy: the BMC answers that it cannot just now (driver.ErrUnreachable).
	Busy
	// Invalid: an operator must correct the node (driver.ErrInvalid).
	Invalid
	// Unsupported: this BMC cannot do it (driver.ErrUnsupported).
	Unsupported
)

// Failure is a BMC's answer that is no success.
type Failure struct {
	Class Class
	// Said is what the BMC answered, with the code of its protocol: it is cleaned when it is explained.
	Said string
	// Cause is the error of the library that the driver talks through. It may be nil.
	Cause error
}

func (f *Failure) Error() string {
	if f.Cause != nil {
		return f.Cause.Error()
	}
	return f.Said
}

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Cause }

// Fields names the fields of driver_info that errors ask an operator to correct. Those that a driver does
// not have are empty.
type Fields struct{ Address, User, Password, VerifyCA string }

// Attempt is what a driver was about when something went wrong.
type Attempt struct {
	Node *node.Document
	// Doing is what was tried, as in "read the power state".
	Doing string
	// BMC is where, as an operator writes it. User is who it was tried as.
	BMC, User string
	// Device is what stands there, as in "PDU". Empty: a BMC.
	Device string
	// Again are the words for what an operator asks for to have refused credentials tried again; empty: power.
	Again string
	// Secrets are taken out of all that is said.
	Secrets []string
	Fields  Fields
}

// Explain turns what went wrong into an error that says what was tried, on which node and BMC, what came back
// and what to do. The fence's own errors stay as they are.
func (a Attempt) Explain(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, driver.ErrFenced) {
		return bare(err)
	}
	if a.Device == "" {
		a.Device = "BMC"
	}
	at := fmt.Sprintf("node %s: %s: %s %s", a.Node.Label(), a.Doing, a.Device, a.BMC)
	later := a.later(err)
	if changed, is := errors.AsType[*Changed](err); is {
		return &explained{text: at + " " + changed.Error(), cause: err}
	}
	for _, known := range []error{driver.ErrUnsupported, driver.ErrInvalid, driver.ErrUnknown, driver.ErrUnreachable, driver.ErrDenied, driver.ErrTargetKept} {
		if errors.Is(err, known) {
			return &explained{text: at + ": " + a.clean(err.Error()) + later, cause: err}
		}
	}
	if f, ok := errors.AsType[*Failure](err); ok {
		return a.explainFailure(at, later, f, err)
	}
	gone, _ := errors.AsType[*Lost](err)
	_, elsewhere := errors.AsType[*outbound.RefusedError](err)
	cause := bare(err)
	said := a.clean(cause.Error())
	switch {
	case elsewhere:
		return &explained{fmt.Sprintf("%s was not dialled (%s): correct %s, or name its network to rackd: %s", at, said, a.Fields.Address, driver.ErrInvalid),
			errors.Join(driver.ErrInvalid, cause)}
	case gone == nil:
		return fmt.Errorf("%s: %s", at, said)
	case gone.Unknown:
		return &explained{fmt.Sprintf("%s got the request and did not answer (%s): %s", at, said, driver.ErrUnknown), errors.Join(driver.ErrUnknown, cause)}
	case untrusted(err):
		return &explained{fmt.Sprintf("%s shows a certificate that is not trusted (%s): set driver_info %s to its PEM, to %s, or to false: %s",
			at, said, a.Fields.VerifyCA, node.PinKey, driver.ErrInvalid), errors.Join(driver.ErrInvalid, cause)}
	}
	return &explained{fmt.Sprintf("%s does not answer (%s): check %s, the %s's network and that it is up: %s", at, said, a.Fields.Address, a.Device, driver.ErrUnreachable),
		errors.Join(driver.ErrUnreachable, cause)}
}

// later says when credentials that err holds back are tried again, and what to do; empty: err holds none back.
func (a Attempt) later(err error) string {
	held, ok := errors.AsType[*heldBack](err)
	if !ok || held.guess { // which says so itself
		return ""
	}
	pause := held.until.UTC().Format(time.TimeOnly + " MST")
	if held.alone {
		return fmt.Sprintf("; rackd does not try these credentials again before %s, unless driver_info changes", pause)
	}
	after := ""
	if time.Now().Before(held.until) {
		after = " after " + pause
	}
	again := cmp.Or(a.Again, "something of the node, as by `baremetal node power on "+a.Node.UUID+"`")
	return fmt.Sprintf("; rackd does not log in again by itself, so that the account is not locked. Correct driver_info. "+
		"If it is right, correct the account at the %s, and%s ask for %s", a.Device, after, again)
}

// ConsoleAgain are the words of Attempt.Again for a console that logs in beside all other calls.
func ConsoleAgain(n *node.Document) string {
	return fmt.Sprintf("the console: `baremetal node console disable %s`, and then `enable`", n.UUID)
}

func (a Attempt) explainFailure(at, later string, f *Failure, err error) error {
	said := a.clean(f.Said)
	switch f.Class {
	case Denied:
		denied := driver.ErrDenied
		if held, is := errors.AsType[*heldBack](err); is { // without what a library has said
			denied = &heldBack{denied, held.until, held.alone, held.tried, held.guess}
		}
		return &explained{fmt.Sprintf("%s refuses user %q (%s): check %s and %s, and that the user may operate machines%s: %s",
			at, a.User, said, a.Fields.User, a.Fields.Password, later, driver.ErrDenied), denied}
	case Unknown:
		return fmt.Errorf("%s answered %s: %w", at, said, driver.ErrUnknown)
	case Unreachable:
		return fmt.Errorf("%s does not answer (%s): check %s, the %s's network and that it is up: %w", at, said, a.Fields.Address, a.Device, driver.ErrUnreachable)
	case Busy:
		return fmt.Errorf("%s is busy, it answered %s: %w", at, said, driver.ErrUnreachable)
	case Invalid:
		return fmt.Errorf("%s answered %s: %w", at, said, driver.ErrInvalid)
	case Unsupported:
		return fmt.Errorf("%s answered %s: %w", at, said, driver.ErrUnsupported)
	}
	return fmt.Errorf("%s answered %s", at, said)
}

// clean is Clean with the attempt's secrets, also where they stand in a header.
func (a Attempt) clean(said string) string {
	for _, secret := range a.Secrets {
		if header := basic(a.User, secret); header != "" {
			said = strings.ReplaceAll(said, header, mask)
		}
	}
	return Clean(said, a.Secrets...)
}

// explained is an error whose text may quote the BMC, made fit to show.
type explained struct {
	text  string
	cause error
}

func (e *explained) Error() string { return e.text }
func (e *explained) Unwrap() error { return e.cause }

// bare takes off what http.Client wraps with: the URL and the method, which say nothing new.
func bare(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}

// longest is how many characters of a BMC's words an error holds.
const longest = 400

// Clean makes a BMC's words fit for an error: bounded, on one line, and without the
// secrets, should the BMC repeat them in whatever form.
func Clean(said string, secrets ...string) string {
	for _, s := range secrets {
		said = Without(said, s)
	}
	said = WithoutAccess(said)
	said = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, said)
	said = strings.Join(strings.Fields(said), " ")
	if runes := []rune(said); len(runes) > longest {
		said = string(runes[:longest]) + "…"
	}
	return said
}
