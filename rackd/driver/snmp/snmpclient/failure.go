package snmpclient

import (
	"errors"
	"fmt"

	"github.com/gosnmp/gosnmp"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
)

// ErrAbsent is what a request ends with for an object that the agent does not have.
var ErrAbsent = errors.New("there is no such object")

// unanswered sorts what gosnmp returns in place of an answer to a read.
func (n Names) unanswered(err error) error {
	if r := n.reported(err); r != nil {
		return r
	}
	if errors.Is(err, gosnmp.ErrNotInTimeWindow) || errors.Is(err, gosnmp.ErrUnknownEngineID) {
		// The agent has restarted, or another is in its place.
		return bmc.Forgotten(&bmc.Lost{Err: err})
	}
	return &bmc.Lost{Err: err}
}

// mostMessages bounds the messages of one request.
const mostMessages = 64

// refusals are the reports with which an agent refuses a request that it has not looked at, as gosnmp calls them (RFC 3414, section 3.2).
var refusals = map[string]error{
	".1.3.6.1.6.3.15.1.1.1.0": gosnmp.ErrUnknownSecurityLevel,
	".1.3.6.1.6.3.15.1.1.3.0": gosnmp.ErrUnknownUsername,
	".1.3.6.1.6.3.15.1.1.4.0": gosnmp.ErrUnknownEngineID,
	".1.3.6.1.6.3.15.1.1.5.0": gosnmp.ErrWrongDigest,
	".1.3.6.1.6.3.15.1.1.6.0": gosnmp.ErrDecryption,
}

// unauthenticReport is the refusal in a datagram that is not authenticated, nil for none. gosnmp drops such datagrams, although an
// agent whose key is another cannot send others. The client's engine has to be known: before, a report tells which it is. before is
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

// reported is what an agent says by a report of version 3 (RFC 3414, section 3.2): it has not looked at the request. Nil for
// all other errors.
func (n Names) reported(err error) error {
	for _, refused := range []error{gosnmp.ErrUnknownUsername, gosnmp.ErrWrongDigest, gosnmp.ErrDecryption, gosnmp.ErrUnknownSecurityLevel} {
		if errors.Is(err, refused) {
			return bmc.RefusedLogin(&bmc.Failure{Class: bmc.Denied, Said: err.Error()})
		}
	}
	for _, refused := range []error{gosnmp.ErrUnknownPDUHandlers, gosnmp.ErrUnknownReportPDU, gosnmp.ErrUnknownSecurityModels, gosnmp.ErrInvalidMsgs} {
		if errors.Is(err, refused) {
			f := &bmc.Failure{Class: bmc.Invalid, Said: err.Error()}
			if n.Contexts != "" {
				f.Said += " (check " + n.Contexts + ")"
			}
			return f
		}
	}
	return nil
}

// refusal is the error that an answer holds (RFC 3416, section 3), nil for none. community and user are the fields whose rights count.
func refusal(packet *gosnmp.SnmpPacket, community, user string) error {
	switch packet.Error {
	case gosnmp.NoError:
		return nil
	case gosnmp.NoSuchName, gosnmp.NoCreation, gosnmp.InconsistentName:
		return ErrAbsent
	case gosnmp.ReadOnly, gosnmp.NoAccess, gosnmp.NotWritable, gosnmp.AuthorizationError:
		return fmt.Errorf("answered %s: check %s or the rights of %s: %w", packet.Error, community, user, driver.ErrDenied)
	case gosnmp.ResourceUnavailable:
		return &bmc.Failure{Class: bmc.Busy, Said: packet.Error.String()}
	}
	return &bmc.Failure{Said: packet.Error.String()}
}
