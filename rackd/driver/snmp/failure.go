package snmp

import (
	"errors"
	"fmt"

	"github.com/gosnmp/gosnmp"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
)

// errAbsent: the PDU has no such object.
var errAbsent = errors.New("there is no such object")

// absent is an error of an operator's that says that an object is not there.
type absent struct{ error }

func (a absent) Unwrap() []error { return []error{a.error, errAbsent} }

// unanswered sorts what gosnmp returns in place of an answer to a read.
func unanswered(err error) error {
	if r := reported(err); r != nil {
		return r
	}
	if errors.Is(err, gosnmp.ErrNotInTimeWindow) || errors.Is(err, gosnmp.ErrUnknownEngineID) {
		// The PDU has restarted, or another is in its place.
		return bmc.Forgotten(&bmc.Lost{Err: err})
	}
	return &bmc.Lost{Err: err}
}

// mostMessages bounds the messages of one request.
const mostMessages = 64

// refusals are the reports with which a PDU refuses a request that it has not looked at, as gosnmp calls them (RFC 3414, section 3.2).
var refusals = map[string]error{
	".1.3.6.1.6.3.15.1.1.1.0": gosnmp.ErrUnknownSecurityLevel,
	".1.3.6.1.6.3.15.1.1.3.0": gosnmp.ErrUnknownUsername,
	".1.3.6.1.6.3.15.1.1.4.0": gosnmp.ErrUnknownEngineID,
	".1.3.6.1.6.3.15.1.1.5.0": gosnmp.ErrWrongDigest,
	".1.3.6.1.6.3.15.1.1.6.0": gosnmp.ErrDecryption,
}

// unauthenticReport is the refusal in a datagram that is not authenticated, nil for none. gosnmp drops such datagrams, although a
// PDU whose key is another cannot send others. The client's engine has to be known: before, a report tells which it is. before is
// the id before that of the request's first message.
func unauthenticReport(c *gosnmp.GoSNMP, datagram []byte, before uint32) error {
	usm, ok := c.SecurityParameters.(*gosnmp.UsmSecurityParameters)
	if !ok || usm.AuthoritativeEngineID == "" {
		return nil
	}
	packet, err := unprotected().SnmpDecodePacket(datagram)
	if err != nil || packet.Version != gosnmp.Version3 || packet.MsgFlags&gosnmp.AuthPriv != gosnmp.NoAuthNoPriv || packet.PDUType != gosnmp.Report ||
		len(packet.Variables) != 1 || packet.MsgID <= before || packet.MsgID > before+mostMessages {
		return nil
	}
	return refusals[packet.Variables[0].Name]
}

// unprotected decodes datagrams that nothing protects, of each version. Others are errors.
func unprotected() *gosnmp.GoSNMP {
	return &gosnmp.GoSNMP{Version: gosnmp.Version3, SecurityModel: gosnmp.UserSecurityModel, MsgFlags: gosnmp.NoAuthNoPriv,
		SecurityParameters: &gosnmp.UsmSecurityParameters{UserName: "any", AuthenticationProtocol: gosnmp.NoAuth, PrivacyProtocol: gosnmp.NoPriv}}
}

// reported is what a PDU says by a report of version 3 (RFC 3414, section 3.2): it has not looked at the request. Nil for
// all other errors.
func reported(err error) error {
	for _, refused := range []error{gosnmp.ErrUnknownUsername, gosnmp.ErrWrongDigest, gosnmp.ErrDecryption, gosnmp.ErrUnknownSecurityLevel} {
		if errors.Is(err, refused) {
			return bmc.RefusedLogin(&bmc.Failure{Class: bmc.Denied, Said: err.Error()})
		}
	}
	for _, refused := range []error{gosnmp.ErrUnknownPDUHandlers, gosnmp.ErrUnknownReportPDU, gosnmp.ErrUnknownSecurityModels, gosnmp.ErrInvalidMsgs} {
		if errors.Is(err, refused) {
			return &bmc.Failure{Class: bmc.Invalid, Said: fmt.Sprintf("%v (check %s and %s)", err, fieldContextEngine, fieldContextName)}
		}
	}
	return nil
}

// refusal is the error that an answer holds (RFC 3416, section 3), nil for none. community is the field whose community asked.
func refusal(packet *gosnmp.SnmpPacket, community string) error {
	switch packet.Error {
	case gosnmp.NoError:
		return nil
	case gosnmp.NoSuchName, gosnmp.NoCreation, gosnmp.InconsistentName:
		return errAbsent
	case gosnmp.ReadOnly, gosnmp.NoAccess, gosnmp.NotWritable, gosnmp.AuthorizationError:
		return fmt.Errorf("answered %s: check %s or the rights of %s: %w", packet.Error, community, fieldUser, driver.ErrDenied)
	case gosnmp.ResourceUnavailable:
		return &bmc.Failure{Class: bmc.Busy, Said: packet.Error.String()}
	}
	return &bmc.Failure{Said: packet.Error.String()}
}
