package libvirt

import (
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/ironyard/ironyard/protocol/driverinfo"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
)

// Fields of driver_info.
const (
	fieldURI        = "libvirt_uri"
	fieldDomain     = "libvirt_domain"
	fieldUser       = "libvirt_username"
	fieldPassword   = "libvirt_password"
	fieldPrivateKey = "libvirt_private_key"
	fieldCert       = "libvirt_client_cert"
	fieldHostKey    = "libvirt_host_key"
	fieldVerifyCA   = "libvirt_verify_ca"
)

// The transports of libvirt's URIs. Its plain TCP is left out: it does not ask who calls.
const (
	local   = "unix"
	overTLS = "tls"
	overSSH = "ssh"
	tlsPort = "16514"
	sshPort = "22"
)

// Socket is where libvirt listens on its own host, for those whose URI names no other.
const Socket = "/var/run/libvirt/libvirt-sock"

// target is a host's libvirt and a machine there, as a node's driver_info has it.
type target struct {
	uri        string // as libvirt itself is asked to open it: qemu:///system
	transport  string
	host, port string
	socket     string // of libvirt, on that host
	domain     string // name or UUID

	user, password   string
	key, cert        string
	hostKey          ssh.PublicKey // nil: not checked
	verifyCA         string
	accountOf, shown string
	// node is the one whose machine it is.
	node *node.Document
}

func invalid(err error) error { return fmt.Errorf("%w: %w", err, driver.ErrInvalid) }

// parse reads driver_info; errors wrap driver.ErrInvalid.
func parse(n *node.Document) (t target, err error) {
	refuse := func(format string, args ...any) (target, error) {
		return target{}, fmt.Errorf("node %s: driver_info: %s: %w", n.Label(), fmt.Sprintf(format, args...), driver.ErrInvalid)
	}
	text := n.DriverString(fieldURI)
	if text == "" {
		return refuse("%s is missing", fieldURI)
	}
	if why := driverinfo.Wrong("libvirt", fieldURI, text, n.UUID); why != "" {
		return refuse("%s", why)
	}
	u, err := url.Parse(text)
	if err != nil {
		return refuse("%s is no URI", fieldURI) // which would have been found
	}
	kind, transport, found := strings.Cut(u.Scheme, "+")
	switch {
	case !found && u.Host == "":
		transport = local
	case !found:
		transport = overTLS
	}
	t = target{uri: kind + "://" + u.Path, transport: transport, host: u.Hostname(), port: u.Port(), socket: u.Query().Get("socket"), domain: n.DriverString(fieldDomain),
		user: n.DriverString(fieldUser), password: n.DriverString(fieldPassword), key: n.DriverString(fieldPrivateKey), cert: n.DriverString(fieldCert),
		verifyCA: bmc.VerifyCA(n.DriverString(fieldVerifyCA)), shown: u.Redacted(), node: n}
	if t.socket == "" {
		t.socket = Socket
	}
	if t.port == "" {
		t.port = map[string]string{overTLS: tlsPort, overSSH: sshPort}[transport]
	}
	if t.user == "" {
		t.user = u.User.Username()
	}
	if t.user == "" {
		t.user = "root"
	}
	if t.domain == "" {
		return refuse("%s is missing: the name or UUID of the machine in libvirt", fieldDomain)
	}
	if err := t.keys(n.DriverString(fieldHostKey)); err != nil {
		return refuse("%s", err)
	}
	t.accountOf = strings.Join([]string{t.uri, t.transport, t.address(), t.socket, t.user, t.password, t.key, t.cert, n.DriverString(fieldHostKey), t.verifyCA}, "\x00")
	return t, nil
}

// keys checks what the transport authenticates by.
func (t *target) keys(hostKey string) error {
	switch t.transport {
	case overTLS:
		if (t.cert == "") != (t.key == "") {
			return fmt.Errorf("give both %s and %s, or neither", fieldCert, fieldPrivateKey)
		}
		if t.cert != "" {
			if _, err := tls.X509KeyPair([]byte(t.cert), []byte(t.key)); err != nil {
				return fmt.Errorf("%s and %s are no certificate with its key", fieldCert, fieldPrivateKey)
			}
		}
	case overSSH:
		if t.password == "" && t.key == "" {
			return fmt.Errorf("%s or %s is missing", fieldPassword, fieldPrivateKey)
		}
		if t.key != "" {
			if _, err := ssh.ParsePrivateKey([]byte(t.key)); err != nil {
				return fmt.Errorf("%s is no private key in PEM without a passphrase", fieldPrivateKey)
			}
		}
		var err error
		if t.hostKey, err = bmc.HostKey(fieldHostKey, hostKey); err != nil {
			return err
		}
	}
	return nil
}

// address is where the host is dialled, and whose turn its machines share.
func (t target) address() string {
	if t.transport == local {
		return t.socket
	}
	return net.JoinHostPort(t.host, t.port)
}

func (t target) secrets() []string { return []string{t.password, t.key} }

func (t target) sum() [32]byte { return sha256.Sum256([]byte(t.accountOf)) }

// trust is how the host's certificate is checked.
func (t target) trust(o Options) bmc.Trust {
	return bmc.Trust{Verify: t.verifyCA, Field: fieldVerifyCA, Folder: o.CAFolder, Pins: o.Shared.Pins, Node: t.node, Address: t.address()}
}
