package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/store"
)

// storeError turns what the store reports into what a client is told. Handlers
// that know which object is missing say so themselves.
func storeError(err error) error {
	if e, ok := errors.AsType[*store.DuplicateError](err); ok {
		return wire.Errorf(http.StatusConflict, "%s", duplicate(e))
	}
	if e, ok := errors.AsType[*store.InvalidSortError](err); ok {
		return wire.Invalid("The sort_key value %q is an invalid field for sorting", e.Key)
	}
	switch {
	case errors.Is(err, store.ErrConflict):
		return wire.Errorf(http.StatusConflict, "The resource was changed by another request at the same time. Nothing was changed; please retry.")
	case errors.Is(err, store.ErrNotFound):
		return wire.Errorf(http.StatusNotFound, "Resource could not be found.")
	}
	return err
}

// unavailable turns an error that no client has caused into a 503 when the database
// cannot be used just now, or when the time for a request has run out.
func (s *Server) unavailable(err error) error {
	switch {
	case errors.Is(err, store.ErrUnknown):
		return wire.Errorf(http.StatusServiceUnavailable, "The database went away before it confirmed the request, which may or may not "+
			"have been accepted. Look at the resource before you repeat the request.")
	case errors.Is(err, store.ErrBusy):
		return wire.Errorf(http.StatusServiceUnavailable, "Too many requests want the same resources at this moment. Nothing was changed; please retry.")
	case errors.Is(err, context.DeadlineExceeded):
		return wire.Errorf(http.StatusServiceUnavailable, "The request was not done within %v. Nothing was changed; please retry.", requestTimeout)
	case s.Store.Unavailable(err):
		return wire.Errorf(http.StatusServiceUnavailable, "The database cannot be used at this moment. Nothing was changed; please retry.")
	}
	return err
}

func duplicate(e *store.DuplicateError) string {
	switch e.Field {
	case "name":
		return "A node with name " + e.Value + " already exists."
	case "uuid":
		return "A node with UUID " + e.Value + " already exists."
	case "address":
		return "A port with MAC address " + e.Value + " already exists."
	case "port_name":
		return "A port with name " + e.Value + " already exists."
	}
	return e.Error()
}
