package bus

import (
	"errors"

	"github.com/nats-io/nats.go/jetstream"
)

// Conflict reports whether err says that a key, or a stream, was not at the revision that its
// writer named: somebody else has written it, or the bus has lost it. The server says so
// in two ways, by one code or, from a replicated stream and from one that has just been purged,
// by another.
func Conflict(err error) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && (api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}
