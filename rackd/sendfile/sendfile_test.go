package sendfile

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestFilesArriveWhole asks a real server for files around the size of a piece, and for a part of one.
func TestFilesArriveWhole(t *testing.T) {
	for _, size := range []int{0, 1, 511, 512, piece - 1, piece, piece + 1, 3*piece + 17} {
		content := make([]byte, size)
		rand.Read(content)
		name := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			f, err := os.Open(name)
			if err != nil {
				t.Error(err)
				return
			}
			defer f.Close()
			w.Header().Set("Content-Type", "application/octet-stream")
			http.ServeContent(Writer(w), r, "", time.Time{}, f)
		}))
		defer s.Close()
		for _, part := range []string{"", "bytes=1-"} {
			want := content
			if part != "" {
				if size < 2 {
					continue
				}
				want = content[1:]
			}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			if part != "" {
				req.Header.Set("Range", part)
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes, range %q: %d bytes came, %v", size, part, len(got), err)
			}
		}
	}
}

// taker takes what it is given, and fails once it has had enough.
type taker struct {
	bytes.Buffer
	calls []int64
	enough,
	had int64
}

var errFull = errors.New("the connection is gone")

func (k *taker) ReadFrom(r io.Reader) (int64, error) {
	n, err := k.Buffer.ReadFrom(r)
	k.calls, k.had = append(k.calls, n), k.had+n
	if k.enough > 0 && k.had >= k.enough {
		err = errFull
	}
	return n, err
}

// TestPieces has the size of each piece, files that got shorter, and receivers that go away.
func TestPieces(t *testing.T) {
	var k taker
	text := strings.Repeat("x", 2*piece+9)
	n, err := Copy(&k, io.LimitReader(strings.NewReader(text), int64(len(text))))
	if err != nil || n != int64(len(text)) || k.String() != text || len(k.calls) != 3 || k.calls[0] != piece || k.calls[2] != 9 {
		t.Errorf("%d bytes in %v: %v", n, k.calls, err)
	}
	k = taker{}
	if n, err := Copy(&k, io.LimitReader(strings.NewReader(text), 5*piece)); err != nil || n != int64(len(text)) || len(k.calls) != 3 {
		t.Errorf("a file that got shorter: %d bytes in %v: %v", n, k.calls, err)
	}
	k = taker{enough: 2 * piece}
	limited := &io.LimitedReader{R: strings.NewReader(text), N: int64(len(text))}
	if n, err := Copy(&k, limited); !errors.Is(err, errFull) || n != 2*piece || limited.N != 9 {
		t.Errorf("a receiver that went away: %d bytes, %d left: %v", n, limited.N, err)
	}
	leaving.Add(few)
	k = taker{}
	if n, err := Copy(&k, io.LimitReader(strings.NewReader(text), int64(len(text)))); err != nil || n != int64(len(text)) || len(k.calls) != 1 {
		t.Errorf("beside many others: %d bytes in %v: %v", n, k.calls, err)
	}
	leaving.Add(-few)
	if n := leaving.Load(); n != 0 {
		t.Errorf("%d files are said to leave after all have ended", n)
	}
	k = taker{}
	if n, err := Copy(&k, strings.NewReader(text)); err != nil || n != int64(len(text)) {
		t.Errorf("without a limit: %d bytes: %v", n, err)
	}
}
