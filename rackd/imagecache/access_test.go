package imagecache

import (
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/rackd/outbound"
)

func basic(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

// guarded serves an image and its checksums to one user, and notes what credentials came.
func guarded(t *testing.T, body string) (url string, came *[]string) {
	t.Helper()
	return guardedBy(t, body, basic("u", "p"))
}

// guardedBy is guarded by one value of the header Authorization.
func guardedBy(t *testing.T, body, wanted string) (url string, came *[]string) {
	t.Helper()
	came = new([]string)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*came = append(*came, r.Header.Get("Authorization")+r.Header.Get("Referer"))
		switch {
		case r.Header.Get("Authorization") != wanted:
			scheme, _, _ := strings.Cut(wanted, " ")
			w.Header().Set("WWW-Authenticate", scheme+` realm="images"`)
			w.WriteHeader(http.StatusUnauthorized)
		case strings.HasSuffix(r.URL.Path, "SUMS"):
			io.WriteString(w, sumOf(body)+"  image\n")
		default:
			io.WriteString(w, body)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, came
}

// An image that is here is given to those whose credentials its server takes, whatever their kind is.
func TestCredentials(t *testing.T) {
	body := strings.Repeat("private", 1000)
	for kind, header := range map[string]struct{ right, wrong string }{
		"a password":                        {basic("u", "p"), basic("u", "guess")},
		"a token":                           {"Bearer t0ken", "Bearer guess"},
		"a token where a password is right": {basic("token", "t0ken"), "Bearer t0ken"},
		"a password where a token is right": {"Bearer t0ken", basic("token", "t0ken")},
	} {
		t.Run(kind, func(t *testing.T) {
			at, came := guardedBy(t, body, header.right)
			c := openCache(t, Config{})
			right := Source{URL: at + "/image", HashValue: at + "/SUMS", Authorization: header.right}
			e := mustEnsure(t, c, right)
			if !intact(t, e) {
				t.Error("another image")
			}
			if len(*came) != 2 || (*came)[0] != header.right || (*came)[1] != header.right {
				t.Errorf("the server was sent %q, want %q with each request", *came, header.right)
			}
			for name, value := range map[string]string{"none": "", "wrong": header.wrong} {
				for _, sum := range []string{at + "/SUMS", sumOf(body)} {
					_, err := c.Ensure(t.Context(), Source{URL: at + "/image", HashValue: sum, Authorization: value})
					if !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "answered 401") || value != "" && strings.Contains(err.Error(), value) || strings.Contains(err.Error(), "guess") {
						t.Errorf("credentials: %s, checksum %.20s: %v", name, sum, err)
					}
				}
			}
			// With the right credentials the cache has the image, and does not ask the server again.
			*came = nil
			mustEnsure(t, c, Source{URL: at + "/image", HashValue: sumOf(body), Authorization: header.right})
			if len(*came) != 0 {
				t.Errorf("the server was asked once more, with %q", *came)
			}
		})
	}
}

// Credentials go to the image's own server only.
func TestCredentialsStayAtTheServer(t *testing.T) {
	body := strings.Repeat("private", 1000)
	at, _ := guarded(t, body)
	other, came := guarded(t, body)
	away := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, strings.Replace(other, "127.0.0.1", "localhost", 1)+"/image", http.StatusFound)
	}))
	t.Cleanup(away.Close)
	c := openCache(t, Config{})
	for name, src := range map[string]Source{
		"checksums elsewhere": {URL: at + "/image", HashValue: other + "/SUMS", Authorization: basic("u", "p")},
		"a redirect":          {URL: away.URL + "/image", HashValue: sumOf(body), Authorization: basic("u", "p")},
	} {
		if _, err := c.Ensure(t.Context(), src); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Another port of the same host is another server.
	beside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other+"/image", http.StatusFound)
	}))
	t.Cleanup(beside.Close)
	if _, err := c.Ensure(t.Context(), Source{URL: beside.URL + "/image?signature=s3cret", HashValue: sumOf(body), Authorization: basic("u", "p")}); !errors.Is(err, ErrNotFound) {
		t.Errorf("a redirect to another port: %v", err)
	}
	if strings.Join(*came, "") != "" || len(*came) != 3 {
		t.Errorf("another server was sent %q", *came)
	}
}

// A proxy that a node names cannot say in a server's name that an image may be given.
func TestAProxysConsentIsNone(t *testing.T) {
	body := strings.Repeat("another tenant's", 1000)
	at, _ := guarded(t, body)
	c := openCache(t, Config{})
	mustEnsure(t, c, Source{URL: at + "/image", HashValue: sumOf(body), Authorization: basic("u", "p")})
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusPartialContent)
		io.WriteString(w, body[:1])
	}))
	t.Cleanup(proxy.Close)
	// Loopback goes through no proxy, so the place is written as the proxy alone knows it.
	place := "http://images.invalid/image"
	c.gave("sha256-"+sumOf(body), supplier{url: place})
	_, err := c.Ensure(t.Context(), Source{URL: place + "?mine", HashValue: sumOf(body), Proxies: outbound.Proxies{HTTP: proxy.URL}})
	if err == nil {
		t.Error("an image was given on a proxy's word")
	}
}

// A file of this machine needs no checksum; what it holds now is what is given.
func TestFileWithoutAChecksum(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "image")
	c := openCache(t, Config{AllowedDirs: []string{dir}})
	for _, body := range []string{"first", "the second"} {
		if err := os.WriteFile(path, []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
		e, err := c.Ensure(t.Context(), Source{URL: "file://" + path})
		if err != nil || e.HashValue != sumOf(body) || !intact(t, e) {
			t.Errorf("%+v, %v", e, err)
		}
	}
	if _, err := c.Ensure(t.Context(), Source{URL: "http://127.0.0.1:1/i"}); !errors.Is(err, ErrSource) {
		t.Errorf("an image of a server without a checksum: %v", err)
	}
}
