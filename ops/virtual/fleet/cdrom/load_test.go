package cdrom

import (
	"bytes"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/ironyard/ironyard/rackd/bootmedium"
)

// Firmware loads an image by HTTP where its type or the end of its path says what it is.
func TestLoad(t *testing.T) {
	s := serve(t, bootmedium.Contents{Kernel: file("a kernel"), Ramdisk: file("a ramdisk"), Params: []string{"quiet"}})
	want, err := Read(t.Context(), s.URL)
	if err != nil {
		t.Fatal(err)
	}
	typed := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/vnd.efi-iso")
		s.Config.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(typed.Close)
	for _, url := range []string{s.URL + "/boot.iso", typed.URL + "/boot"} {
		if got, err := NewLoader(nil).Load(t.Context(), url); err != nil || got != want {
			t.Errorf("%s: %+v, %v, want %+v", url, got, err, want)
		}
	}
	if got, err := NewLoader(nil).Load(t.Context(), s.URL+"/boot"); err == nil {
		t.Errorf("a file that says nothing of its kind starts %+v", got)
	}
}

// By HTTPS firmware loads an image from a server whose authority it trusts, and from no other.
func TestLoadByHTTPS(t *testing.T) {
	s := serve(t, bootmedium.Contents{Kernel: file("a kernel"), Ramdisk: file("a ramdisk"), Params: []string{"quiet"}})
	secure := httptest.NewTLSServer(s.Config.Handler)
	t.Cleanup(secure.Close)
	authorities := x509.NewCertPool()
	authorities.AddCert(secure.Certificate())
	if got, err := NewLoader(authorities).Load(t.Context(), secure.URL+"/boot.iso"); err != nil || got.CommandLine != "quiet" {
		t.Errorf("it starts %+v, %v", got, err)
	}
	if got, err := NewLoader(nil).Load(t.Context(), secure.URL+"/boot.iso"); err == nil {
		t.Errorf("from a server that it does not trust it starts %+v", got)
	}
}

// What is not there, has no size, ends early or is no image of a CD starts nothing.
func TestLoadsNothing(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"missing": http.NotFound,
		"no CD": func(w http.ResponseWriter, r *http.Request) {
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(make([]byte, 1<<20)))
		},
		"no size": func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush() },
		"too large": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "999999999999")
		},
		"short": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "1000")
			if r.Method == http.MethodGet {
				_, _ = w.Write([]byte("half of it"))
			}
		},
	} {
		s := httptest.NewServer(h)
		if got, err := NewLoader(nil).Load(t.Context(), s.URL+"/boot.iso"); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
		s.Close()
	}
}
