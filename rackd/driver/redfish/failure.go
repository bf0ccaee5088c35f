package redfish

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/stmcginnis/gofish/schemas"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
)

// explain turns what gofish or the transport returned into an error of the driver. write says that the call may have written.
func explain(n *node.Document, a account, doing string, write bool, err error) error {
	if failure := failureOf(err, write); failure != nil {
		err = failure
	}
	if _, gone := errors.AsType[*bmc.Lost](err); !gone && errors.Is(err, io.EOF) {
		err = &bmc.Lost{Err: errors.New("it answers nothing")} // as BMCs do that start; only what was read is looked at
	}
	return bmc.Attempt{
		Node: n, Doing: doing, BMC: a.endpoint, User: a.user, Secrets: []string{a.password},
		Fields: bmc.Fields{Address: a.names.Address, User: a.names.User, Password: a.names.Password, VerifyCA: a.names.VerifyCA},
	}.Explain(err)
}

// failureOf sorts a refusal; nil: err is none.
func failureOf(err error, write bool) *bmc.Failure {
	refused, is := refusal(err)
	if !is || refused.HTTPReturnedStatusCode == 0 {
		return nil
	}
	failure := bmc.StatusFailure(refused.HTTPReturnedStatusCode, write, message(refused), err)
	if refusedLogin(err) {
		failure.Class = bmc.Denied
	}
	if failure.Class == bmc.Refused && busy(refused) {
		failure.Class = bmc.Busy
	}
	return failure
}

// classOf is bmc.PoolOptions.Result.
func classOf(err error) bmc.Class {
	if failure := failureOf(err, false); failure != nil {
		return failure.Class
	}
	if errors.Is(err, io.EOF) {
		return bmc.Unreachable
	}
	return bmc.Refused
}

// refusedLogin reports whether a login ended with err because of its credentials. An iLO answers 400 to such a one, and says so in words.
func refusedLogin(err error) bool {
	switch status(err) {
	case http.StatusUnauthorized, http.StatusForbidden:
		return true
	case http.StatusBadRequest:
		refused, is := refusal(err)
		return is && slices.ContainsFunc(refused.ExtendedInfos, func(i schemas.ErrExtendedInfo) bool {
			return strings.HasSuffix(i.MessageID, ".UnauthorizedLoginAttempt")
		})
	}
	return false
}

// message is the most telling text of a Redfish error.
func message(e *schemas.Error) string {
	for _, info := range e.ExtendedInfos {
		if info.Message != "" {
			return strings.TrimSpace(info.Message + " " + info.Resolution)
		}
	}
	return e.Message
}

// clean makes a BMC's words fit for an error.
func (a account) clean(said string) string { return bmc.Clean(said, a.password) }
