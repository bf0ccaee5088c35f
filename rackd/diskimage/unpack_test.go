package diskimage

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/rackd/imagecache"
)

// A qcow2 file within a compression becomes that file, once, also across a restart. qemu-img reads the disk that it was made of. Other
// images stay as they are.
func TestAQcow2FileIsUnpackedOnce(t *testing.T) {
	raw := disk()
	plain := filepath.Join(t.TempDir(), "raw")
	if err := os.WriteFile(plain, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	q := foreign(t, "qcow2", raw)
	r := newRack(t)
	seekable := func(e imagecache.Entry) Image {
		t.Helper()
		i, err := Prepare(t.Context(), r.Cache, e, "", "")
		if err == nil {
			i, err = Seekable(t.Context(), r.Cache, i)
		}
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	for _, program := range []string{"gzip", "zstd", "xz"} {
		e := r.entry(t, "i", packed(t, program, q))
		got := seekable(e)
		if got.Format != "qcow2" || got.Compression != "" || got.Unpacked != program || got.HashValue != hexOf(q) || got.Size != int64(len(q)) {
			t.Errorf("%s: %+v", program, got)
		}
		qemuImg(t, "compare", "-f", "raw", "-F", "qcow2", plain, got.Path)
		qemuImg(t, "check", "-f", "qcow2", got.Path)
		before, err := os.Stat(got.Path)
		if err != nil {
			t.Fatal(err)
		}
		r.open(t)
		again := seekable(e)
		after, err := os.Stat(got.Path)
		if err != nil || again.ID != got.ID || !os.SameFile(before, after) {
			t.Errorf("%s: unpacked once more: %+v, %v", program, again, err)
		}
		if err := os.Remove(got.Path); err != nil { // the next compression gives the same file
			t.Fatal(err)
		}
	}
	for name, file := range map[string][]byte{"raw": raw, "raw in xz": packed(t, "xz", raw), "qcow2": q} {
		if got := seekable(r.entry(t, "i", file)); got.HashValue != hexOf(file) || got.Unpacked != "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func hexOf(file []byte) string {
	sum := sha256.Sum256(file)
	return hex.EncodeToString(sum[:])
}

// A packed file that was cut off, or that unpacks to more than the cache holds, is refused. No image has to go for it, and nothing of it
// stays.
func TestWhatCannotBeUnpacked(t *testing.T) {
	const bound = 16 << 20
	q := foreign(t, "qcow2", disk())
	bomb := append(bytes.Clone(q), make([]byte, 2*bound)...)
	r := rack{dir: t.TempDir(), images: t.TempDir()}
	var err error
	if r.Cache, err = imagecache.Open(imagecache.Config{Dir: r.dir, MaxBytes: bound, AllowedDirs: []string{r.images}, Log: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	other := r.entry(t, "other", bytes.Repeat([]byte("other "), 1<<20))
	cut := func(b []byte) []byte { return b[:len(b)-len(b)/4] }
	for name, c := range map[string]struct {
		file  []byte
		kind  error
		words string
	}{
		"gzip that was cut off": {cut(packed(t, "gzip", q)), ErrRefused, "cannot be unpacked as gzip"},
		"zstd that was cut off": {cut(packed(t, "zstd", q)), ErrRefused, "cannot be unpacked as zstd"},
		"xz that was cut off":   {cut(packed(t, "xz", q)), ErrRefused, "cannot be unpacked as xz"},
		"a bomb of gzip":        {packed(t, "gzip", bomb), imagecache.ErrTooLarge, "the cache holds at most"},
		"a bomb of zstd":        {packed(t, "zstd", bomb), imagecache.ErrTooLarge, "the cache holds at most"},
		"a bomb of xz":          {packed(t, "xz", bomb), imagecache.ErrTooLarge, "the cache holds at most"},
	} {
		i, err := Prepare(t.Context(), r.Cache, r.entry(t, "i", c.file), "", "")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := Seekable(t.Context(), r.Cache, i); !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v, want %q", name, err, c.words)
		} else if errors.Is(err, imagecache.ErrTooLarge) && !strings.Contains(err.Error(), i.ID) {
			t.Errorf("%s: the error does not name the image: %v", name, err)
		}
		if _, err := os.Stat(other.Path); err != nil {
			t.Fatalf("%s: the other image had to go: %v", name, err)
		}
		left, err := filepath.Glob(filepath.Join(r.dir, "derived.*.part"))
		if err != nil || len(left) > 0 {
			t.Errorf("%s: %q stays (%v)", name, left, err)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("the deploy was given up")
	i, err := Prepare(ctx, r.Cache, r.entry(t, "i", packed(t, "gzip", q)), "", "")
	if err != nil {
		t.Fatal(err)
	}
	cancel(gone)
	in, done, err := r.File(i.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	if _, err := (unpacker{"gzip"}).Need(ctx, in, bound); !errors.Is(err, gone) {
		t.Errorf("given up: %v", err)
	}
}
