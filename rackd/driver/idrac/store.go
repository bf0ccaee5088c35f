package idrac

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/outbound"
)

// Store keeps configuration profiles at URLs of a web server. Implementations are safe for concurrent use, and show of a
// URL its host and path only.
type Store interface {
	Load(ctx context.Context, url string) ([]byte, error)
	Save(ctx context.Context, url string, data []byte) error
}

// mostProfile bounds a profile; those of real machines have some 500 KiB.
const mostProfile = 8 << 20

// Web is a Store on web servers: profiles are read by GET and written by PUT.
type Web struct{ client *http.Client }

// NewWeb returns a Store that dials the addresses that images may come from.
func NewWeb(f outbound.Fetching) Web { return Web{outbound.Client(f)} }

// shown is a URL without what may let its holder in.
func shown(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "the location"
	}
	return u.Host + u.Path
}

// checkLocation refuses what is no URL of a web server.
func checkLocation(n *node.Document, name string, args map[string]any) error {
	text, _ := args[name].(string)
	if text == "" {
		return driver.Refuse("%s missing", name) // Ironic's words
	}
	if u, err := url.Parse(text); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("node %s: the argument %s is not an http or https URL: %w", n.Label(), name, driver.ErrInvalid)
	}
	return nil
}

// Load implements Store.
func (w Web) Load(ctx context.Context, at string) ([]byte, error) {
	return w.do(ctx, http.MethodGet, at, nil)
}

// Save implements Store.
func (w Web) Save(ctx context.Context, at string, data []byte) error {
	_, err := w.do(ctx, http.MethodPut, at, data)
	return err
}

// storeTime bounds one request to a store.
const storeTime = 5 * time.Minute

func (w Web) do(ctx context.Context, method, at string, data []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, at, bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%s %s: this is no URL", method, shown(at))
	}
	if data != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := w.client.Do(req)
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err // the URL may hold a password
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, shown(at), err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, mostProfile+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s %s: %w", method, shown(at), err)
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		return nil, fmt.Errorf("%s %s: the server answered %s", method, shown(at), strings.TrimSpace(resp.Status))
	case len(body) > mostProfile:
		return nil, fmt.Errorf("%s %s: it is larger than %d bytes", method, shown(at), mostProfile)
	}
	return body, nil
}
