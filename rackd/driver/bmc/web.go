package bmc

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/namedfile"
	"github.com/ironyard/ironyard/rackd/outbound"
)

// WebOptions are what a driver of BMCs that speak XML or JSON over HTTP is told; zero values mean the defaults.
type WebOptions struct {
	// ConnectTimeout bounds a connection with its TLS handshake, default 30 s; AnswerTimeout the wait for an answer, default 60 s.
	ConnectTimeout, AnswerTimeout time.Duration
	// MaxBMCs, Pace and Recovery are those of PoolOptions.
	MaxBMCs, Pace int
	Recovery      time.Duration
	// Networks are those that BMCs are in.
	Networks outbound.BMCs
	// CAFolder holds the PEM files that driver_info may name.
	CAFolder namedfile.Folder
	Shared   Shared
	Log      *slog.Logger
}

// Filled returns the options with their defaults.
func (o WebOptions) Filled() WebOptions {
	if o.ConnectTimeout <= 0 {
		o.ConnectTimeout = 30 * time.Second
	}
	if o.AnswerTimeout <= 0 {
		o.AnswerTimeout = 60 * time.Second
	}
	o.Shared = o.Shared.Filled()
	return o
}

// Pool returns the options of a pool of sessions of that driver.
func (o WebOptions) Pool(name string) PoolOptions {
	return PoolOptions{Driver: name, MaxBMCs: o.MaxBMCs, Pace: o.Pace, Recovery: o.Recovery, Shared: o.Shared, Log: o.Log}
}

// Web is where a BMC that speaks HTTP is, and what it is logged in to with.
type Web struct {
	// Node is whose BMC it is.
	Node               *node.Document
	Scheme, Host, Port string
	User, Password     string
	// VerifyCA is what the function of that name returned.
	VerifyCA string
	// Fields are those that the rest comes from.
	Fields Fields
}

// Address is the BMC's host and port.
func (w Web) Address() string { return net.JoinHostPort(w.Host, w.Port) }

// URL is that of a path on the BMC, which begins with a slash.
func (w Web) URL(path string) string { return w.Scheme + "://" + w.Address() + path }

// Account is that of the pool.
func (w Web) Account() Account {
	return w.trust(WebOptions{}).Account(sha256.Sum256([]byte(strings.Join([]string{w.Scheme, w.Address(), w.User, w.Password, w.VerifyCA}, "\x00"))))
}

// AccountName is what driver.Accounted returns.
func (w Web) AccountName() string {
	sum := w.Account().Sum
	return hex.EncodeToString(sum[:])
}

// trust is how the certificate is checked.
func (w Web) trust(o WebOptions) Trust {
	return Trust{Verify: w.VerifyCA, Field: w.Fields.VerifyCA, Folder: o.CAFolder, Pins: o.Shared.Pins, Node: w.Node, Address: w.Address(),
		Plain: w.Scheme != "https", AddressField: w.Fields.Address}
}

// Open returns a transport to the BMC, without any connection.
func (w Web) Open(o WebOptions) (*HTTP, error) {
	config, err := w.trust(o).TLS()
	if err != nil {
		return nil, err
	}
	return NewHTTP(HTTPOptions{Host: w.Address(), TLS: config, ConnectTimeout: o.ConnectTimeout, AnswerTimeout: o.AnswerTimeout, Networks: o.Networks}), nil
}

// Validate refuses an address outside of the BMCs' networks and a certificate that cannot be read. It wraps driver.ErrInvalid.
func (w Web) Validate(n *node.Document, o WebOptions) error {
	if w.Scheme == "https" {
		if _, err := w.trust(o).TLS(); err != nil {
			return fmt.Errorf("node %s: %w", n.Label(), err)
		}
	} else if w.VerifyCA == node.PinKey {
		return fmt.Errorf("node %s: %w", n.Label(), NoKey(w.Fields.VerifyCA, w.Fields.Address))
	}
	ip, err := netip.ParseAddr(w.Host)
	if err != nil {
		return nil // what a name leads to is checked when it is dialled
	}
	if err := o.Networks.Check(ip); err != nil {
		return fmt.Errorf("node %s: %s: %w: %w", n.Label(), w.Fields.Address, err, driver.ErrInvalid)
	}
	return nil
}

// Attempt is one on the BMC.
func (w Web) Attempt(n *node.Document, device, doing string) Attempt {
	return Attempt{Node: n, Doing: doing, Device: device, BMC: w.Address(), User: w.User, Secrets: []string{w.Password}, Fields: w.Fields}
}

// Host reads a field of driver_info with a host name or an address. Its errors are for driver.Refuse.
func Host(n *node.Document, field, portField string) (string, error) {
	host := strings.TrimSpace(n.DriverString(field))
	if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		host = host[1 : len(host)-1]
	}
	if _, err := netip.ParseAddr(host); err != nil && (host == "" || strings.ContainsAny(host, "/:@?#% \t\r\n\\")) {
		return "", driver.Refuse("%s is neither a host name nor an address: %q. The port goes into %s.", field, host, portField)
	}
	return host, nil
}

// Port reads a field of driver_info with a port, with Ironic's words. fallback is for a field that is not set.
func Port(n *node.Document, field, fallback string) (string, error) {
	text := n.DriverString(field)
	if text == "" {
		return fallback, nil
	}
	switch port, err := strconv.Atoi(text); {
	case err != nil:
		return "", driver.Refuse("%s \"%s\" is not a valid integer.", field, text)
	case port < 1 || port > 65535:
		return "", driver.Refuse("%s \"%s\" is out of range. Valid port numbers must be between 1 and 65535.", field, text)
	}
	return text, nil
}

// Missing lists those of the fields that driver_info lacks, as Ironic's refusals show lists; empty for none.
func Missing(n *node.Document, fields ...string) string {
	var missing []string
	for _, field := range fields {
		if n.DriverString(field) == "" {
			missing = append(missing, "'"+field+"'")
		}
	}
	if missing == nil {
		return ""
	}
	return "[" + strings.Join(missing, ", ") + "]"
}

// Stateless is the session of BMCs that ask for the credentials with each request: nothing but its connections is kept. The pool
// gives turns.
type Stateless struct{ *HTTP }

// Close implements Session.
func (s Stateless) Close(context.Context) { s.Forget() }

// Drop implements Session.
func (s Stateless) Drop() { s.Forget() }
