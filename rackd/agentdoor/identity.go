package agentdoor

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"math/big"
	"time"

	"github.com/ironyard/ironyard/protocol/seal"
)

// Identity is the certificate that every rackd of a conductor group presents to
// agents: derived from the group's key, it is the same bytes on each of them, so an
// agent that was told its fingerprint by one rackd trusts the one that takes over.
type Identity struct {
	Certificate tls.Certificate
	// Fingerprint is the hex SHA-256 of the certificate.
	Fingerprint string
}

// NewIdentity derives the group's identity from its key: from the generation that seals. Central
// seals with one that all rackds of the group have, so each of them can show its certificate.
func NewIdentity(key *seal.Key) (Identity, error) {
	seed, err := key.Derive("agent door", ed25519.SeedSize)
	if err != nil {
		return Identity{}, err
	}
	private := ed25519.NewKeyFromSeed(seed)
	// Every field is fixed and Ed25519 signs without randomness. The times are wide:
	// agents pin the fingerprint, and a machine's clock may be years off.
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "ironyard rackd"},
		NotBefore:             time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC),
		NotAfter:              time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(nil, template, template, private.Public(), private)
	if err != nil {
		return Identity{}, err
	}
	sum := sha256.Sum256(der)
	return Identity{
		Certificate: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private},
		Fingerprint: hex.EncodeToString(sum[:]),
	}, nil
}
