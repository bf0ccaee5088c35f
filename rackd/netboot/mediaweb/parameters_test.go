package mediaweb

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/rackd/bootorder"
)

// The disk holds what a boot script would tell, and no image is at that code. mtools read it.
func TestParameters(t *testing.T) {
	w := &world{parameters: true, load: bootorder.Load{Params: []string{"ipa-debug=1", "ipa-api-url=https://evil"}}, params: []string{"console=ttyS0"}}
	s := serve(t, w)
	res, disk := get(t, "GET", s.URL+ParametersPath(id, code), "")
	if res.StatusCode != http.StatusOK || res.Header.Get("Cache-Control") != "no-store" || len(disk) != 1440<<10 {
		t.Fatalf("%s, %v, %d bytes", res.Status, res.Header, len(disk))
	}
	if part, b := get(t, "GET", s.URL+ParametersPath(id, code), "bytes=512-1023"); part.StatusCode != http.StatusPartialContent || string(b) != string(disk[512:1024]) {
		t.Errorf("a part: %s, %d bytes", part.Status, len(b))
	}
	if head, _ := get(t, "HEAD", s.URL+ParametersPath(id, code), ""); head.ContentLength != int64(len(disk)) || head.Header.Get("ETag") != res.Header.Get("ETag") {
		t.Errorf("HEAD: %d bytes, %v", head.ContentLength, head.Header)
	}
	for _, path := range []string{Path(id, code), ParametersPath(id, "x"), ParametersPath("x", code)} {
		if r, _ := get(t, "GET", s.URL+path, ""); r.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %s", path, r.Status)
		}
	}
	w.over = true
	if r, _ := get(t, "GET", s.URL+ParametersPath(id, code), ""); r.StatusCode != http.StatusNotFound {
		t.Errorf("after the boot: %s", r.Status)
	}
	w.over, w.parameters = false, false
	if r, _ := get(t, "GET", s.URL+ParametersPath(id, code), ""); r.StatusCode != http.StatusNotFound {
		t.Errorf("of a boot from an image that rackd makes: %s", r.Status)
	}
	path := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(path, disk, 0o600); err != nil {
		t.Fatal(err)
	}
	mtype, err := exec.LookPath("mtype")
	if err != nil {
		if os.Getenv("IRONYARD_E2E") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	text, err := exec.CommandContext(t.Context(), mtype, "-i", path, "::parameters.txt").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	want := []string{"console=ttyS0", "ipa-debug=1", "ironyard-api-fingerprint=aa", "ipa-api-url=https://192.0.2.1:6386/boot/boot-7", "ironyard-node=" + id, "boot_method=vmedia"}
	if got := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n"); !slices.Equal(got, want) {
		t.Errorf("it says %q, want %q", got, want)
	}
}
