package redfish

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"unicode"

	"github.com/stmcginnis/gofish/common"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/outbound"
)

// explain turns what gofish or the transport returned into an error that says
// what was tried, on which node and BMC, what came back and what to do.
func explain(n *node.Document, a account, doing string, write bool, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, driver.ErrFenced) {
		if wrapped, ok := errors.AsType[*url.Error](err); ok {
			return wrapped.Err // the fence's error, unchanged
		}
		return err
	}
	at := fmt.Sprintf("node %s: %s: BMC %s", n.Label(), doing, a.endpoint)
	for _, known := range []error{driver.ErrUnsupported, driver.ErrInvalid, driver.ErrUnknown, driver.ErrUnreachable, driver.ErrDenied} {
		if errors.Is(err, known) {
			return &explained{text: at + ": " + a.clean(err.Error()), cause: err}
		}
	}
	if refused, ok := errors.AsType[*common.Error](err); ok && refused.HTTPReturnedStatusCode != 0 {
		return explainStatus(at, a, write, refused)
	}
	gone, _ := errors.AsType[*lost](err)
	// http.Client wraps with the URL and method, which say nothing new.
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	_, elsewhere := errors.AsType[*outbound.RefusedError](err)
	switch {
	case elsewhere:
		return fmt.Errorf("%s was not dialled (%w): correct %s, or name its network to rackd: %w", at, err, fieldAddress, driver.ErrInvalid)
	case gone == nil:
		return fmt.Errorf("%s: %s", at, a.clean(err.Error()))
	case gone.unknown:
		return fmt.Errorf("%s got the request and did not answer (%w): %w", at, err, driver.ErrUnknown)
	case certificate(err):
		return fmt.Errorf("%s shows a certificate that is not trusted (%w): set driver_info %s to its PEM, or to false: %w", at, err, fieldVerifyCA, driver.ErrInvalid)
	}
	return fmt.Errorf("%s does not answer (%w): check %s, the BMC's network and that it is up: %w", at, err, fieldAddress, driver.ErrUnreachable)
}

func explainStatus(at string, a account, write bool, refused *common.Error) error {
	status := refused.HTTPReturnedStatusCode
	said := fmt.Sprintf("HTTP %d: %s", status, a.clean(message(refused)))
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return fmt.Errorf("%s refuses user %q (%s): check %s and %s, and that the user may operate machines: %w",
			at, a.user, said, fieldUser, fieldPassword, driver.ErrDenied)
	case write && (status == http.StatusBadGateway || status == http.StatusGatewayTimeout):
		return fmt.Errorf("%s answered %s: %w", at, said, driver.ErrUnknown)
	case status == http.StatusServiceUnavailable, status == http.StatusTooManyRequests,
		status == http.StatusBadGateway, status == http.StatusGatewayTimeout:
		return fmt.Errorf("%s is busy, it answered %s: %w", at, said, driver.ErrUnreachable)
	}
	return fmt.Errorf("%s answered %s", at, said)
}

// explained is an error whose text may quote the BMC, made fit to show.
type explained struct {
	text  string
	cause error
}

func (e *explained) Error() string { return e.text }
func (e *explained) Unwrap() error { return e.cause }

// status is the HTTP status of a refusal, 0 when err is none.
func status(err error) int {
	if refused, ok := errors.AsType[*common.Error](err); ok {
		return refused.HTTPReturnedStatusCode
	}
	return 0
}

// message is the most telling text of a Redfish error.
func message(e *common.Error) string {
	for _, info := range e.ExtendedInfos {
		if info.Message != "" {
			return strings.TrimSpace(info.Message + " " + info.Resolution)
		}
	}
	return e.Message
}

// clean makes a BMC's words fit for an error: bounded, on one line, and without
// the password should the BMC repeat it.
func (a account) clean(s string) string {
	if a.password != "" {
		s = strings.ReplaceAll(s, a.password, "******")
	}
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
	s = strings.Join(strings.Fields(s), " ")
	const most = 400
	if runes := []rune(s); len(runes) > most {
		s = string(runes[:most]) + "…"
	}
	return s
}

func certificate(err error) bool {
	for _, is := range []func(error) bool{
		func(err error) bool { _, ok := errors.AsType[*tls.CertificateVerificationError](err); return ok },
		func(err error) bool { _, ok := errors.AsType[x509.UnknownAuthorityError](err); return ok },
		func(err error) bool { _, ok := errors.AsType[x509.HostnameError](err); return ok },
		func(err error) bool { _, ok := errors.AsType[x509.CertificateInvalidError](err); return ok },
	} {
		if is(err) {
			return true
		}
	}
	return false
}
