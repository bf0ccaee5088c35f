package auth

import "errors"

// ErrNone says that a request carries none of the strategy's credentials.
var ErrNone = errors.New("no credentials")

// Denied says that credentials are not good.
type Denied struct {
	// Reason is for the log; the client is told no more than that it is not let in.
	Reason string
}

func (d *Denied) Error() string { return d.Reason }
