package enrol

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/join"
)

// Times of certificates and credentials.
const (
	// memberLife is how long a member may be cut off from central before it must join
	// anew; members renew daily.
	memberLife = 90 * 24 * time.Hour
	// centralLife is that of what central makes for itself.
	centralLife = 30 * 24 * time.Hour
	// clockSkew is by how much clocks may differ.
	clockSkew = 10 * time.Minute
)

func newSerial() *big.Int {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		panic(err) // crypto/rand does not fail
	}
	return n
}

// readCSR returns the key of a certificate request, after checking that the request
// is signed with it and that it is a key worth certifying.
func readCSR(text string) (crypto.PublicKey, error) {
	block, rest := pem.Decode([]byte(text))
	if block == nil || block.Type != "CERTIFICATE REQUEST" || strings.TrimSpace(string(rest)) != "" {
		return nil, errors.New("csr: want one PEM block CERTIFICATE REQUEST")
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("csr: %w", err)
	}
	switch k := csr.PublicKey.(type) {
	case *ecdsa.PublicKey:
		if k.Curve != elliptic.P256() && k.Curve != elliptic.P384() {
			return nil, errors.New("csr: want an elliptic curve of P-256 or P-384")
		}
	case ed25519.PublicKey:
	case *rsa.PublicKey:
		if bits := k.N.BitLen(); bits < 2048 || bits > 8192 {
			return nil, fmt.Errorf("csr: an RSA key of %d bits, want 2048 to 8192", bits)
		}
	default:
		return nil, fmt.Errorf("csr: keys of type %T are not accepted", k)
	}
	if err := csr.CheckSignature(); err != nil {
		return nil, fmt.Errorf("csr: %w", err)
	}
	return csr.PublicKey, nil
}

// memberURI is how a certificate names its member.
func memberURI(id string) *url.URL { return &url.URL{Scheme: "ironyard", Opaque: "member:" + id} }

// memberOf returns the id of the member that a certificate names.
func memberOf(c *x509.Certificate) (string, bool) {
	for _, u := range c.URIs {
		if id, ok := strings.CutPrefix(u.Opaque, "member:"); ok && u.Scheme == "ironyard" {
			return id, true
		}
	}
	return "", false
}

// issued is what certify signed.
type issued struct {
	certificate string // PEM
	route       string // PEM; empty of a rackd, and of a server that asked for none
	expires     time.Time
}

// requested are the keys that a member asks certificates for.
type requested struct {
	own   crypto.PublicKey
	route crypto.PublicKey // nil: none
}

// readRequested reads the two certificate requests of a member; the second may be missing.
func readRequested(own, route string) (r requested, err error) {
	if r.own, err = readCSR(own); err != nil || route == "" {
		return r, err
	}
	if r.route, err = readCSR(route); err != nil {
		err = fmt.Errorf("route_%w", err)
	}
	return r, err
}

// certify signs a member's certificates and notes in m which they are. A rackd can be a
// client only: its certificate must not do for a server that others trust.
func (a *Authority) certify(keys requested, m *store.Member) (out issued, err error) {
	template := a.template(string(m.Scope.Role)+" "+m.Scope.Name, memberLife)
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if m.Scope.Role != join.Rackd {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
		at, err := join.ParseAddress(m.Scope.Address)
		if err != nil {
			return out, err
		}
		name(template, at.Host)
		if keys.route != nil {
			// It names no member: it renews nothing.
			if out.route, _, err = a.sign(template, keys.route); err != nil {
				return out, err
			}
			if m.RouteKey, err = hashOfKey(keys.route); err != nil {
				return out, err
			}
		}
	}
	template.URIs = []*url.URL{memberURI(m.ID)}
	out.certificate, m.Certificate, err = a.sign(template, keys.own)
	out.expires, m.ExpiresAt = template.NotAfter, template.NotAfter
	return out, err
}

// sign makes a certificate, as PEM, and its fingerprint.
func (a *Authority) sign(template *x509.Certificate, key crypto.PublicKey) (text, fingerprint string, err error) {
	template.SerialNumber = newSerial()
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key, a.key)
	if err != nil {
		return "", "", err
	}
	text = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return text, join.Fingerprint(&x509.Certificate{Raw: der}), nil
}

// hashOfKey names a public key as NATS servers pin it.
func hashOfKey(key crypto.PublicKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:]), err
}

func (a *Authority) template(subject string, life time.Duration) *x509.Certificate {
	now := a.now()
	return &x509.Certificate{SerialNumber: newSerial(), Subject: pkix.Name{CommonName: subject}, NotBefore: now.Add(-clockSkew),
		NotAfter: now.Add(life), KeyUsage: x509.KeyUsageDigitalSignature, BasicConstraintsValid: true}
}

// name adds a host name or an address to a certificate.
func name(c *x509.Certificate, host string) {
	if ip := net.ParseIP(host); ip != nil {
		c.IPAddresses = append(c.IPAddresses, ip)
	} else {
		c.DNSNames = append(c.DNSNames, host)
	}
}

// verify checks a member's certificate against the authority, at this moment.
func (a *Authority) verify(text string) (*x509.Certificate, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("certificate: want PEM")
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AddCert(a.certificate)
	// One that is not good yet was made by a replica whose clock is ahead, or was: it counts,
	// as no other signs with this key.
	now := a.now()
	if now.Before(c.NotBefore) {
		now = c.NotBefore
	}
	_, err = c.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	return c, err
}
