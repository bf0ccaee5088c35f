package auth

import (
	"errors"
	"net/http"
)

// Chain asks strategies in order; the first that knows a request's credentials decides.
type Chain []Strategy

// Authenticate is the first strategy's answer that is not ErrNone. Where all say that,
// the request is denied in the words of the first.
func (c Chain) Authenticate(r *http.Request) (*Caller, error) {
	for _, s := range c {
		caller, err := s.Authenticate(r)
		if !errors.Is(err, ErrNone) {
			return caller, err
		}
	}
	return nil, c[0].Missing()
}

// Challenges are those of all strategies.
func (c Chain) Challenges() []string {
	var all []string
	for _, s := range c {
		all = append(all, s.Challenges()...)
	}
	return all
}

// Missing is the first strategy's.
func (c Chain) Missing() *Denied { return c[0].Missing() }
