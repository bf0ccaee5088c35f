package bus

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/nats-io/nats.go"
)

// ShowURLs returns the URLs of a bus' servers, which commas separate, as logs and errors
// may tell them: without user, password, token and query. An error says which of them is
// none, and repeats nothing of it: a password may be what makes it unreadable.
func ShowURLs(urls string) (string, error) {
	var shown []string
	for i, raw := range strings.Split(urls, ",") {
		u, err := parseURL(strings.TrimSpace(raw))
		if err != nil {
			return "", fmt.Errorf("URL %d of the bus must look like nats://HOST:4222: %w", i+1, err)
		}
		shown = append(shown, u.Scheme+"://"+u.Host)
	}
	return strings.Join(shown, ","), nil
}

// parseURL reads what the client library takes, which may leave the scheme out.
func parseURL(raw string) (*url.URL, error) {
	if !strings.Contains(raw, "://") {
		raw = "nats://" + raw
	}
	u, err := url.Parse(raw)
	if ue, ok := errors.AsType[*url.Error](err); ok {
		if _, quotes := errors.AsType[url.EscapeError](ue.Err); quotes {
			return nil, errors.New("a % in it does not begin an escape (write %25 for a plain %)")
		}
		return nil, errors.New("it cannot be read: user and password may need escapes, such as %40 for @")
	}
	if err == nil && u.Host == "" {
		err = errors.New("it names no host")
	}
	return u, err
}

// Away says which servers conn does not reach and why; nil while it is connected.
func Away(conn *nats.Conn) error {
	if conn.IsConnected() {
		return nil
	}
	at, err := ShowURLs(strings.Join(conn.Servers(), ","))
	if err != nil {
		return err
	}
	if err := conn.LastError(); err != nil {
		return fmt.Errorf("no connection to the bus at %s (%s): %w", at, strings.ToLower(conn.Status().String()), err)
	}
	return fmt.Errorf("no connection to the bus at %s (%s): no server there has answered yet", at, strings.ToLower(conn.Status().String()))
}
