package libvirt

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
)

// freePort is a TCP port that nothing listens on now.
func freePort(t *testing.T) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func encoded(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// authority makes certificates.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pem  string
}

func newAuthority(t *testing.T) *authority {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{key, cert, encoded("CERTIFICATE", der)}
}

func (a *authority) issue(t *testing.T, name string, use x509.ExtKeyUsage) (cert, key string) {
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment, ExtKeyUsage: []x509.ExtKeyUsage{use}}, a.cert, own.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		t.Fatal(err)
	}
	return encoded("CERTIFICATE", der), encoded("PRIVATE KEY", raw)
}

// switched checks that the driver reaches and switches the machine.
func switched(t *testing.T, d *daemon, dr *Driver, n *node.Document) {
	t.Helper()
	for target, want := range map[driver.PowerState]string{driver.PowerOn: "running", driver.PowerOff: "shut off"} {
		if err := dr.SetPower(t.Context(), &drivertest.Fence{}, n, target); err != nil {
			t.Fatal(err)
		}
		if is := d.virsh(t, "domstate", "test"); is != want {
			t.Errorf("after %q: virsh says %q, want %q", target, is, want)
		}
	}
}

// with is a node with other fields.
func with(n *node.Document, fields map[string]any) *node.Document {
	other := &node.Document{UUID: n.UUID, Name: n.Name, DriverInfo: map[string]any{}}
	for _, list := range []map[string]any{n.DriverInfo, fields} {
		for field, v := range list {
			other.DriverInfo[field] = v
		}
	}
	return other
}

func refused(t *testing.T, dr *Driver, what string, n *node.Document, want error) {
	t.Helper()
	_, err := dr.PowerState(t.Context(), n)
	if !errors.Is(err, want) || strings.Count(err.Error(), "b3d1") != 1 || strings.Contains(err.Error(), "PRIVATE KEY") {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

// By TLS, libvirtd takes the certificates of its authority alone, and so does the driver.
func TestTLSWithLibvirtd(t *testing.T) {
	ours, strangers := newAuthority(t), newAuthority(t)
	cert, key := ours.issue(t, "127.0.0.1", x509.ExtKeyUsageServerAuth)
	port := freePort(t)
	d := newDaemon(t, map[string]string{"ca.pem": ours.pem, "cert.pem": cert, "key.pem": key, "libvirtd.conf": fmt.Sprintf(
		"listen_tls = 1\nlisten_tcp = 0\nlisten_addr = \"127.0.0.1\"\ntls_port = \"%d\"\nca_file = \"DIR/ca.pem\"\ncert_file = \"DIR/cert.pem\"\nkey_file = \"DIR/key.pem\"\n", port)},
		"--listen", "-f", "DIR/libvirtd.conf")
	dr := newDriver(t, Options{Networks: loopback})
	cert, key = ours.issue(t, "client", x509.ExtKeyUsageClientAuth)
	n := &node.Document{UUID: "b3d1", Name: "web1", DriverInfo: map[string]any{fieldURI: fmt.Sprintf("test+tls://127.0.0.1:%d/default", port), fieldDomain: "test",
		fieldVerifyCA: ours.pem, fieldCert: cert, fieldPrivateKey: key}}
	switched(t, d, dr, n)
	cert, key = strangers.issue(t, "client", x509.ExtKeyUsageClientAuth)
	refused(t, dr, "a stranger's certificate", with(n, map[string]any{fieldCert: cert, fieldPrivateKey: key}), driver.ErrDenied)
	refused(t, dr, "a host that another authority vouches for", with(n, map[string]any{fieldVerifyCA: strangers.pem}), driver.ErrInvalid)
}

// sshKey is a key pair, as a file of sshd has it.
func sshKey(t *testing.T) (private, public string) {
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		t.Fatal(err)
	}
	shown, err := ssh.NewPublicKey(pub)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(block)), strings.TrimSpace(string(ssh.MarshalAuthorizedKey(shown)))
}

// sshServer is a real sshd, and who may log in to it.
type sshServer struct {
	dir, hostPublic, private string
	port                     int
	user                     string
}

func newSSHServer(t *testing.T) *sshServer {
	t.Helper()
	hostPrivate, hostPublic := sshKey(t)
	private, public := sshKey(t)
	who, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	s := &sshServer{t.TempDir(), hostPublic, private, freePort(t), who.Username}
	for name, text := range map[string]string{"host": hostPrivate, "authorized": public + "\n", "sshd_config": fmt.Sprintf(
		"Port %d\nListenAddress 127.0.0.1\nHostKey %s/host\nAuthorizedKeysFile %s/authorized\nPidFile none\nUsePAM no\nStrictModes no\nPermitRootLogin prohibit-password\nPasswordAuthentication no\nAllowStreamLocalForwarding yes\n", s.port, s.dir, s.dir)} {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if os.Getuid() == 0 {
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var said bytes.Buffer
	sshd := exec.Command("/usr/sbin/sshd", "-D", "-e", "-f", filepath.Join(s.dir, "sshd_config"))
	sshd.Stdout, sshd.Stderr, sshd.WaitDelay = &said, &said, time.Second
	if err := sshd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sshd.Process.Kill(); _ = sshd.Wait() })
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", s.port))
		if err == nil {
			conn.Close()
			return s
		}
		if time.Now().After(end) {
			t.Fatalf("sshd does not answer: %v\n%s", err, said.String())
		}
	}
}

// node is a machine at the libvirt behind the server.
func (s *sshServer) node(kind, path, socket, domain string) *node.Document {
	return &node.Document{UUID: "b3d1", Name: "web1", DriverInfo: map[string]any{fieldURI: fmt.Sprintf("%s+ssh://127.0.0.1:%d/%s?socket=%s", kind, s.port, path, socket),
		fieldDomain: domain, fieldUser: s.user, fieldPrivateKey: s.private, fieldHostKey: s.hostPublic}}
}

// By SSH, a real sshd leads to libvirt's socket.
func TestSSHWithLibvirtd(t *testing.T) {
	d, s := newDaemon(t, nil), newSSHServer(t)
	other, otherPublic := sshKey(t)
	dr := newDriver(t, Options{Networks: loopback})
	n := s.node("test", "default", d.socket, "test")
	switched(t, d, dr, n)
	refused(t, dr, "another key", with(n, map[string]any{fieldPrivateKey: other}), driver.ErrDenied)
	refused(t, dr, "another host", with(n, map[string]any{fieldHostKey: otherPublic}), driver.ErrInvalid)
	refused(t, dr, "no libvirt there", s.node("test", "default", s.dir+"/nonesuch", "test"), driver.ErrUnreachable)
}
