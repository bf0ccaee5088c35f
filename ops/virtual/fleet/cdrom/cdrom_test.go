package cdrom

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/rackd/bootmedium"
)

// serve serves an image that rackd makes.
func serve(t *testing.T, c bootmedium.Contents) *httptest.Server {
	t.Helper()
	loader := bootmedium.FindLoader(t.Context())
	t.Cleanup(func() { _ = loader.Close() })
	if err := loader.Problem(bootmedium.UEFI); err != nil {
		t.Skip("NOT RUN: ", err)
	}
	m, err := loader.Image(c)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Time{}, io.NewSectionReader(m, 0, m.Size()))
	}))
	t.Cleanup(s.Close)
	return s
}

func file(text string) bootmedium.File {
	return bootmedium.File{ReaderAt: strings.NewReader(text), Size: int64(len(text))}
}

// The images are those that rackd makes, not copies of them.
func TestRead(t *testing.T) {
	kernel := strings.Repeat("a kernel of some pieces ", 9000)
	s := serve(t, bootmedium.Contents{Kernel: file(kernel), Ramdisk: file("a ramdisk"), Params: []string{"ipa-api-url=http://10.0.0.1:6386", `console="ttyS0"`}})
	got, err := Read(t.Context(), s.URL)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(kernel))
	if want := (System{hex.EncodeToString(sum[:]), "ipa-api-url=http://10.0.0.1:6386 console=ttyS0"}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// What is no image of a CD, or is not there, boots nothing.
func TestReadsNothing(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"missing": http.NotFound,
		"no CD": func(w http.ResponseWriter, r *http.Request) {
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(make([]byte, 1<<20)))
		},
		"no ranges": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("all of it")) },
	} {
		s := httptest.NewServer(h)
		if got, err := Read(t.Context(), s.URL); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
		s.Close()
	}
	for _, text := range []string{"", "linux /boot/kernel\nboot\n", "chainloader /x\n", "linux /k\ninitrd /r\n"} {
		if k, r, l, err := entry(text); err == nil {
			t.Errorf("%q: %q, %q, %q", text, k, r, l)
		}
	}
}
