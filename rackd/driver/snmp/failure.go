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

// unanswered sorts what gosnmp returns in place of an answer to a read.
func unanswered(err error) error {
	if r := reported(err); r != nil {
		return r
	}
	if errors.Is(err, gosnmp.ErrNotInTimeWindow) || errors.Is(err, gosnmp.ErrUnknownEngineID) {
		// The PDU has started anew, or another is in its place.
		return bmc.Forgotten(&bmc.Lost{Err: err})
	}
	return &bmc.Lost{Err: err}
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
