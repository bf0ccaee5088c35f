package image

import (
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
)

// panicking is a body of which a Read panics, once.
type panicking struct {
	io.ReadCloser
	left int
	did  bool
}

func (p *panicking) Read(b []byte) (int, error) {
	if p.left <= 0 && !p.did {
		p.did = true
		panic("a bug of the library")
	}
	n, err := p.ReadCloser.Read(b[:min(len(b), 64<<10)])
	p.left -= n
	return n, err
}

// buggy lets the body of one answer panic behind so many bytes.
type buggy struct {
	http.RoundTripper
	answer, behind int
}

func (g *buggy) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := g.RoundTripper.RoundTrip(r)
	if g.answer--; err == nil && g.answer == 0 {
		resp.Body = &panicking{ReadCloser: resp.Body, left: g.behind}
	}
	return resp, err
}

// A panic below a goroutine that reads ahead of the write is the attempt's error. The agent goes on, and the disk does not boot.
func TestAPanicWhileAnImageIsReadIsAnError(t *testing.T) {
	raw := make([]byte, 6<<20)
	rand.NewChaCha8([32]byte{3}).Read(raw)
	for name, c := range map[string]struct {
		file   []byte
		format string
		g      buggy
		spool  int64
	}{"raw": {raw, "raw", buggy{answer: 1, behind: 5 << 20}, 0}, "qcow2 read twice": {qcow2File(t, raw), "qcow2", buggy{answer: 4}, 4096},
		"qcow2 kept": {qcow2File(t, raw), "qcow2", buggy{answer: 1, behind: 5 << 20}, 1 << 30}} {
		t.Run(name, func(t *testing.T) {
			d, path := staleDisk(t, diskSize)
			w := writer(t, c.spool)
			c.g.RoundTripper = w.Client.Transport
			w.Client.Transport = &c.g
			_, err := w.Write(t.Context(), Spec{URLs: []string{serveBytes(t, c.file)}, Format: c.format, HashAlgo: "sha256", HashValue: sum256(c.file)}, d, nil)
			if err == nil || !strings.Contains(err.Error(), "a bug of the library") || !strings.Contains(err.Error(), "panic_test.go") {
				t.Errorf("error %v, want the panic and its stack", err)
			}
			if b := readBack(t, path); !allZero(b[:1<<20]) || !allZero(b[diskSize-1<<20:]) {
				t.Error("the ends of the disk are not wiped")
			}
		})
	}
}
