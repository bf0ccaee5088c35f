package imagecache

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

// codeOf makes the codes of these tests.
func codeOf(id string) string { return "code-of-" + id[len(id)-8:] }

func codeFits(code, id string) bool { return code == codeOf(id) }

func TestHandler(t *testing.T) {
	o := newOrigin(t)
	c := openCache(t, Config{})
	e := mustEnsure(t, c, o.put("/image", 1000))
	content, err := os.ReadFile(e.Path)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(c.Handler(codeFits))
	defer srv.Close()
	etag := `"` + e.ID + `"`
	for name, tc := range map[string]struct {
		method, path, header, value string
		status                      int
		body                        string // checked for 2xx
	}{
		"whole":       {"GET", Path(codeOf(e.ID), e.ID), "", "", 200, string(content)},
		"range":       {"GET", Path(codeOf(e.ID), e.ID), "Range", "bytes=10-19", 206, string(content[10:20])},
		"rest":        {"GET", Path(codeOf(e.ID), e.ID), "Range", "bytes=990-", 206, string(content[990:])},
		"past end":    {"GET", Path(codeOf(e.ID), e.ID), "Range", "bytes=1000-", 416, ""},
		"head":        {"HEAD", Path(codeOf(e.ID), e.ID), "", "", 200, ""},
		"unchanged":   {"GET", Path(codeOf(e.ID), e.ID), "If-None-Match", etag, 304, ""},
		"post":        {"POST", Path(codeOf(e.ID), e.ID), "", "", 405, ""},
		"other image": {"GET", Path(codeOf("sha256-"+sumOf("other")), "sha256-"+sumOf("other")), "", "", 404, ""},
		"no code":     {"GET", Prefix + e.ID, "", "", 404, ""},
		"empty code":  {"GET", Path("", e.ID), "", "", 404, ""},
		"a guess":     {"GET", Path("x", e.ID), "", "", 404, ""},
		"its other":   {"GET", Path(codeOf("sha256-"+sumOf("other")), e.ID), "", "", 404, ""},
		"no id":       {"GET", Prefix, "", "", 404, ""},
		"climbing":    {"GET", Prefix + "..%2f..%2fetc%2fpasswd", "", "", 404, ""},
		"elsewhere":   {"GET", "/" + e.ID, "", "", 404, ""},
	} {
		req, err := http.NewRequestWithContext(t.Context(), tc.method, srv.URL+tc.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if tc.header != "" {
			req.Header.Set(tc.header, tc.value)
		}
		res, err := srv.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != tc.status || tc.status < 300 && string(body) != tc.body {
			t.Errorf("%s: %s, %d bytes, %v; want %d and %d bytes", name, res.Status, len(body), err, tc.status, len(tc.body))
		}
		if tc.status < 300 && (res.Header.Get("ETag") != etag || res.Header.Get("Accept-Ranges") != "bytes") {
			t.Errorf("%s: headers %v", name, res.Header)
		}
	}
	await(t, func() bool { return c.locked(func() int64 { return int64(c.entries[e.ID].refs) }) == 0 })
}

// Whoever asks for an image on its way is told to come back, not that there is none.
func TestImageOnItsWay(t *testing.T) {
	o := newOrigin(t)
	c := openCache(t, Config{})
	src := o.put("/held", 1000)
	srv := httptest.NewServer(c.Handler(codeFits))
	defer srv.Close()
	path := srv.URL + Path(codeOf("sha256-"+src.HashValue), "sha256-"+src.HashValue)
	status := func() int {
		// Who has no code does not learn that the image is coming either.
		if res, err := srv.Client().Get(srv.URL + Path("guess", "sha256-"+src.HashValue)); err != nil || res.Body.Close() != nil || res.StatusCode != http.StatusNotFound {
			t.Errorf("with a guessed code: %v, %v", res, err)
		}
		res, err := srv.Client().Get(path)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res.StatusCode
	}
	if got := status(); got != http.StatusNotFound {
		t.Errorf("before: %d", got)
	}
	fetched := make(chan error, 1)
	go func() { _, err := c.Ensure(t.Context(), src); fetched <- err }()
	<-o.began
	if got := status(); got != http.StatusServiceUnavailable {
		t.Errorf("on its way: %d", got)
	}
	close(o.hold)
	if err := <-fetched; err != nil {
		t.Fatal(err)
	}
	if got := status(); got != http.StatusOK {
		t.Errorf("afterwards: %d", got)
	}
}

func TestServingKeepsTheEntry(t *testing.T) {
	o := newOrigin(t)
	c := openCache(t, Config{})
	e := mustEnsure(t, c, o.put("/image", 8<<20)) // more than the sockets hold
	srv := httptest.NewServer(c.Handler(codeFits))
	defer srv.Close()
	res, err := srv.Client().Get(srv.URL + Path(codeOf(e.ID), e.ID))
	if err != nil {
		t.Fatal(err)
	}
	refs := func() int64 { return c.locked(func() int64 { return int64(c.entries[e.ID].refs) }) }
	if refs() != 1 {
		t.Errorf("%d downloads counted during one", refs())
	}
	res.Body.Close() // the client breaks off
	await(t, func() bool { return refs() == 0 })
}

func TestValidID(t *testing.T) {
	sum := sumOf("x")
	for id, want := range map[string]bool{
		"sha256-" + sum: true, "sha512-" + sum + sum: true, "sha512-" + sum: false, "sha256-" + strings.ToUpper(sum): false,
		"sha256-" + sum + " ": false, "SHA256-" + sum: false, "-" + sum: false, sum: false, "": false, "..": false, "sha256-../" + sum[3:]: false,
	} {
		if ValidID(id) != want {
			t.Errorf("%q: %v", id, !want)
		}
	}
}

func FuzzValidID(f *testing.F) {
	f.Add("sha256-" + sumOf("x"))
	f.Add("../x")
	f.Fuzz(func(t *testing.T, id string) {
		if ValidID(id) && strings.Trim(id, "sh-0123456789abcdef") != "" {
			t.Errorf("%q names a file", id)
		}
	})
}
