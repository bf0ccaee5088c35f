package membership

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/ironyard/ironyard/protocol/join"
	"github.com/ironyard/ironyard/protocol/permit"
)

// Ports of the fleet's NATS servers whose addresses name none.
const (
	ClientPort  = "4222"
	ClusterPort = "6222"
	LeafPort    = "7422"
)

// TLS returns the configuration of a client that shows the member's certificate, as
// it is at each handshake, and trusts servers of the fleet only.
func (m *Member) TLS() (*tls.Config, error) {
	text, err := os.ReadFile(m.Path(FleetFile))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s holds no certificate", m.Path(FleetFile))
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(m.Path(IdentityFile), m.Path(IdentityFile))
			return &pair, err
		}}, nil
}

// BusURL is where a rackd finds its site's bus.
func (m *Member) BusURL() string {
	var urls []string
	for _, s := range m.Servers {
		if a, err := join.ParseAddress(s); err == nil { // central checks them
			urls = append(urls, "tls://"+a.Client())
		}
	}
	return strings.Join(urls, ",")
}

// BusOptions are what a rackd connects to its site's bus with. Certificate and
// credentials are read again for each connection, so a renewal needs no restart.
func (m *Member) BusOptions() ([]nats.Option, error) {
	if m.Scope.Role != join.Rackd {
		return nil, fmt.Errorf("%s is the folder of a %s: only a rackd's folder is for connecting to the bus", m.Dir, m.Scope.Role)
	}
	config, err := m.TLS()
	if err != nil {
		return nil, err
	}
	rules, err := permit.Rackd(m.Scope.Group, m.Scope.Name, m.Scope.FailoverOf...)
	if err != nil {
		return nil, err
	}
	return []nats.Option{nats.Secure(config), nats.UserCredentials(m.Path(CredentialsFile)), nats.CustomInboxPrefix(rules.Inbox),
		// Credentials that are refused now may be renewed in a moment.
		nats.IgnoreAuthErrorAbort()}, nil
}
