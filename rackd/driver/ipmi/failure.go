package ipmi

import (
	"errors"
	"fmt"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
	"github.com/ironyard/ironyard/rackd/driver/ipmi/lan"
)

// codeOf is the completion code of an error, 0 when it is none.
func codeOf(err error) uint8 {
	if e, is := errors.AsType[*lan.CodeError](err); is {
		return e.Code
	}
	return 0
}

// busy reports whether the BMC has not carried out a request because it cannot just now: node busy, out of space, SDR repository or
// firmware in update, initialisation (section 5.2).
func busy(err error) bool {
	switch e, is := errors.AsType[*lan.CodeError](err); {
	case !is || e.Bridged:
		return false
	default:
		return e.Code == 0xC0 || e.Code == 0xC4 || e.Code == 0xD0 || e.Code == 0xD1 || e.Code == 0xD2
	}
}

// failure sorts an error of a session. order says that the request changes something.
func failure(err error, order bool) error {
	e, is := errors.AsType[*lan.CodeError](err)
	if !is {
		if _, silent := errors.AsType[*lan.NoAnswerError](err); silent && !order {
			return &bmc.Lost{Err: err}
		}
		if err != nil && !order && !errors.Is(err, lan.ErrGone) {
			return &bmc.Lost{Err: err}
		}
		return err
	}
	f := &bmc.Failure{Said: e.Error(), Cause: err}
	switch code := e.Code; {
	case e.Bridged:
		f.Class = bmc.Refused
		f.Said += ": check the fields of " + fieldBridging
	case busy(err):
		f.Class = bmc.Busy
	case order && (code == 0xC3 || code == 0xCE || code == 0xCF):
		f.Class = bmc.Unknown // it timed out inside of the BMC, or was done and cannot be answered
	case code == 0xC3:
		f.Class = bmc.Busy
	case code == 0xD4:
		f.Class = bmc.Denied
		f.Said += "; the session's privilege is that of " + fieldPrivilege
	case code == 0xC1 || code == 0xC2 || code == 0xD6:
		f.Class = bmc.Unsupported
	}
	return f
}

// refusal sorts a login that did not succeed.
func refusal(err error, a account) error {
	if silent, is := errors.AsType[*lan.NoAnswerError](err); is {
		return &bmc.Lost{Err: silent}
	}
	e, is := errors.AsType[*lan.LoginError](err)
	if !is {
		return failure(err, false)
	}
	switch e.Why {
	case lan.Password, lan.Name:
		return bmc.RefusedLogin(&bmc.Failure{Class: bmc.Denied, Said: e.Said, Cause: e})
	case lan.Key:
		return bmc.RefusedLogin(fmt.Errorf("refuses the login: %s: check %s: %w", e.Said, fieldKey, driver.ErrDenied))
	case lan.Level:
		return bmc.RefusedLogin(fmt.Errorf("refuses the login: %s: give %s a lower one, or the user a higher one at the BMC: %w", e.Said, fieldPrivilege, driver.ErrDenied))
	case lan.Suite:
		if a.suite >= 0 {
			return fmt.Errorf("%s: give another %s, or none: %w", e.Said, fieldSuite, driver.ErrInvalid)
		}
		return fmt.Errorf("%s: enable one of them at the BMC, or give %s: %w", e.Said, fieldSuite, driver.ErrInvalid)
	case lan.Full:
		return &bmc.Failure{Class: bmc.Busy, Said: e.Said, Cause: e}
	case lan.Version:
		other := "1.5"
		if a.old {
			other = "2.0"
		}
		return fmt.Errorf("%s: set %s to %s if it can do that: %w", e.Said, fieldVersion, other, driver.ErrInvalid)
	}
	return &bmc.Failure{Class: bmc.Refused, Said: e.Said, Cause: e}
}

// short is a BMC's answer that lacks what it must have.
func short(what string, got []byte) error {
	return &bmc.Failure{Class: bmc.Refused, Said: fmt.Sprintf("only %d bytes when it was asked for %s: its firmware is at fault", len(got), what)}
}
