package enrol

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"sync"

	"github.com/ironyard/ironyard/protocol/join"
)

// OwnCertificate is what central proves itself with: made in memory by each replica,
// and made again before it expires. Safe for concurrent use.
type OwnCertificate struct {
	a     *Authority
	hosts []string

	mu   sync.Mutex
	made map[string]*tls.Certificate // by the local address that it names
}

// OwnCertificate returns central's certificate, under join.CentralName and hosts.
func (a *Authority) OwnCertificate(hosts ...string) *OwnCertificate {
	return &OwnCertificate{a: a, hosts: hosts, made: map[string]*tls.Certificate{}}
}

// ForServer suits tls.Config.GetCertificate. The certificate names the address at
// which the client has reached central, too.
func (o *OwnCertificate) ForServer(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	local, _, err := net.SplitHostPort(hello.Conn.LocalAddr().String())
	if err != nil {
		return nil, err
	}
	return o.get(local)
}

// ForClient suits tls.Config.GetClientCertificate.
func (o *OwnCertificate) ForClient(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	return o.get("")
}

func (o *OwnCertificate) get(address string) (*tls.Certificate, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if c := o.made[address]; c != nil && o.a.now().Before(c.Leaf.NotAfter.Add(-centralLife/3)) {
		return c, nil
	}
	c, err := o.make(address)
	if err != nil {
		return nil, fmt.Errorf("central's own certificate: %w", err)
	}
	o.made[address] = c
	return c, nil
}

func (o *OwnCertificate) make(address string) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := o.a.template("central", centralLife)
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	for _, h := range append([]string{join.CentralName, address}, o.hosts...) {
		if h != "" {
			name(template, h)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, o.a.certificate, key.Public(), o.a.key)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	// The authority goes along: who has but its fingerprint must see it.
	return &tls.Certificate{Certificate: [][]byte{der, o.a.certificate.Raw}, PrivateKey: key, Leaf: leaf}, err
}
