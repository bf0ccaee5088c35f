package auth

import "errors"

// ErrNone says that a request carries none of the strategy's credentials.
var ErrNone = errors.New("no credentials")

// Denied says that a request is not let in.
type Denied struct {
	// Status of the answer; 0: 401.
	Status int
	// Message and Title are what the client is told, no more than that it is not let in.
	// An empty title is left out.
	Message, Title string
	// Reason is for the log.
	Reason string
}

func (d *Denied) Error() string { return d.Reason }
