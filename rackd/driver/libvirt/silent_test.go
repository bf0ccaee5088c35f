package libvirt

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
)

// A host that says nothing instead of its verdict over the client's certificate has refused no credentials. One that refuses
// them ends the connection.
func TestAHostThatRestartsInTheLogin(t *testing.T) {
	ours := newAuthority(t)
	cert, key := ours.issue(t, "127.0.0.1", x509.ExtKeyUsageServerAuth)
	pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		stays bool
		want  error
	}{"ends": {false, driver.ErrDenied}, "silent": {true, driver.ErrUnreachable}} {
		t.Run(name, func(t *testing.T) {
			l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
			ended := make(chan struct{})
			t.Cleanup(func() { close(ended) })
			go func() {
				for {
					conn, err := l.Accept()
					if err != nil {
						return
					}
					go func() {
						defer conn.Close()
						if conn.(*tls.Conn).Handshake() == nil && c.stays {
							<-ended
						}
					}()
				}
			}()
			d := newDriver(t, Options{Networks: loopback, ConnectTimeout: 300 * time.Millisecond})
			port := l.Addr().(*net.TCPAddr).Port
			n := &node.Document{UUID: "b3d1", Name: "web1", DriverInfo: map[string]any{fieldURI: fmt.Sprintf("qemu+tls://127.0.0.1:%d/system", port), fieldDomain: "test", fieldVerifyCA: ours.pem}}
			for range 2 {
				if _, err := d.PowerState(t.Context(), n); !errors.Is(err, c.want) || c.stays && strings.Contains(err.Error(), "does not try") {
					t.Errorf("%v, want %v", err, c.want)
				}
			}
		})
	}
}

// A libvirtd that hangs costs no goroutine and no socket for each call, and is used again when it goes on.
func TestALibvirtdThatHangs(t *testing.T) {
	d := newDaemon(t, nil)
	dr := newDriver(t, Options{Networks: loopback, CallTimeout: 200 * time.Millisecond, ConnectTimeout: 200 * time.Millisecond, Pace: 1000})
	n := &node.Document{UUID: "b3d1", Name: "web1", DriverInfo: map[string]any{fieldURI: "test:///default?socket=" + d.socket, fieldDomain: "test"}}
	if _, err := dr.PowerState(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(d.dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	before := runtime.NumGoroutine()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
	for range 10 {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		if _, err := dr.PowerState(ctx, n); !errors.Is(err, driver.ErrUnreachable) {
			t.Errorf("%v, want ErrUnreachable", err)
		}
		cancel()
	}
	_ = syscall.Kill(pid, syscall.SIGCONT)
	if _, err := dr.PowerState(t.Context(), n); err != nil {
		t.Errorf("it goes on: %v", err)
	}
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		now := runtime.NumGoroutine()
		if now <= before+1 {
			return
		}
		if time.Now().After(end) {
			buf := make([]byte, 1<<20)
			t.Fatalf("%d goroutines before, %d after:\n%s", before, now, buf[:runtime.Stack(buf, true)])
		}
	}
}

// A reboot of which the second half does not come about has switched the machine off: that is no error of an order that was not sent.
func TestARebootThatStopsInTheMiddle(t *testing.T) {
	d := newDaemon(t, nil)
	r := newRelay(t, d)
	dr := newDriver(t, Options{Networks: loopback, CallTimeout: 300 * time.Millisecond, ConnectTimeout: 300 * time.Millisecond, Pace: 1000})
	n := &node.Document{UUID: "b3d1", Name: "web1", DriverInfo: map[string]any{fieldURI: "test:///default?socket=" + r.listener.Addr().String(), fieldDomain: "test"}}
	r.set(func() { r.last = true })
	if err := dr.SetPower(t.Context(), &drivertest.Fence{}, n, driver.Rebooting); !errors.Is(err, driver.ErrUnknown) {
		t.Errorf("%v, want ErrUnknown", err)
	}
	if is := d.virsh(t, "domstate", "test"); is != "shut off" {
		t.Errorf("virsh says %q", is)
	}
}
