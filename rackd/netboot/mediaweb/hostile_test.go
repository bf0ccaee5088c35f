package mediaweb

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/rackd/bootmedium"
)

// renewed is a rack whose kernel and ramdisk are replaced while a BMC reads.
type renewed struct {
	world
	version int
}

func (w *renewed) file(_, name string) (bootmedium.File, func(), error) {
	w.open++
	b := []byte(strings.Repeat(fmt.Sprintf("%s %d ", name, w.version), 8000+w.version))
	return bootmedium.File{ReaderAt: bytes.NewReader(b), Size: int64(len(b))}, func() { w.open-- }, nil
}

// A BMC reads a medium in many parts, for minutes. All of them are of the same files, although an operator builds the ramdisk again
// meanwhile. The next boot gets the new ones, and the old are let go.
func TestFilesThatAreReplacedInTheMiddleOfABoot(t *testing.T) {
	w := &renewed{version: 1}
	s := serveFiles(t, &w.world, w.file)
	url := s.URL + Path(id, code)
	head, _ := get(t, http.MethodHead, url, "")
	var got []byte
	for at := int64(0); at < head.ContentLength; at += 64 << 10 {
		if at >= head.ContentLength/2 {
			w.version = 2
		}
		res, part := get(t, http.MethodGet, url, fmt.Sprintf("bytes=%d-%d", at, min(at+64<<10, head.ContentLength)-1))
		if res.StatusCode != http.StatusPartialContent || res.Header.Get("ETag") != head.Header.Get("ETag") {
			t.Fatalf("at %d: %d, %v", at, res.StatusCode, res.Header)
		}
		got = append(got, part...)
	}
	if !bytes.Contains(got, []byte("kernel 1 ")) || !bytes.Contains(got, []byte("ramdisk 1 ")) || bytes.Contains(got, []byte("kernel 2 ")) || bytes.Contains(got, []byte("ramdisk 2 ")) {
		t.Error("the medium is mixed of two builds")
	}
	w.over = true
	get(t, http.MethodGet, url, "")
	if w.open != 0 {
		t.Errorf("%d files are open after the boot", w.open)
	}
	w.over = false
	if _, body := get(t, http.MethodGet, url, ""); !bytes.Contains(body, []byte("ramdisk 2 ")) {
		t.Error("the next boot does not get the new ramdisk")
	}
}
