package tftp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/pin/tftp/v3"
	"go.uber.org/goleak"

	"github.com/ironyard/ironyard/rackd/bootorder"
	"github.com/ironyard/ironyard/rackd/netboot"
	"github.com/ironyard/ironyard/rackd/netboot/bootfiles"
	"github.com/ironyard/ironyard/rackd/netboot/bootscript"
	"github.com/ironyard/ironyard/rackd/netboot/ipxescript"
)

const mac = "52:54:00:00:00:01"

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type rack struct {
	mu     sync.Mutex
	seen   []string
	volume bool // which the machine boots from
}

func (r *rack) ByMAC(m string) (netboot.Machine, bool) {
	order := bootorder.Ramdisk(bootorder.Load{})
	if r.volume {
		order = bootorder.FromVolumes(bootorder.Volumes{List: []bootorder.Volume{{Name: "v", URIs: []string{"iscsi:h::3260:1:iqn.v"}}}})
	}
	order.OverTFTP = true
	return netboot.Machine{UUID: "u", Order: order}, m == mac
}
func (*rack) ByUUID(string) (netboot.Machine, bool)                   { return netboot.Machine{}, false }
func (r *rack) Leased(mac string, _ netip.Addr, phase, detail string) { r.Seen(mac, phase, detail) }
func (r *rack) Seen(mac, phase, _ string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, mac+" "+phase)
}

func newServer(t testing.TB, kernel []byte) (*Server, *rack) {
	dir := t.TempDir()
	for name, body := range map[string][]byte{"k": kernel, "r": []byte("ramdisk"), "undionly.kpxe": []byte("program")} {
		if err := os.WriteFile(filepath.Join(dir, name), body, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	files, err := bootfiles.New(dir, bootfiles.Paths{Kernel: filepath.Join(dir, "k"), Ramdisk: filepath.Join(dir, "r")})
	if err != nil {
		t.Fatal(err)
	}
	r, log := &rack{}, slog.New(slog.NewTextHandler(io.Discard, nil))
	return &Server{Files: files, Journal: r, Log: log, MACOf: func(net.IP) (string, bool) { return mac, true },
		Scripts: &bootscript.Scripts{Directory: r, Journal: r, Log: log,
			Ramdisk: func(netboot.Machine) ipxescript.Ramdisk {
				return ipxescript.Ramdisk{Server: ipxescript.Server{HTTP: "http://h", TFTP: "tftp://h"}, Kernel: "kernel", Initramfs: "ramdisk"}
			}}}, r
}

// listen starts the server on loopback and returns where, and how to stop it.
func listen(t *testing.T, s *Server) (at net.Addr, stop func()) {
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, conn) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("Serve returned %v", err)
			}
		})
	}
	t.Cleanup(stop)
	return conn.LocalAddr(), stop
}

func clientOf(t *testing.T, at net.Addr) *tftp.Client {
	client, err := tftp.NewClient(at.String())
	if err != nil {
		t.Fatal(err)
	}
	client.SetBlockSize(1400)
	client.RequestTSize(true)
	return client
}

// serve starts the server on loopback and returns a client and how to stop it.
func serve(t *testing.T, s *Server) (client *tftp.Client, stop func()) {
	at, stop := listen(t, s)
	return clientOf(t, at), stop
}

func get(t *testing.T, c *tftp.Client, name string) (body string, size int64, err error) {
	t.Helper()
	w, err := c.Receive(name, "octet")
	if err != nil {
		return "", 0, err
	}
	size, _ = w.(tftp.IncomingTransfer).Size()
	var b bytes.Buffer
	_, err = w.WriteTo(&b)
	return b.String(), size, err
}

func TestFilesWithSizeAndScripts(t *testing.T) {
	kernel := bytes.Repeat([]byte("0123456789"), 100_000)
	s, r := newServer(t, kernel)
	c, stop := serve(t, s)
	if body, size, err := get(t, c, "kernel"); err != nil || body != string(kernel) || size != int64(len(kernel)) {
		t.Errorf("kernel: %d bytes, tsize %d, %v", len(body), size, err)
	}
	if body, _, err := get(t, c, "/undionly.kpxe"); err != nil || body != "program" {
		t.Errorf("program: %q, %v", body, err)
	}
	body, size, err := get(t, c, "boot/script/52-54-00-00-00-01")
	if err != nil || !strings.Contains(body, "kernel tftp://h/kernel ") || size != int64(len(body)) {
		t.Errorf("script: %q, tsize %d, %v", body, size, err)
	}
	stop()
	want := strings.Join([]string{mac + " tftp", mac + " kernel", mac + " tftp", mac + " script"}, ",")
	if got := strings.Join(r.seen, ","); got != want {
		t.Errorf("journal %q, want %q", got, want)
	}
}

// A machine that could not boot its volume says so when it asks for its next script, which has it say that again.
func TestAfterAVolume(t *testing.T) {
	s, r := newServer(t, []byte("k"))
	r.volume = true
	c, stop := serve(t, s)
	const says = "boot/script/52-54-00-00-00-01/after-volume"
	body, _, err := get(t, c, says)
	if err != nil || !strings.Contains(body, "chain --replace tftp://h/"+says+" ") {
		t.Errorf("script: %q, %v", body, err)
	}
	stop()
	if got, want := strings.Join(r.seen, ","), mac+" volume,"+mac+" script"; got != want {
		t.Errorf("journal %q, want %q", got, want)
	}
}

func TestNothingElse(t *testing.T) {
	s, _ := newServer(t, []byte("k"))
	c, _ := serve(t, s)
	for _, name := range []string{"k", "../k", "/etc/passwd", "..\\k", "boot/script/../../kernel", "boot/script/", ""} {
		if body, _, err := get(t, c, name); err == nil {
			t.Errorf("%q was served: %q", name, body)
		}
	}
	if body, _, err := get(t, c, "boot/script/00-11-22-33-44-55"); err != nil || !strings.Contains(body, "Reason: the address 00:11:22:33:44:55 is of no node") {
		t.Errorf("a machine that is no node: %q, %v", body, err)
	}
	if w, err := c.Send("kernel", "octet"); err == nil {
		if _, err = w.ReadFrom(strings.NewReader("overwritten")); err == nil {
			t.Error("a write was accepted")
		}
	}
	if body, _, err := get(t, c, "kernel"); err != nil || body != "k" {
		t.Errorf("the kernel after a write: %q, %v", body, err)
	}
}

// halting stops to take data after the first block, until told otherwise.
type halting struct {
	started, release chan struct{}
	once             sync.Once
}

func (h *halting) Write(b []byte) (int, error) {
	h.once.Do(func() { close(h.started) })
	<-h.release
	return len(b), nil
}

func TestStopBreaksOffTransfersAndTransfersAreBounded(t *testing.T) {
	s, _ := newServer(t, make([]byte, 10<<20))
	s.MaxTransfers = 1
	c, stop := serve(t, s)
	w, err := c.Receive("kernel", "octet")
	if err != nil {
		t.Fatal(err)
	}
	h := &halting{started: make(chan struct{}), release: make(chan struct{})}
	ended := make(chan error, 1)
	go func() { _, err := w.WriteTo(h); ended <- err }()
	<-h.started
	if _, _, err := get(t, c, "undionly.kpxe"); err == nil || !strings.Contains(err.Error(), errBusy.Error()) {
		t.Errorf("a second transfer: %v, want %v", err, errBusy)
	}
	stopped := make(chan struct{})
	go func() { stop(); close(stopped) }()
	close(h.release)
	<-stopped
	if err := <-ended; err == nil {
		t.Error("a 10 MB transfer ended well although the server stopped")
	}
}

func FuzzName(f *testing.F) {
	for _, name := range []string{"kernel", "/kernel", "//kernel", "boot/script/" + mac, "boot/script/52-54-00-00-00-01", "../kernel", "boot/script/\x00"} {
		f.Add(name)
	}
	s, _ := newServer(f, []byte("k"))
	f.Fuzz(func(t *testing.T, name string) {
		r, size, err := s.open(name, net.IPv4(127, 0, 0, 1))
		if err != nil {
			if !errors.Is(err, os.ErrNotExist) && !errors.Is(err, bootscript.ErrBadName) {
				t.Errorf("%q: %v", name, err)
			}
			return
		}
		defer r.Close()
		body, err := io.ReadAll(r)
		if err != nil || int64(len(body)) != size {
			t.Errorf("%q: %d bytes of %d, %v", name, len(body), size, err)
		}
		switch string(body) {
		case "k", "ramdisk", "program":
		default:
			if !strings.HasPrefix(string(body), "#!ipxe\n") {
				t.Errorf("%q gave %q", name, body)
			}
		}
	})
}

func FuzzPackets(f *testing.F) {
	f.Add([]byte("\x00\x01kernel\x00octet\x00tsize\x000\x00blksize\x001400\x00"))
	f.Add([]byte("\x00\x04\x00\x07"))
	f.Add([]byte("\x00\x05\x00\x00bye\x00"))
	f.Fuzz(func(t *testing.T, packet []byte) {
		if r, err := parseRequest(packet); err == nil && (strings.Contains(r.name, "\x00") || r.blksize != 0 && r.blksize < usualBlock) {
			t.Errorf("%q became %+v", packet, r)
		}
		if _, failed, _ := parseAnswer(packet); len(failed) > 500 || strings.ContainsAny(failed, "\n\x1b") {
			t.Errorf("%q became %q", packet, failed)
		}
	})
}
