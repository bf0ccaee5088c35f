package bmc

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/namedfile"
)

// VerifyCA reads a field such as redfish_verify_ca: "true", "false", PEM itself or the name of a PEM file. It takes the
// words that Ironic takes for a Boolean; an empty field means true.
func VerifyCA(field string) string {
	switch strings.ToLower(strings.TrimSpace(field)) {
	case "", "true", "t", "1", "yes", "y", "on":
		return "true"
	case "false", "f", "0", "no", "n", "off":
		return "false"
	}
	return field
}

// TLS is how a BMC's certificate is checked. verify is what VerifyCA returns, of the field of that name; the
// files that it may name are in folder.
func TLS(verify, field string, folder namedfile.Folder) (*tls.Config, error) {
	switch verify {
	case "true":
		return &tls.Config{MinVersion: tls.VersionTLS12}, nil
	case "false":
		// The operator said so, on this node; many BMCs ship with nothing better.
		return &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}, nil
	}
	pem := []byte(verify)
	if !strings.Contains(verify, "-----BEGIN") {
		var err error
		if pem, err = folder.Read(verify); err != nil {
			return nil, fmt.Errorf("invalid value %q set in driver_info/%s: the value should be a Boolean, PEM, or the name of a PEM file: %w: %w",
				verify, field, err, driver.ErrInvalid)
		}
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no PEM certificate: %w", field, driver.ErrInvalid)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}, nil
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
