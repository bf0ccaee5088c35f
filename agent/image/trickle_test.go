package image

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/trickle"
)

// trickling is a server that sends a mebibyte, and then a byte every 59 seconds. It answers so again when it is
// asked for the rest of the file.
type trickling struct {
	image []byte
	etag  string
	asked int
}

func (s *trickling) RoundTrip(r *http.Request) (*http.Response, error) {
	s.asked++
	a := &http.Response{Status: "200 OK", StatusCode: http.StatusOK, Header: http.Header{"Etag": {s.etag}}, ContentLength: int64(len(s.image))}
	off := 0
	if from, ok := strings.CutPrefix(r.Header.Get("Range"), "bytes="); ok {
		off, _ = strconv.Atoi(strings.TrimSuffix(from, "-"))
		a.Status, a.StatusCode = "206 Partial Content", http.StatusPartialContent
	}
	a.Body = io.NopCloser(&slowly{r.Context(), bytes.NewReader(s.image[off:]), max(0, 1<<20-off)})
	return a, nil
}

type slowly struct {
	ctx  context.Context
	r    *bytes.Reader
	fast int
}

func (b *slowly) Read(p []byte) (int, error) {
	if b.fast > 0 {
		n, err := b.r.Read(p[:min(len(p), b.fast)])
		b.fast -= n
		return n, err
	}
	select {
	case <-time.After(59 * time.Second):
		return b.r.Read(p[:1])
	case <-b.ctx.Done():
		return 0, b.ctx.Err()
	}
}

// A server that always brings something, and never enough, does not hold a deploy.
func TestTricklingServerIsGivenUp(t *testing.T) {
	for name, etag := range map[string]string{"may go on": `"same"`, "starts over": ""} {
		t.Run(name, func(t *testing.T) {
			d, path := staleDisk(t, diskSize)
			synctest.Test(t, func(t *testing.T) {
				raw := content(3 << 20)
				s := &trickling{image: raw, etag: etag}
				w := &Writer{Client: &http.Client{Transport: s}, SpoolDir: t.TempDir(), SpoolLimit: func() int64 { return 0 }}
				began := time.Now()
				_, err := w.Write(t.Context(), Spec{URLs: []string{"http://images/a"}, Format: "raw", HashAlgo: "sha256", HashValue: sum256(raw)}, d, nil)
				slow, ok := errors.AsType[*trickle.Error](err)
				if !ok || slow.From != "http://images/a" || !strings.Contains(err.Error(), "http://images/a sent 1 bytes in 1m0s") {
					t.Errorf("after %s: error %v", time.Since(began), err)
				}
				if took := time.Since(began); took > time.Hour {
					t.Errorf("given up after %s and %d requests", took, s.asked)
				}
			})
			if !allZero(readBack(t, path)[:1<<20]) {
				t.Error("half an image could boot")
			}
		})
	}
}
