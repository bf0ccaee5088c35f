package lan

import (
	"errors"
	"fmt"

	"github.com/bougou/go-ipmi/pkg/types"
)

// ErrGone: the session has ended, and nothing was sent. A new one may be opened.
var ErrGone = errors.New("the session has ended")

// CodeError is a completion code that is no success (section 5.2). Bridged tells that the BMC could not pass the request on: the
// controller behind it has not got it.
type CodeError struct {
	Code    uint8
	Request Request
	Bridged bool
}

func (e *CodeError) Error() string {
	command := types.Command{NetFn: types.NetFn(e.Request.NetFn), ID: e.Request.Command}
	if e.Bridged {
		command = types.Command{NetFn: types.NetFn(netFnApp), ID: cmdSendMessage}
	}
	text := fmt.Sprintf("completion code %02Xh", e.Code)
	if said := types.StrCC(command, e.Code); said != "" {
		text += " (" + said + ")"
	}
	if e.Bridged {
		return text + " when it was to pass the request on"
	}
	return text
}

// NoAnswerError: the BMC did not answer.
type NoAnswerError struct {
	// Datagrams is how many were sent in vain.
	Datagrams int
	// Closed: the machine at the address says that nothing listens on that port.
	Closed bool
}

func (e *NoAnswerError) Error() string {
	if e.Closed {
		return "nothing listens on that UDP port"
	}
	return fmt.Sprintf("no answer to %d datagrams", e.Datagrams)
}

// Why is a reason for which a BMC refuses a login.
type Why int

// The reasons.
const (
	// Password: the password is another one, or the BMC's key is.
	Password Why = iota
	// Name: the BMC does not know the user.
	Name
	// Key: password and user are right, and the BMC's key Kg is not.
	Key
	// Level: the user may not have that privilege.
	Level
	// Suite: the BMC has none of the cipher suites.
	Suite
	// Full: the BMC has no session left.
	Full
	// Version: the BMC does not speak that version of IPMI, or not in a way that is safe.
	Version
	// Odd: the BMC's answer makes no sense.
	Odd
)

// LoginError is a login that the BMC refuses, or that is refused here because of what the BMC says.
type LoginError struct {
	Why  Why
	Said string
}

func (e *LoginError) Error() string { return e.Said }

func refuse(why Why, format string, args ...any) error {
	return &LoginError{why, fmt.Sprintf(format, args...)}
}
