package imagecache

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// Media types of a manifest and of its file.
const (
	ociManifest = "application/vnd.oci.image.manifest.v1+json"
	ociLayer    = "application/vnd.oci.image.layer.v1.tar"
)

// liar is a registry with one image, which may lie about it.
type liar struct {
	host string
	body []byte
	lie  atomic.Value // which lie it tells; empty: none
	sent atomic.Int64 // bytes of an endless file
}

func newLiar(t *testing.T, size int) *liar {
	t.Helper()
	l := &liar{body: bytes.Repeat([]byte("image "), size/6)}
	l.lie.Store("")
	s := httptest.NewServer(l)
	t.Cleanup(s.Close)
	l.host = strings.TrimPrefix(s.URL, "http://")
	return l
}

func sha(b []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(b)) }

// manifest is what the registry says of a file.
func (l *liar) manifest(file []byte, size int) []byte {
	return fmt.Appendf(nil, `{"schemaVersion":2,"mediaType":%q,"artifactType":"a/disk","config":{"mediaType":"application/vnd.oci.empty.v1+json","digest":%q,"size":2},
"layers":[{"mediaType":%q,"digest":%q,"size":%d}]}`, ociManifest, sha([]byte("{}")), ociLayer, sha(file), size)
}

func (l *liar) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	lie := l.lie.Load().(string)
	if lie == "no token" && r.URL.Path == "/token" {
		<-r.Context().Done()
		return
	}
	if lie == "no token" {
		w.Header().Set("WWW-Authenticate", `Bearer realm="http://`+l.host+`/token",service="s"`)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if strings.Contains(r.URL.Path, "/manifests/") {
		l.giveManifest(w, r, lie)
		return
	}
	file := bytes.Clone(l.body)
	switch lie {
	case "another blob":
		file[0] ^= 1
	case "a short blob":
		file = file[:len(file)/2]
	case "a long blob":
		file = append(file, 'x')
	case "a blob of another name":
		w.Header().Set("Docker-Content-Digest", sha([]byte("other")))
	case "blob in circles":
		http.Redirect(w, r, r.URL.Path, http.StatusTemporaryRedirect)
		return
	case "a blob without end":
		l.endless(w, r)
		return
	}
	w.Header().Set("Content-Length", fmt.Sprint(len(file)))
	if lie == "a blob that breaks off" {
		file = file[:len(file)/2]
	}
	w.Write(file)
}

// endless answers without a length, until the caller has gone. Asked for the length alone it tells the right one.
func (l *liar) endless(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodHead {
		w.Header().Set("Content-Length", fmt.Sprint(len(l.body)))
		return
	}
	for r.Context().Err() == nil {
		n, err := w.Write(l.body)
		l.sent.Add(int64(n))
		if err != nil {
			return
		}
	}
}

func (l *liar) giveManifest(w http.ResponseWriter, r *http.Request, lie string) {
	text := l.manifest(l.body, len(l.body))
	switch lie {
	case "another size":
		text = l.manifest(l.body, len(l.body)+1)
	case "another manifest":
		text = l.manifest([]byte("other"), 5)
	case "manifest in circles":
		http.Redirect(w, r, r.URL.Path, http.StatusTemporaryRedirect)
		return
	}
	w.Header().Set("Content-Type", ociManifest)
	w.Header().Set("Content-Length", fmt.Sprint(len(text)))
	if r.Method != http.MethodHead {
		w.Write(text)
	}
}

// What a registry lies about is refused with the reason, and leaves nothing in the cache: no file, no entry, no right. What was there
// stays. When the same registry tells the truth, the image comes as it is.
func TestARegistryThatLies(t *testing.T) {
	for lie, c := range map[string]struct {
		want error
		says string
	}{
		"another blob":           {ErrChecksum, ", expected "},
		"a short blob":           {ErrChecksum, "and its manifest says 60000"},
		"a long blob":            {ErrChecksum, "and its manifest says 60000"},
		"a blob without end":     {ErrChecksum, "sends more than the 60000 bytes"},
		"a blob that breaks off": {ErrUnavailable, "broke off after 30000 bytes"},
		"a blob of another name": {ErrNotFound, "gives something else for os:sha256:"},
		"another size":           {ErrChecksum, "announces 60000 bytes of"},
		"another manifest":       {ErrNotFound, "gives something else for os:sha256:"},
		"blob in circles":        {ErrUnavailable, "stopped after 10 redirects"},
		"manifest in circles":    {ErrUnavailable, "stopped after 10 redirects"},
		"no token":               {ErrUnavailable, "sent nothing in"},
	} {
		t.Run(lie, func(t *testing.T) {
			l, o := newLiar(t, 60000), newOrigin(t)
			c1 := openCache(t, Config{MaxBytes: 200000, PlainRegistries: []string{l.host}})
			other := mustEnsure(t, c1, o.put("/other", 100000))
			c1.mu.Lock()
			c1.entries[other.ID].handed = time.Time{} // it may be evicted
			c1.mu.Unlock()
			c1.stall = 500 * time.Millisecond
			src := Source{URL: "oci://" + l.host + "/os@" + sha(l.manifest(l.body, len(l.body)))}
			if lie == "another size" {
				src.URL = "oci://" + l.host + "/os:1"
			}
			l.lie.Store(lie)
			e, err := c1.Ensure(t.Context(), src)
			if !errors.Is(err, c.want) || !strings.Contains(fmt.Sprint(err), c.says) {
				t.Errorf("%+v, %v, want %v that says %q", e, err, c.want, c.says)
			}
			checkBooks(t, c1)
			if !has(c1, other) || c1.Holds("sha256-"+sumOf(string(l.body))) {
				t.Error("the cache has lost what it held, or holds what it was refused")
			}
			if n := l.sent.Load(); n > 16<<20 {
				t.Errorf("%d bytes of a file without an end were taken", n)
			}
			c1.stall = time.Minute
			l.lie.Store("")
			e, err = c1.Ensure(t.Context(), src)
			if err != nil {
				t.Fatalf("when it tells the truth: %v", err)
			}
			f, err := os.Open(e.Path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if got, err := io.ReadAll(f); err != nil || !bytes.Equal(got, l.body) {
				t.Errorf("when it tells the truth the cache has %d bytes of another image (%v)", len(got), err)
			}
		})
	}
}

// A registry without TLS is shown credentials where the source says so. Else it is not asked, and what another source has brought here is
// not given either. A work that was given the image before goes on with it.
func TestARegistryWithoutTLSIsShownCredentialsByConsent(t *testing.T) {
	l := newLiar(t, 6000)
	var asked atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.Header.Get("Authorization") != basic("u", "p") {
			w.Header().Set("WWW-Authenticate", "Basic realm=r")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		l.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	host := strings.TrimPrefix(s.URL, "http://")
	c := openCache(t, Config{PlainRegistries: []string{host}})
	silent := Source{URL: "oci://" + host + "/os@" + sha(l.manifest(l.body, len(l.body))), Authorization: basic("u", "p")}
	refused := func(when string) {
		t.Helper()
		asked.Store(0)
		_, err := c.Ensure(t.Context(), silent)
		if !errors.Is(err, ErrSource) || !strings.Contains(err.Error(), "--plain-registries") || strings.Contains(err.Error(), "Basic") || asked.Load() != 0 {
			t.Errorf("%s: %v; the registry was asked %d times", when, err, asked.Load())
		}
	}
	refused("before the image is here")
	open := silent
	open.InTheClear = host
	e := mustEnsure(t, c, open)
	if !intact(t, e) {
		t.Error("another image")
	}
	refused("when the image is here")
	silent.Given = e.ID
	if again := mustEnsure(t, c, silent); again.ID != e.ID {
		t.Errorf("%+v", again)
	}
}
