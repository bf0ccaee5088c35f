package mediaweb

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/bootmedium"
	"github.com/ironyard/ironyard/rackd/bootorder"
	"github.com/ironyard/ironyard/rackd/netboot"
	"github.com/ironyard/ironyard/rackd/netboot/ipxescript"
)

// A config drive is made once and read in parts, by its code alone, until the instance is over. Neither log nor answer tells what is in it.
func TestConfigDriveIsServed(t *testing.T) {
	secret := strings.Repeat("secret of the instance", 1000)
	var log bytes.Buffer
	var mu sync.Mutex
	made, over, broken := 0, false, errors.New("the bus is away")
	s := httptest.NewServer(Handler(Config{Log: slog.New(slog.NewTextHandler(&log, nil)), Drive: func(_ context.Context, n, c string) (string, func() ([]byte, error), error) {
		mu.Lock()
		defer mu.Unlock()
		if n != id || c != code || over {
			return "", nil, errors.New("none")
		}
		return "0f0f", func() ([]byte, error) {
			mu.Lock()
			defer mu.Unlock()
			made++
			return []byte(secret), broken
		}, nil
	}}))
	t.Cleanup(s.Close)
	url := s.URL + DrivePath(id, code)
	if res, body := get(t, http.MethodGet, url, ""); res.StatusCode != 503 || res.Header.Get("Retry-After") == "" || bytes.Contains(body, []byte("bus")) {
		t.Errorf("a drive that cannot be made: %d %s", res.StatusCode, body)
	}
	mu.Lock()
	broken, made = nil, 0
	mu.Unlock()
	head, _ := get(t, http.MethodHead, url, "")
	whole, body := get(t, http.MethodGet, url, "")
	part, some := get(t, http.MethodGet, url, "bytes=7-8")
	if head.StatusCode != 200 || head.ContentLength != int64(len(secret)) || whole.Header.Get("ETag") != `"0f0f"` || string(body) != secret || part.StatusCode != 206 || string(some) != secret[7:9] || made != 1 {
		t.Errorf("HEAD %d %d, GET %d bytes, part %d %q, made %d times", head.StatusCode, head.ContentLength, len(body), part.StatusCode, some, made)
	}
	for _, wrong := range []string{DrivePath(id, "other"), DrivePath("other", code)} {
		if res, _ := get(t, http.MethodGet, s.URL+wrong, ""); res.StatusCode != 404 {
			t.Errorf("%s: %d", wrong, res.StatusCode)
		}
	}
	mu.Lock()
	over = true
	mu.Unlock()
	if res, body := get(t, http.MethodGet, url, ""); res.StatusCode != 404 || bytes.Contains(body, []byte("secret")) {
		t.Errorf("after the instance: %d %s", res.StatusCode, body)
	}
	s.Close() // all handlers have ended
	if strings.Contains(log.String(), code) || strings.Contains(log.String(), "secret") {
		t.Errorf("the log tells a secret: %s", log.String())
	}
}

// What stays in memory is bounded.
func TestDrivesInMemory(t *testing.T) {
	d := &drives{}
	large := make([]byte, drivesBytes/2)
	for _, c := range []string{"a", "b", "c"} {
		if _, err := d.get(t.Context(), c, "", func() ([]byte, error) { return large, nil }); err != nil {
			t.Fatal(err)
		}
	}
	if len(d.kept) != 2 || d.kept[0].code != "b" {
		t.Errorf("%d drives are kept", len(d.kept))
	}
	if d.forget("c"); len(d.kept) != 1 {
		t.Error("a drive whose instance is over is kept")
	}
}

// huge is a file of any size.
type huge struct{}

func (huge) ReadAt(p []byte, _ int64) (int, error) { return len(p), nil }

// The medium of an instance tells its kernel what the instance asks for and nothing that an agent is told. One that no image can hold is
// found before a machine is touched.
func TestMediumOfAnInstanceIsServed(t *testing.T) {
	load := bootorder.Load{Instance: true, Kernel: bootorder.File{URL: "http://h/k", ID: "k"}, Initramfs: bootorder.File{URL: "http://h/r", ID: "r"}, Params: []string{"root=/dev/ram0", "own=1"}}
	m := Medium{Node: &node.Document{UUID: id, NetworkData: []byte(`{"secret":"of the agent"}`)}, Load: load, Machine: netboot.Machine{UUID: id, Order: bootorder.Instance(load)}}
	loader := bootmedium.FindLoader(t.Context())
	t.Cleanup(func() { loader.Close() })
	size := map[string]int64{"k": 5000, "r": 6000}
	closed := 0
	c := Config{Loader: loader, Log: slog.New(slog.DiscardHandler), Journal: &journal{}, Medium: func(context.Context, string, string) (Medium, bool) { return m, true },
		Ramdisk: func(netboot.Machine) ipxescript.Ramdisk {
			return ipxescript.Ramdisk{Kernel: "kernel", Initramfs: "ramdisk", Params: []string{"quiet"}, Fingerprint: "aa", Doors: []string{"https://192.0.2.1:6386"}}
		},
		Open: func(id, _ string) (bootmedium.File, func(), error) {
			return bootmedium.File{ReaderAt: huge{}, Size: size[id]}, func() { closed++ }, nil
		}}
	if err := Check(c, m); err != nil || closed != 2 {
		t.Errorf("%v, %d files were closed", err, closed)
	}
	s := httptest.NewServer(Handler(c))
	_, body := get(t, http.MethodGet, s.URL+Path(id, code), "")
	s.Close() // the handler has ended
	for want, there := range map[string]bool{"'quiet' 'root=/dev/ram0' 'own=1'": true, "ipa-api-url": false, "ironyard-node": false, "of the agent": false, "CD001": true} {
		if bytes.Contains(body, []byte(want)) != there {
			t.Errorf("the medium holds %q: %t", want, !there)
		}
	}
	for name, sizes := range map[string]map[string]int64{"an empty kernel": {"k": 0, "r": 1}, "a ramdisk of 4 GiB": {"k": 1, "r": 1 << 32}} {
		if size = sizes; !errors.Is(Check(c, m), bootmedium.ErrContents) {
			t.Errorf("%s: %v", name, Check(c, m))
		}
	}
	size = map[string]int64{"k": 1, "r": 1}
	long := load
	long.Params = []string{strings.Repeat("x", 3000)}
	m.Load, m.Machine.Order = long, bootorder.Instance(long)
	if err := Check(c, m); err == nil || !strings.Contains(err.Error(), "command line") {
		t.Errorf("a command line that is too long: %v", err)
	}
}
