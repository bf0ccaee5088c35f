package image

import (
	"fmt"
	"runtime/debug"
)

// panicError is a panic of a library that reads or unpacks an image.
type panicError struct {
	doing string
	cause any
	stack []byte
}

func (e *panicError) Error() string {
	return fmt.Sprintf("the agent has a bug, %s panicked: %v; give its maintainers the image and this text\n%s", e.doing, e.cause, e.stack)
}

// guarded turns a panic of read into an error that carries the stack, which is logged with the command's error. The command's own guard
// does not reach other goroutines: there, a panic ends the agent.
func guarded(doing string, read func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &panicError{doing, p, debug.Stack()}
		}
	}()
	return read()
}
