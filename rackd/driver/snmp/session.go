package snmp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/snmp/snmpclient"
)

// session is one with a PDU. The holder of the PDU's turn uses it.
type session struct {
	*snmpclient.Session
	log  *slog.Logger
	host string
	// identity is the model that the PDU said it is, empty until it was asked; identified is by which socket.
	identity   string
	identified int
}

// absent is an error of an operator's that says that an object is not there.
type absent struct{ error }

func (a absent) Unwrap() []error { return []error{a.error, snmpclient.ErrAbsent} }

// order writes an outlet's object, in one datagram.
func (s *session) order(ctx context.Context, f driver.Fence, o order, outlet int) error {
	object := at(o.object, outlet)
	err := s.Set(ctx, f, object, o.value)
	if errors.Is(err, snmpclient.ErrAbsent) {
		return fmt.Errorf("answered that it has no object %s that can be written with these credentials: check %s and %s: %w",
			object, fieldDriver, fieldCommunityWrite, driver.ErrInvalid)
	}
	return err
}
