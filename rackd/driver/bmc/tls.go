package bmc

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/namedfile"
)

// VerifyCA reads a field such as redfish_verify_ca: "true", "false", "pin", PEM itself or the name of a PEM file. It takes the
// words that Ironic takes for a Boolean; an empty field means true.
func VerifyCA(field string) string {
	switch strings.ToLower(strings.TrimSpace(field)) {
	case "", "true", "t", "1", "yes", "y", "on":
		return "true"
	case "false", "f", "0", "no", "n", "off":
		return "false"
	case node.PinKey:
		return node.PinKey
	}
	return field
}

// Trust is how a BMC's certificate is checked.
type Trust struct {
	// Verify is what VerifyCA returned, of the field of driver_info that is called Field.
	Verify, Field string
	// Folder holds the files that Verify may name.
	Folder namedfile.Folder
	// Pins hold the keys where Verify is node.PinKey: that of Node's BMC, which is at Address. Without a Node, Verify is checked only.
	Pins    *Pins
	Node    *node.Document
	Address string
	// Plain: the BMC is reached without TLS, at what the field AddressField says.
	Plain        bool
	AddressField string
}

// pinnedBy is Account.PinnedBy.
func (t Trust) pinnedBy() string {
	if t.Verify == node.PinKey {
		return t.Field
	}
	return ""
}

// Account is that of the pool. sum is Account.Sum.
func (t Trust) Account(sum [32]byte) Account {
	return Account{Address: t.Address, Sum: sum, Node: t.Node, PinnedBy: t.pinnedBy()}
}

// TLS returns the configuration for the connections of one session.
func (t Trust) TLS() (*tls.Config, error) {
	switch t.Verify {
	case "true":
		return &tls.Config{MinVersion: tls.VersionTLS12}, nil
	case "false":
		// The operator said so, on this node; many BMCs ship with nothing better.
		return &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}, nil
	case node.PinKey:
		if t.Plain {
			return nil, NoKey(t.Field, t.AddressField)
		}
		if t.Pins == nil {
			return nil, fmt.Errorf("%s is %s, and this driver pins no keys: %w", t.Field, t.Verify, driver.ErrInvalid)
		}
		// The key itself is what is trusted, whatever else the certificate says: it is compared before anything is sent.
		return &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true, VerifyConnection: t.pin()}, nil
	}
	pem := []byte(t.Verify)
	if !strings.Contains(t.Verify, "-----BEGIN") {
		var err error
		if pem, err = t.Folder.Read(t.Verify); err != nil {
			return nil, fmt.Errorf("invalid value %q set in driver_info/%s: the value should be a Boolean, pin, PEM, or the name of a PEM file: %w: %w",
				t.Verify, t.Field, err, driver.ErrInvalid)
		}
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no PEM certificate: %w", t.Field, driver.ErrInvalid)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}, nil
}

// NoKey is the refusal to pin the key of a BMC that is reached without TLS.
func NoKey(verifyCA, address string) error {
	return fmt.Errorf("%s is %s, and %s is reached without TLS, which shows no key: %w", verifyCA, node.PinKey, address, driver.ErrInvalid)
}

// untrusted reports whether a connection failed because of the BMC's certificate.
func untrusted(err error) bool {
	for _, is := range []func(error) bool{
		func(err error) bool { _, ok := errors.AsType[*tls.CertificateVerificationError](err); return ok },
		func(err error) bool { _, ok := errors.AsType[x509.UnknownAuthorityError](err); return ok },
		func(err error) bool { _, ok := errors.AsType[x509.HostnameError](err); return ok },
		func(err error) bool { _, ok := errors.AsType[x509.CertificateInvalidError](err); return ok },
	} {
		if is(err) {
			return true
		}
	}
	return false
}
