package mediaweb

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/bootmedium"
	"github.com/ironyard/ironyard/rackd/bootorder"
	"github.com/ironyard/ironyard/rackd/netboot"
	"github.com/ironyard/ironyard/rackd/netboot/ipxescript"
)

type journal struct {
	mu   sync.Mutex
	seen []string
}

func (j *journal) Seen(mac, phase, detail string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.seen = append(j.seen, mac+" "+phase)
}
func (j *journal) Leased(string, netip.Addr, string, string) {}

const (
	id   = "01a213c3-2115-79f5-8a57-5b01991e6c1e"
	code = "c0de"
)

// world serves one medium, and counts the files that are open.
type world struct {
	over bool // the boot is
	// parameters: a medium of them alone is served.
	parameters bool
	load       bootorder.Load
	open       int
	read       func(bytes, needs int64)
	log        *slog.Logger // nil: nothing is logged
	// params are rackd's --kernel-params.
	params []string
	*journal
}

func (w *world) medium(_ context.Context, node_, given string) (Medium, bool) {
	n := &node.Document{UUID: id, Ports: []node.Port{{Address: "52:54:00:00:00:01"}}}
	return Medium{Node: n, Load: w.load, Read: w.read, Parameters: w.parameters, Machine: netboot.Machine{UUID: id, BootID: "boot-7", Order: bootorder.Ramdisk(w.load)}}, node_ == id && given == code && !w.over
}

func (w *world) file(id, name string) (bootmedium.File, func(), error) {
	if id == "away" {
		return bootmedium.File{}, nil, fmt.Errorf("image %s: %w", id, fs.ErrNotExist)
	}
	w.open++
	b := []byte(strings.Repeat(id+name+" ", 1000))
	return bootmedium.File{ReaderAt: bytes.NewReader(b), Size: int64(len(b))}, func() { w.open-- }, nil
}

func serve(t *testing.T, w *world) *httptest.Server {
	t.Helper()
	return serveFiles(t, w, w.file)
}

func serveFiles(t *testing.T, w *world, open func(id, name string) (bootmedium.File, func(), error)) *httptest.Server {
	t.Helper()
	w.journal = &journal{}
	log := w.log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	loader := bootmedium.FindLoader(context.Background())
	t.Cleanup(func() { loader.Close() })
	s := httptest.NewServer(Handler(Config{Medium: w.medium, Open: open, Loader: loader, Journal: w, Log: log,
		Ramdisk: func(netboot.Machine) ipxescript.Ramdisk {
			return ipxescript.Ramdisk{Kernel: "kernel", Initramfs: "ramdisk", Params: w.params, Fingerprint: "aa", Doors: []string{"https://192.0.2.1:6386"}}
		}}))
	t.Cleanup(s.Close)
	return s
}

func get(t *testing.T, method, url, part string) (*http.Response, []byte) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if part != "" {
		r.Header.Set("Range", part)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, body
}

// A BMC asks for the size, then for parts. The medium holds the files, and whom the agent calls with the boot's id.
func TestMediumIsServed(t *testing.T) {
	w := &world{}
	s := serve(t, w)
	url := s.URL + Path(id, code)
	head, _ := get(t, http.MethodHead, url, "")
	whole, body := get(t, http.MethodGet, url, "")
	if head.StatusCode != 200 || head.ContentLength != int64(len(body)) || head.Header.Get("Accept-Ranges") != "bytes" || whole.Header.Get("ETag") != head.Header.Get("ETag") || head.Header.Get("ETag") == "" {
		t.Errorf("HEAD: %d, %v; %d bytes follow", head.StatusCode, head.Header, len(body))
	}
	for _, want := range []string{"CD001", "kernel kernel kernel", "ramdisk ramdisk", "'ipa-api-url=https://192.0.2.1:6386/boot/boot-7'", "'ironyard-node=" + id + "'", "'ironyard-api-fingerprint=aa'"} {
		if !bytes.Contains(body, []byte(want)) {
			t.Errorf("the medium does not hold %q", want)
		}
	}
	if bytes.Contains(body, []byte("initrd=ramdisk")) {
		t.Error("the kernel is told of a ramdisk that iPXE would name")
	}
	part, some := get(t, http.MethodGet, url, "bytes=32768-34815")
	if part.StatusCode != 206 || !bytes.Equal(some, body[32768:34816]) {
		t.Errorf("a range: %d, %d bytes", part.StatusCode, len(some))
	}
	if w.open != 2 || len(w.seen) != 1 || w.seen[0] != "52:54:00:00:00:01 medium" {
		t.Errorf("%d files are open; the journal has %q", w.open, w.seen)
	}
	if stick, disk := get(t, http.MethodGet, strings.TrimSuffix(url, ".iso")+".img", ""); stick.StatusCode != 200 || !bytes.Equal(disk, body) {
		t.Errorf("for a USB stick: %d, %d bytes of %d", stick.StatusCode, len(disk), len(body))
	}
}

// A wrong code, another node, a boot that is over: nothing is there.
func TestWhatIsNoMedium(t *testing.T) {
	w := &world{}
	s := serve(t, w)
	for _, path := range []string{Path(id, "c0df"), Path("other", code), Prefix + id + "/" + code, Prefix} {
		if res, _ := get(t, http.MethodGet, s.URL+path, ""); res.StatusCode != 404 {
			t.Errorf("%s: %d", path, res.StatusCode)
		}
	}
	if res, _ := get(t, http.MethodPut, s.URL+Path(id, code), ""); res.StatusCode != 405 {
		t.Errorf("PUT: %d", res.StatusCode)
	}
	w.over = true
	if res, _ := get(t, http.MethodGet, s.URL+Path(id, code), ""); res.StatusCode != 404 {
		t.Errorf("after the boot: %d", res.StatusCode)
	}
}

// The node's own files come from the cache. One that is not there yet is asked for again; nothing stays open.
func TestFilesOfTheNodesOwn(t *testing.T) {
	w := &world{load: bootorder.Load{Kernel: bootorder.File{URL: "http://h/k", ID: "sha256-k"}, Initramfs: bootorder.File{URL: "http://h/r", ID: "sha256-r"}}}
	s := serve(t, w)
	if res, body := get(t, http.MethodGet, s.URL+Path(id, code), ""); res.StatusCode != 200 || !bytes.Contains(body, []byte("sha256-k sha256-k")) || !bytes.Contains(body, []byte("sha256-r sha256-r")) {
		t.Errorf("%d, %d bytes", res.StatusCode, len(body))
	}
	w.load.Initramfs.ID = "away"
	if res, _ := get(t, http.MethodGet, s.URL+Path(id, code), ""); res.StatusCode != 503 || res.Header.Get("Retry-After") == "" || w.open != 0 {
		t.Errorf("%d, %v, %d files open", res.StatusCode, res.Header, w.open)
	}
	w.load.Initramfs.ID = ""
	if res, _ := get(t, http.MethodGet, s.URL+Path(id, code), ""); res.StatusCode != 503 || w.open != 0 {
		t.Errorf("not fetched: %d, %d files open", res.StatusCode, w.open)
	}
}

// The kernel cuts off the end of a command line that is too long, and there is the node that the agent is to name.
// Such a medium is refused, as a script of iPXE is, and the log says what to shorten.
func TestACommandLineThatIsTooLong(t *testing.T) {
	var logs bytes.Buffer
	w := &world{log: slog.New(slog.NewTextHandler(&logs, nil)), params: []string{"quiet"}}
	s := serve(t, w)
	_, body := get(t, http.MethodGet, s.URL+Path(id, code), "")
	_, line, _ := bytes.Cut(body, []byte("linux /boot/kernel "))
	line, _, found := bytes.Cut(line, []byte("\n"))
	if !found {
		t.Fatal("the medium has no command line")
	}
	own := len("BOOT_IMAGE=/boot/kernel ") // GRUB's
	room := agentapi.MaxCommandLine - own - len(bytes.ReplaceAll(line, []byte("'"), nil))
	for more, status := range map[int]int{room: http.StatusOK, room + 1: http.StatusInternalServerError} {
		logs.Reset()
		w.params = []string{"quiet" + strings.Repeat("x", more)}
		if res, _ := get(t, http.MethodHead, s.URL+Path(id, code), ""); res.StatusCode != status {
			t.Errorf("%d bytes more: %d, want %d", more, res.StatusCode, status)
		}
		says := fmt.Sprintf("the kernel reads %d. Of them 0 are kernel_append_params of the node and %d --kernel-params", agentapi.MaxCommandLine, more+len("quiet"))
		if refused := status != http.StatusOK; strings.Contains(logs.String(), says) != refused {
			t.Errorf("%d bytes more: logged %s", more, &logs)
		}
	}
}

// How much is read of a medium is told, of which a machine needs kernel and ramdisk. Who asks for the size reads nothing.
func TestWhatIsReadIsTold(t *testing.T) {
	var told []string
	w := &world{load: bootorder.Load{}, read: func(bytes, needs int64) { told = append(told, fmt.Sprint(bytes, " of ", needs)) }}
	s := serve(t, w)
	at := s.URL + Path(id, code)
	get(t, http.MethodHead, at, "")
	if len(told) > 0 {
		t.Errorf("of a question for the size it tells %q", told)
	}
	get(t, http.MethodGet, at, "bytes=100-149")
	needs := len("kernel ")*1000 + len("ramdisk ")*1000
	if want := fmt.Sprintf("[0 of %d 50 of %[1]d]", needs); fmt.Sprint(told) != want {
		t.Errorf("it tells %v, want %s", told, want)
	}
}
