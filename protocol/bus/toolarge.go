package bus

import (
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// ErrTooLarge means that the bus does not take a message for its size: to send it again is of no
// use, and nothing was written.
var ErrTooLarge = errors.New("too large for the bus")

// maxStored is the most that a server keeps of a value with its headers, and headersRoom is
// for the headers that this package adds.
const (
	maxStored   = 1 << 20
	headersRoom = 4 << 10
)

// MaxMessage is the most that a value or an event may have. Every server of a site takes as much.
const MaxMessage = maxStored - headersRoom

// fits returns ErrTooLarge for a message that no server would take. It is looked at before it
// joins others in a batch, which would fail with it.
func fits(m *nats.Msg) error {
	if len(m.Data) > MaxMessage {
		return fmt.Errorf("%s: %w: it has %d bytes, more than the limit of %d", m.Subject, ErrTooLarge, len(m.Data), MaxMessage)
	}
	return nil
}

// The server's error codes for a message that is larger than its stream takes.
const (
	messageTooLarge = 10054
	headersTooLarge = 10097
)

// streamFull is the server's error code for a stream that holds as many bytes as it may.
const streamFull = 10077

// The server's error codes for a message of an account, or of servers, whose streams take up all the room that they may. The leader of
// a stream says so before it hands the message on.
const (
	accountExhausted = 10002
	noRoom           = 10023
)

// NotWritten reports whether err says for certain that nothing was written: no server keeps the stream, or its leader has refused the
// message for its size or for want of room. A conflict says less: an earlier write of the same writer may be in the way, whose answer
// was lost.
func NotWritten(err error) bool {
	if errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, ErrTooLarge) {
		return true
	}
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && (api.ErrorCode == accountExhausted || api.ErrorCode == noRoom)
}

// Full reports whether err says that a bucket or stream holds as many bytes as it may.
func Full(err error) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && api.ErrorCode == streamFull
}

// sized adds ErrTooLarge to an answer that says so, of a server that takes less than others.
func sized(err error) error {
	api, ok := errors.AsType[*jetstream.APIError](err)
	if errors.Is(err, nats.ErrMaxPayload) || ok && (api.ErrorCode == messageTooLarge || api.ErrorCode == headersTooLarge) {
		return fmt.Errorf("%w: %w", ErrTooLarge, err)
	}
	return err
}
