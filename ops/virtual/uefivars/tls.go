package uefivars

import (
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/google/uuid"
)

// tlsAuthorities is the variable with the certificates that the firmware's HTTP client trusts (edk2,
// NetworkPkg/Include/Guid/TlsAuthentication.h). Its data are signature lists, as those of db.
const tlsAuthorities = "TlsCaCertificate"

// TLSAuthorities returns the certificates, in DER, by which the firmware's HTTP client judges servers.
func (s *Store) TLSAuthorities() ([][]byte, error) {
	certificates, _, err := s.certificates(TLSVendor, tlsAuthorities)
	return certificates, err
}

// SetTLSAuthorities replaces what TLSAuthorities returns. Without any the firmware boots from no https URI.
func (s *Store) SetTLSAuthorities(owner uuid.UUID, certificates ...[]byte) error {
	if len(certificates) == 0 {
		return s.Delete(TLSVendor, tlsAuthorities)
	}
	for _, der := range certificates {
		c, err := x509.ParseCertificate(der)
		if err == nil && !c.IsCA {
			err = errors.New("it is no authority's")
		}
		if err != nil {
			return fmt.Errorf("setting the authorities of TLS: a certificate: %w", err)
		}
	}
	return s.Set(Variable{Vendor: TLSVendor, Name: tlsAuthorities, Attributes: NonVolatile | BootService, Data: signatureLists(owner, certificates)})
}
