package ssh

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"
	"github.com/digitalocean/go-libvirt/socket/dialers"
	xssh "golang.org/x/crypto/ssh"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
)

// until waits for what a program that was started brings.
func until(t *testing.T, what string, said *bytes.Buffer, there func() error) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		err := there()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: %v\n%s", what, err, said.String())
		}
	}
}

// newLibvirt starts a libvirtd of a user without rights, and returns the URI of its test driver.
func newLibvirt(t *testing.T) (uri string) {
	dir, err := os.MkdirTemp("", "libvirt")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	cmd := exec.Command("/usr/sbin/libvirtd", "-p", filepath.Join(dir, "pid"))
	cmd.Env = []string{"HOME=" + dir, "XDG_RUNTIME_DIR=" + dir, "XDG_CACHE_HOME=" + dir, "XDG_CONFIG_HOME=" + dir, "PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	cmd.Stdout, cmd.Stderr = &said, &said
	if os.Getuid() == 0 { // as root it would look after the whole machine
		who, err := user.Lookup("nobody")
		if err != nil {
			t.Fatal(err)
		}
		uid, _ := strconv.Atoi(who.Uid)
		gid, _ := strconv.Atoi(who.Gid)
		if err := os.Chown(dir, uid, gid); err != nil {
			t.Fatal(err)
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	socket := filepath.Join(dir, "libvirt", "libvirt-sock")
	until(t, "libvirtd", &said, func() error {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			return err
		}
		held := golibvirt.NewWithDialer(dialers.NewAlreadyConnected(conn)) // with the last connection the machine would be forgotten
		if err := held.ConnectToURI(golibvirt.TestDefault); err != nil {
			return err
		}
		t.Cleanup(func() { _ = held.Disconnect() })
		return nil
	})
	return "test+unix:///default?socket=" + socket
}

// newKey is a key pair, as files of sshd have it.
func newKey(t *testing.T) (private, public string) {
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := xssh.MarshalPrivateKey(key, "")
	if err != nil {
		t.Fatal(err)
	}
	shown, err := xssh.NewPublicKey(pub)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(block)), strings.TrimSpace(string(xssh.MarshalAuthorizedKey(shown)))
}

// newSSHD starts an sshd, and returns its port and its key.
func newSSHD(t *testing.T, authorized string) (port int, hostKey string) {
	dir := t.TempDir()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port = l.Addr().(*net.TCPAddr).Port
	l.Close()
	hostPrivate, hostPublic := newKey(t)
	for name, text := range map[string]string{"host": hostPrivate, "authorized": authorized + "\n", "sshd_config": fmt.Sprintf(
		"Port %d\nListenAddress 127.0.0.1\nHostKey %s/host\nAuthorizedKeysFile %s/authorized\nPidFile none\nUsePAM no\nStrictModes no\nPermitRootLogin prohibit-password\nPasswordAuthentication no\n", port, dir, dir)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if os.Getuid() == 0 {
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var said bytes.Buffer
	sshd := exec.Command("/usr/sbin/sshd", "-D", "-e", "-f", filepath.Join(dir, "sshd_config"))
	sshd.Stdout, sshd.Stderr = &said, &said
	if err := sshd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sshd.Process.Kill(); _ = sshd.Wait() })
	until(t, "sshd", &said, func() error {
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			conn.Close()
		}
		return err
	})
	return port, hostPublic
}

// A real sshd runs a real virsh, on the test driver of a real libvirtd.
func TestVirshBehindSSHD(t *testing.T) {
	if os.Getenv("IRONYARD_E2E") != "1" {
		t.Skip("needs sshd, libvirtd and virsh (Debian's openssh-server, libvirt-daemon and libvirt-clients); set IRONYARD_E2E=1")
	}
	uri := newLibvirt(t)
	virsh := func(args ...string) string {
		t.Helper()
		out, err := exec.Command("virsh", append([]string{"-q", "-c", uri}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("virsh %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	private, public := newKey(t)
	port, hostKey := newSSHD(t, public)
	who, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	before, after, found := strings.Cut(virsh("dumpxml", "--inactive", "test"), "<mac address='")
	mac := "52:54:00:aa:bb:01"
	if found {
		mac, _, _ = strings.Cut(after, "'")
	} else {
		text := strings.Replace(before, "</devices>", "<interface type='network'><mac address='"+mac+"'/><source network='default'/></interface></devices>", 1)
		file := filepath.Join(t.TempDir(), "test.xml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		virsh("define", file)
	}
	nodeWith := func(more map[string]any) *node.Document {
		info := map[string]any{fieldAddress: "127.0.0.1", fieldPort: port, fieldUser: who.Username, fieldVirtType: "virsh", fieldKey: private, fieldHostKey: hostKey, fieldURI: uri}
		for field, v := range more {
			info[field] = v
		}
		return &node.Document{UUID: "b3d1", Name: "web1", DriverInfo: info, Ports: []node.Port{{Address: mac}}}
	}
	d, f, n := newDriver(t), &drivertest.Fence{}, nodeWith(nil)
	for _, step := range []struct {
		goal driver.PowerState
		want string
	}{{driver.PowerOff, "shut off"}, {driver.PowerOn, "running"}, {driver.Rebooting, "running"}, {driver.SoftPowerOff, "shut off"}} {
		if err := d.SetPower(t.Context(), f, n, step.goal); err != nil {
			t.Fatal(err)
		}
		if is := virsh("domstate", "test"); is != step.want {
			t.Errorf("after %q: virsh says %q, want %q", step.goal, is, step.want)
		}
	}
	for device, word := range map[driver.BootDevice]string{driver.BootPXE: "network", "cdrom": "cdrom"} {
		if err := d.SetBootDevice(t.Context(), f, n, device, true); err != nil {
			t.Fatal(err)
		}
		if is, err := d.BootDevice(t.Context(), n); err != nil || is.Device != string(device) {
			t.Errorf("%+v, %v", is, err)
		}
		if text := virsh("dumpxml", "--inactive", "test"); !strings.Contains(text, "<boot dev='"+word+"'/>") {
			t.Errorf("virsh does not say that it boots from %s", word)
		}
	}
	other, otherPublic := newKey(t)
	for what, bad := range map[string]struct {
		n    *node.Document
		want error
	}{
		"another key":  {nodeWith(map[string]any{fieldKey: other}), driver.ErrDenied},
		"another host": {nodeWith(map[string]any{fieldHostKey: otherPublic}), driver.ErrInvalid},
	} {
		if _, err := d.PowerState(t.Context(), bad.n); !errors.Is(err, bad.want) || strings.Contains(err.Error(), "PRIVATE KEY") {
			t.Errorf("%s: %v, want %v", what, err, bad.want)
		}
	}
}
