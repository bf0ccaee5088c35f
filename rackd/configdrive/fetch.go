package configdrive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/ironyard/ironyard/rackd/outbound"
)

// fetchTimeout bounds a whole fetch.
const fetchTimeout = 2 * time.Minute

// fetch gets the text at an http or https URL, bounded in size and time. Errors
// wrap ErrInvalid or ErrUnavailable and leave out user and query of the URL, which
// may be, or sign, a permission.
func fetch(ctx context.Context, client *http.Client, raw string) (string, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("%w: its URL must be http or https, with a host", ErrInvalid)
	}
	from := (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, raw, nil)
	if err != nil {
		return "", fmt.Errorf("%w: its URL %s cannot be asked for", ErrInvalid, from)
	}
	resp, err := client.Do(req)
	if err != nil {
		var ue *url.Error
		if errors.As(err, &ue) {
			err = ue.Err
		}
		kind := ErrUnavailable
		if _, refused := errors.AsType[*outbound.RefusedError](err); refused {
			kind = ErrInvalid
		}
		return "", fmt.Errorf("%w: GET %s: %w", kind, from, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%w: GET %s answered %d %s", statusError(resp.StatusCode), from, resp.StatusCode, http.StatusText(resp.StatusCode))
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxText+1))
	if err != nil {
		return "", fmt.Errorf("%w: %s broke off after %d bytes: %w", ErrUnavailable, from, len(body), err)
	}
	if len(body) > maxText {
		return "", tooLarge()
	}
	return string(body), nil
}

// statusError tells the refusals that stay from those that pass.
func statusError(code int) error {
	if code >= 400 && code < 500 && code != http.StatusRequestTimeout && code != http.StatusTooManyRequests {
		return ErrInvalid
	}
	return ErrUnavailable
}
