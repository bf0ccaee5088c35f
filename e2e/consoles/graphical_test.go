package consoles

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/dev"
	"github.com/ironyard/ironyard/ops/operator"
	"github.com/ironyard/ironyard/ops/stack"
	"github.com/ironyard/ironyard/rackd/driver/fake"
	"github.com/ironyard/ironyard/rackd/driver/redfish/redfishtest"
)

// rackOf runs central and a rackd with these drivers until the test ends.
func rackOf(t *testing.T, drivers ...string) *stack.Stack {
	t.Helper()
	return rackWith(t, dev.Options{Drivers: drivers})
}

// rackWith runs central and a rackd until the test ends.
func rackWith(t *testing.T, o dev.Options) *stack.Stack {
	t.Helper()
	o.Listen, o.Data, o.Log = "127.0.0.1:0", t.TempDir(), slog.New(slog.DiscardHandler)
	ctx, cancel := context.WithCancel(context.Background())
	up, done := make(chan *stack.Stack, 1), make(chan error, 1)
	go func() {
		done <- dev.Run(ctx, o, func(s *stack.Stack) { up <- s })
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	select {
	case s := <-up:
		return s
	case err := <-done:
		done <- nil
		t.Fatal(err)
		return nil
	}
}

// enabled enrols a machine and enables its console. It returns its id.
func enabled(t *testing.T, rack *stack.Stack, m operator.Machine) string {
	t.Helper()
	o, err := operator.New(rack.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	id, err := o.Enrol(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	enable(t, rack, "", id)
	return id
}

// enable enables a node's graphical console, with a token where the API wants one.
func enable(t *testing.T, rack *stack.Stack, token, node string) {
	t.Helper()
	path := "/v1/nodes/" + node + "/states/console"
	asked(t, rack, token, http.MethodPut, path, `{"enabled":true}`)
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		shown := string(asked(t, rack, token, http.MethodGet, path, ""))
		if strings.Contains(shown, `"type":"vnc"`) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the console is not enabled: %s", shown)
		}
	}
}

// asked asks the API, with a token unless that is empty.
func asked(t *testing.T, rack *stack.Stack, token, method, path, body string) []byte {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, rack.Endpoint+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("X-Auth-Token", token)
	}
	r.Header.Set("X-OpenStack-Ironic-API-Version", operator.Microversion)
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= 300 {
		t.Fatalf("%s %s: %s %s %v", method, path, resp.Status, raw, err)
	}
	return raw
}

// command builds ironyard.
func command(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ironyard")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", path, "github.com/ironyard/ironyard/ops/ironyard").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// display is a number of X's displays whose port nothing listens on: vncsnapshot takes those.
func display(t *testing.T) int {
	t.Helper()
	for n := 30; n < 100; n++ {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 5900+n))
		if err == nil {
			l.Close()
			return n
		}
	}
	t.Fatal("no port is free")
	return 0
}

// pictureOf has vncsnapshot take a picture through `ironyard node console --listen`.
func pictureOf(t *testing.T, ironyard string, rack *stack.Stack, node string) image.Image {
	t.Helper()
	n := display(t)
	at := fmt.Sprintf("127.0.0.1:%d", 5900+n)
	var said syncBuffer
	cmd := exec.Command(ironyard, "node", "console", "--listen", at, node)
	cmd.Env = append(os.Environ(), "OS_AUTH_TYPE=none", "OS_ENDPOINT="+rack.Endpoint)
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	for end := time.Now().Add(time.Minute); !strings.Contains(said.String(), "for viewers of VNC"); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it does not listen: %s", said.String())
		}
	}
	file := filepath.Join(t.TempDir(), "picture.jpg")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "vncsnapshot", "-allowblank", fmt.Sprintf("127.0.0.1:%d", n), file).CombinedOutput()
	if err != nil {
		t.Fatalf("vncsnapshot: %v\n%s\n%s", err, out, said.String())
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	picture, err := jpeg.Decode(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	return picture
}

// near reports whether two colours are the same, as far as JPEG keeps them.
func near(a, b color.Color) bool {
	const most = 12 << 8
	ar, ag, ab, _ := a.RGBA()
	br, bg, bb, _ := b.RGBA()
	for _, d := range []int{int(ar) - int(br), int(ag) - int(bg), int(ab) - int(bb)} {
		if d > most || d < -most {
			return false
		}
	}
	return true
}

// differing counts the pixels that are not those wanted, and those wanted that are not black.
func differing(got, want image.Image) (other, light int) {
	for y := range want.Bounds().Dy() {
		for x := range want.Bounds().Dx() {
			if !near(want.At(x, y), color.Black) {
				light++
			}
			if !near(got.At(x, y), want.At(x, y)) {
				other++
			}
		}
	}
	return other, light
}

// readPPM reads what QEMU's screendump writes.
func readPPM(r io.Reader) (image.Image, error) {
	b := bufio.NewReader(r)
	var kind string
	var width, height, most int
	if _, err := fmt.Fscan(b, &kind, &width, &height, &most); err != nil {
		return nil, err
	}
	if kind != "P6" || most != 255 || width > 4096 || height > 4096 {
		return nil, fmt.Errorf("a picture of kind %s, %d by %d", kind, width, height)
	}
	if _, err := b.ReadByte(); err != nil {
		return nil, err
	}
	picture := image.NewRGBA(image.Rect(0, 0, width, height))
	pixel := make([]byte, 3)
	for y := range height {
		for x := range width {
			if _, err := io.ReadFull(b, pixel); err != nil {
				return nil, err
			}
			picture.Set(x, y, color.RGBA{pixel[0], pixel[1], pixel[2], 255})
		}
	}
	return picture, nil
}

// screen is a machine of QEMU that does not run: its display says so in white on black.
type screen struct{ folder, vnc, monitor string }

func newScreen(t *testing.T) *screen {
	t.Helper()
	folder, err := os.MkdirTemp("", "screen")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	s := &screen{folder, filepath.Join(folder, "vnc"), filepath.Join(folder, "monitor")}
	var said syncBuffer
	cmd := exec.Command("qemu-system-x86_64", "-S", "-M", "pc,accel=tcg", "-m", "16", "-nodefaults", "-vga", "std", "-display", "none",
		"-vnc", "unix:"+s.vnc, "-monitor", "unix:"+s.monitor+",server=on,wait=off")
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		conn, err := net.Dial("unix", s.vnc)
		if err == nil {
			conn.Close()
			return s
		}
		if time.Now().After(end) {
			t.Fatalf("%v\n%s", err, said.String())
		}
	}
}

// dump is what QEMU itself says that the display shows.
func (s *screen) dump(t *testing.T) image.Image {
	t.Helper()
	conn, err := net.Dial("unix", s.monitor)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	file := filepath.Join(s.folder, "dump.ppm")
	if _, err := fmt.Fprintf(conn, "screendump %s\n", file); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		f, err := os.Open(file)
		if err == nil {
			var picture image.Image
			if picture, err = readPPM(f); err == nil {
				f.Close()
				return picture
			}
			f.Close()
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// kvmBMC is a double of a BMC with OpenBMC. Its WebSocket asks for the account of its Redfish service, and a real websockify connects it to
// the display of s.
func kvmBMC(t *testing.T, s *screen) *redfishtest.BMC {
	t.Helper()
	at := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	var said syncBuffer
	cmd := exec.Command("websockify", "--unix-target="+s.vnc, at)
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	answers(t, at, &said)
	b := redfishtest.Start(t, "", nil)
	b.At["/redfish/v1/Managers/1"]["Model"] = "OpenBmc"
	b.At[redfishtest.System]["GraphicalConsole"] = map[string]any{"ServiceEnabled": true, "MaxConcurrentSessions": 4, "ConnectTypesSupported": []any{"KVMIP"}}
	inner := b.Config.Handler
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: at})
	b.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/kvm/0" {
			inner.ServeHTTP(w, r)
			return
		}
		known, probe := httptest.NewRecorder(), r.Clone(r.Context())
		probe.URL.Path = "/redfish/v1/Systems"
		if inner.ServeHTTP(known, probe); known.Code != http.StatusOK {
			redfishtest.Refuse(w, known.Code, "who are you")
			return
		}
		proxy.ServeHTTP(w, r)
	})
	return b
}

// A real client of VNC takes the picture of a real server of VNC: vncsnapshot, the command, central, the bus, rackd, a BMC's WebSocket by
// websockify, QEMU. It is the picture that QEMU itself gives. A second machine's picture is another one.
func TestPictureEndToEnd(t *testing.T) {
	foreign(t)
	s := newScreen(t)
	b := kvmBMC(t, s)
	rack, ironyard := rackOf(t, "redfish"), command(t)
	id := enabled(t, rack, operator.Machine{Name: "web1", Driver: "redfish", DriverInfo: consoleNode(b, nil).DriverInfo, Interfaces: map[string]string{"console": "redfish-graphical"}})
	got, want := pictureOf(t, ironyard, rack, id), s.dump(t)
	if got.Bounds() != want.Bounds() {
		t.Fatalf("the picture is %v, QEMU's is %v", got.Bounds(), want.Bounds())
	}
	other, light := differing(got, want)
	all := want.Bounds().Dx() * want.Bounds().Dy()
	if light == 0 || light == all || other > all/200 {
		t.Errorf("of %d pixels %d are others than QEMU's, which has %d that are not black", all, other, light)
	}
	t.Logf("%v: of %d pixels %d differ, %d are not black", got.Bounds(), all, other, light)

	made := enabled(t, rack, operator.Machine{Name: "made-up", Driver: fake.TypeName, Interfaces: map[string]string{"console": "fake-graphical"}})
	c := fake.ScreenColour(made)
	picture := pictureOf(t, ironyard, rack, "made-up")
	if at := picture.At(32, 24); !near(at, color.RGBA{c[0], c[1], c[2], 255}) {
		t.Errorf("the made-up machine shows %v, want %v", at, c)
	}
	for _, args := range [][]string{{"made-up"}, {"--listen", "0.0.0.0:5999", "made-up"}, {"--listen", "5999", "made-up"}} {
		cmd := exec.Command(ironyard, append([]string{"node", "console"}, args...)...)
		cmd.Env = append(os.Environ(), "OS_AUTH_TYPE=none", "OS_ENDPOINT="+rack.Endpoint)
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "--listen") {
			t.Errorf("%v: %v, %s", args, err, out)
		}
	}
}
