package imagecache

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/ironyard/ironyard/rackd/outbound"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// origin is an image server that counts, and that can hold its answers.
type origin struct {
	*httptest.Server
	gets  atomic.Int64
	began chan struct{} // one value for each GET of /held…
	hold  chan struct{} // closed: held answers go on

	mu     sync.Mutex
	images map[string]string
}

func newOrigin(t *testing.T) *origin {
	o := &origin{began: make(chan struct{}, 100), hold: make(chan struct{}), images: map[string]string{}}
	o.Server = httptest.NewServer(o)
	t.Cleanup(func() {
		o.Close()
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	})
	return o
}

func (o *origin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.gets.Add(1)
	o.mu.Lock()
	body, ok := o.images[r.URL.Path]
	o.mu.Unlock()
	switch {
	case r.URL.Path == "/busy":
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	case !ok:
		http.NotFound(w, r)
		return
	}
	if !strings.Contains(r.URL.Path, "chunked") {
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
	}
	if strings.HasPrefix(r.URL.Path, "/cut") {
		io.WriteString(w, body[:len(body)/2])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	if strings.HasPrefix(r.URL.Path, "/held") {
		io.WriteString(w, body[:len(body)/2])
		w.(http.Flusher).Flush()
		o.began <- struct{}{}
		select {
		case <-o.hold:
		case <-r.Context().Done():
			return
		}
		body = body[len(body)/2:]
	}
	io.WriteString(w, body)
}

// put offers an image of n bytes at path.
func (o *origin) put(path string, n int) Source {
	body := strings.Repeat(path+"\n", n/len(path)+1)[:n]
	o.mu.Lock()
	o.images[path] = body
	o.mu.Unlock()
	return Source{URL: o.URL + path, HashValue: sumOf(body)}
}

func sumOf(body string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(body))) }

func openCache(t *testing.T, cfg Config) *Cache {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	cfg.Log = slog.New(slog.DiscardHandler)
	client := outbound.Client(outbound.Fetching{Allowed: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	cfg.Client = client
	t.Cleanup(client.CloseIdleConnections)
	c, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { checkBooks(t, c) })
	return c
}

// checkBooks compares the cache's figures with its folder.
func checkBooks(t *testing.T, c *Cache) {
	t.Helper()
	files, err := os.ReadDir(c.dir)
	if err != nil {
		t.Fatal(err)
	}
	var stored int64
	files = slices.DeleteFunc(files, func(f os.DirEntry) bool {
		return f.Name() == addressFile || f.Name() == sourceFile || f.Name() == derivedFile
	})
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		stored += info.Size()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if stored != c.stored || c.reserved != 0 || len(c.flights) != 0 || len(files) != len(c.entries) {
		t.Errorf("the folder has %d files and %d bytes; the cache counts %d, %d, %d reserved, %d fetches", len(files), stored, len(c.entries), c.stored, c.reserved, len(c.flights))
	}
}

func mustEnsure(t *testing.T, c *Cache, src Source) Entry {
	t.Helper()
	e, err := c.Ensure(t.Context(), src)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestEnsureAndRestart(t *testing.T) {
	o := newOrigin(t)
	for _, src := range []Source{o.put("/image", 3<<20), o.put("/chunked", 100), o.put("/empty", 0)} {
		dir := t.TempDir()
		c := openCache(t, Config{Dir: dir, Registerer: prometheus.NewPedanticRegistry()})
		before := o.gets.Load()
		e := mustEnsure(t, c, src)
		body, err := os.ReadFile(e.Path)
		if err != nil || sumOf(string(body)) != src.HashValue || e.Size != int64(len(body)) || e.ID != "sha256-"+src.HashValue || e.HashValue != src.HashValue {
			t.Errorf("%s: %+v, %v", src.URL, e, err)
		}
		if err := os.WriteFile(e.Path+".123"+partSuffix, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
		c = openCache(t, Config{Dir: dir})
		if again := mustEnsure(t, c, src); again != e || o.gets.Load() != before+1 {
			t.Errorf("%s: after a restart %+v, %d requests", src.URL, again, o.gets.Load()-before)
		}
	}
}

func TestFileGoneIsFetchedAgain(t *testing.T) {
	o := newOrigin(t)
	c, src := openCache(t, Config{}), o.put("/image", 1000)
	for range 2 {
		e := mustEnsure(t, c, src)
		if err := os.Remove(e.Path); err != nil {
			t.Fatal(err)
		}
	}
	if mustEnsure(t, c, src); o.gets.Load() != 3 {
		t.Errorf("%d requests, want 3", o.gets.Load())
	}
}

func TestOneFetchForMany(t *testing.T) {
	o := newOrigin(t)
	c, src := openCache(t, Config{}), o.put("/held", 1<<20)
	first, giveUp := context.WithCancel(t.Context())
	firstEnds := make(chan error, 1)
	go func() {
		_, err := c.Ensure(first, src)
		firstEnds <- err
	}()
	<-o.began
	others := make(chan error, 20)
	for range cap(others) {
		go func() {
			_, err := c.Ensure(t.Context(), src)
			others <- err
		}()
	}
	await(t, func() bool { return waiters(c, src) == 1+cap(others) })
	giveUp()
	if err := <-firstEnds; !errors.Is(err, context.Canceled) {
		t.Errorf("the first caller gave up and got %v", err)
	}
	close(o.hold)
	for range cap(others) {
		if err := <-others; err != nil {
			t.Error(err)
		}
	}
	if o.gets.Load() != 1 {
		t.Errorf("%d fetches, want 1", o.gets.Load())
	}
}

func TestLastCallerEndsFetch(t *testing.T) {
	o := newOrigin(t)
	c, src := openCache(t, Config{}), o.put("/held", 1<<20)
	ctx, giveUp := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := c.Ensure(ctx, src)
		ended <- err
	}()
	<-o.began
	giveUp()
	if err := <-ended; !errors.Is(err, context.Canceled) || Permanent(err) {
		t.Errorf("%v", err)
	}
	checkBooks(t, c) // at once: the fetch does not outlive its last caller
	close(o.hold)
	mustEnsure(t, c, src)
}

// TestOtherAddress: one image at two addresses; whoever joined the fetch of a bad
// address tries its own.
func TestOtherAddress(t *testing.T) {
	o := newOrigin(t)
	c, good := openCache(t, Config{}), o.put("/image", 1000)
	bad := Source{URL: o.put("/held", 2000).URL, HashValue: good.HashValue}
	badEnds, goodEnds := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := c.Ensure(t.Context(), bad)
		badEnds <- err
	}()
	<-o.began
	go func() {
		_, err := c.Ensure(t.Context(), good)
		goodEnds <- err
	}()
	await(t, func() bool { return waiters(c, good) == 2 })
	close(o.hold)
	if err := <-badEnds; !errors.Is(err, ErrChecksum) {
		t.Errorf("bad address: %v", err)
	}
	if err := <-goodEnds; err != nil {
		t.Errorf("good address: %v", err)
	}
}

func TestFailures(t *testing.T) {
	o := newOrigin(t)
	dir := t.TempDir()
	image := o.put("/image", 5000)
	cut, cutChunked := o.put("/cut", 5000), o.put("/cut-chunked", 5000)
	sum := image.HashValue
	c := openCache(t, Config{MaxBytes: 10000, AllowedDirs: []string{dir}})
	gone := httptest.NewServer(nil)
	gone.Close()
	for name, tc := range map[string]struct {
		src       Source
		want      error
		permanent bool
		says      string
	}{
		"404":                  {Source{URL: o.URL + "/missing?token=secret", HashValue: sum}, ErrNotFound, true, "answered 404 Not Found"},
		"503":                  {Source{URL: o.URL + "/busy?token=secret", HashValue: sum}, ErrUnavailable, false, "answered 503"},
		"no server":            {Source{URL: gone.URL + "/image?token=secret", HashValue: sum}, ErrUnavailable, false, "refused"},
		"checksum":             {Source{URL: image.URL + "?token=secret", HashValue: sumOf("other")}, ErrChecksum, true, sum + ", expected " + sumOf("other")},
		"too large":            {o.put("/large", 10001), ErrTooLarge, true, "10001"},
		"too large, unknown":   {o.put("/chunked", 50000), ErrTooLarge, true, "cache holds at most 10000"},
		"broken off":           {cut, ErrUnavailable, false, "broke off"},
		"broken off, unknown":  {cutChunked, ErrUnavailable, false, "broke off"},
		"no checksum":          {Source{URL: image.URL}, ErrSource, true, "no checksum"},
		"checksum not hex":     {Source{URL: image.URL, HashValue: "zz"}, ErrSource, true, "hexadecimal"},
		"checksum of md5":      {Source{URL: image.URL, HashValue: sum[:32]}, ErrSource, true, "sha256 (64)"},
		"algorithm":            {Source{URL: image.URL, HashAlgo: "sha512", HashValue: sum}, ErrSource, true, "is sha256"},
		"scheme":               {Source{URL: "ftp://host/x", HashValue: sum}, ErrSource, true, "must begin with"},
		"no host":              {Source{URL: "http:///x", HashValue: sum}, ErrSource, true, "no host"},
		"unreadable":           {Source{URL: "http://host/%zz?token=secret", HashValue: sum}, ErrSource, true, "is not a URL"},
		"file missing":         {Source{URL: "file://" + dir + "/x", HashValue: sum}, ErrNotFound, true, "no such file"},
		"file not allowed":     {Source{URL: "file:///etc/passwd", HashValue: sum}, ErrSource, true, "none of the folders"},
		"file by climbing":     {Source{URL: "file://" + dir + "/../x", HashValue: sum}, ErrSource, true, "none of the folders"},
		"file of other host":   {Source{URL: "file://host" + dir + "/x", HashValue: sum}, ErrSource, true, "absolute path"},
		"file is the folder":   {Source{URL: "file://" + dir, HashValue: sum}, ErrSource, true, "regular file"},
		"checksums missing":    {Source{URL: image.URL, HashValue: o.URL + "/SUMS"}, ErrNotFound, true, "/SUMS answered 404"},
		"checksums not a list": {Source{URL: image.URL, HashValue: image.URL}, ErrSource, true, "no sha256 or sha512 for"},
	} {
		_, err := c.Ensure(t.Context(), tc.src)
		if !errors.Is(err, tc.want) || Permanent(err) != tc.permanent {
			t.Errorf("%s: %v, want %v, permanent %v", name, err, tc.want, tc.permanent)
			continue
		}
		if !strings.Contains(err.Error(), tc.says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v; it must say %q and no secret", name, err, tc.says)
		}
	}
}

func TestStalledServer(t *testing.T) {
	o := newOrigin(t)
	c, src := openCache(t, Config{}), o.put("/held", 1<<20)
	c.stall = 50 * time.Millisecond
	if _, err := c.Ensure(t.Context(), src); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "/held sent 524288 bytes in 50ms") {
		t.Errorf("%v", err)
	}
}

// trickling answers with all but the end of an image at once, and with the rest a byte in seven seconds.
type trickling struct{ body string }

func (s trickling) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, ContentLength: int64(len(s.body)),
		Body: io.NopCloser(&slowly{r.Context(), strings.NewReader(s.body), int64(len(s.body)) / 2})}, nil
}

type slowly struct {
	ctx  context.Context
	r    *strings.Reader
	fast int64
}

func (b *slowly) Read(p []byte) (int, error) {
	if b.fast > 0 {
		n, err := b.r.Read(p[:min(int64(len(p)), b.fast)])
		b.fast -= int64(n)
		return n, err
	}
	select {
	case <-time.After(7 * time.Second):
		return b.r.Read(p[:1])
	case <-b.ctx.Done():
		return 0, b.ctx.Err()
	}
}

// A server that never is silent and never gets done is given up like one that is silent.
func TestTricklingServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, body := openCache(t, Config{}), strings.Repeat("x", 8<<20)
		c.client = &http.Client{Transport: trickling{body}}
		began := time.Now()
		_, err := c.Ensure(t.Context(), Source{URL: "http://user:secret@images/a", HashValue: sumOf(body)})
		if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "http://images/a sent 8 bytes in 1m0s") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%v", err)
		}
		if took := time.Since(began); took > 2*time.Minute {
			t.Errorf("given up after %s", took)
		}
	})
}

func TestFile(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	secret := filepath.Join(outside, "secret")
	for path, body := range map[string]string{filepath.Join(dir, "image"): "image", secret: "secret"} {
		if err := os.WriteFile(path, []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(secret, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	c := openCache(t, Config{AllowedDirs: []string{outside + "x", dir}})
	mustEnsure(t, c, Source{URL: "file://" + dir + "/image", HashValue: sumOf("image")})
	if _, err := c.Ensure(t.Context(), Source{URL: "file://" + dir + "/link", HashValue: sumOf("secret")}); !errors.Is(err, ErrSource) {
		t.Errorf("a link out of the folder: %v", err)
	}
	if _, err := Open(Config{Dir: t.TempDir(), AllowedDirs: []string{"images"}}); err == nil {
		t.Error("a relative folder for images was taken")
	}
}

func waiters(c *Cache, src Source) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := 0
	for _, f := range c.flights["sha256-"+src.HashValue] {
		all += f.waiters
	}
	return all
}

// await polls for a state that nothing announces.
func await(t *testing.T, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.After(20 * time.Second); !ok(); {
		select {
		case <-tick.C:
		case <-end:
			t.Fatal("waited 20 s in vain")
		}
	}
}
