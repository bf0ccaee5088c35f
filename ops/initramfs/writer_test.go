package initramfs

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

func sample(t *testing.T, c Compression) []byte {
	t.Helper()
	var out bytes.Buffer
	z, err := Compress(&out, c)
	if err != nil {
		t.Fatal(err)
	}
	w := NewWriter(z)
	for _, err := range []error{
		w.AddDevice("/dev/console", CharDevice, 0o600, 5, 1),
		w.AddDir("proc", 0o555),
		w.AddFile("init", 0o755, []byte("#!/bin/true\n")),
		w.AddFile("lib/modules/v/a.ko", 0o644, bytes.Repeat([]byte("abc"), 1001)),
		w.AddSymlink("sbin/init", "../init"),
		w.Close(),
		z.Close(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

func TestSameBytesEachTime(t *testing.T) {
	for _, c := range []Compression{None, Gzip, Zstd} {
		if !bytes.Equal(sample(t, c), sample(t, c)) {
			t.Errorf("%s: two archives of the same content differ", c)
		}
	}
}

func TestCompressionsHoldTheSameArchive(t *testing.T) {
	want := sample(t, None)
	g, err := gzip.NewReader(bytes.NewReader(sample(t, Gzip)))
	if err != nil {
		t.Fatal(err)
	}
	z, err := zstd.NewReader(bytes.NewReader(sample(t, Zstd)))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	for name, r := range map[string]io.Reader{"gzip": g, "zstd": z} {
		got, err := io.ReadAll(r)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: unpacked archive differs (error %v)", name, err)
		}
	}
}

// The archive's golden form: an independent reader must list what was put in.
func TestCpioReadsIt(t *testing.T) {
	cpio, err := exec.LookPath("cpio")
	if err != nil {
		checkHeaders(t, sample(t, None))
		return
	}
	cmd := exec.Command(cpio, "-it", "--quiet")
	cmd.Stdin = bytes.NewReader(sample(t, None))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("cpio: %v: %s", err, out)
	}
	want := "dev dev/console proc init lib lib/modules lib/modules/v lib/modules/v/a.ko sbin sbin/init"
	if got := strings.Join(strings.Fields(string(out)), " "); got != want {
		t.Errorf("cpio lists %q, want %q", got, want)
	}
}

func checkHeaders(t *testing.T, archive []byte) {
	t.Helper()
	if len(archive)%512 != 0 {
		t.Errorf("archive of %d bytes is not a multiple of 512", len(archive))
	}
	if got := bytes.Count(archive, []byte("070701")); got != 11 {
		t.Errorf("%d headers, want ten entries and a trailer", got)
	}
}

func TestBadEntries(t *testing.T) {
	w := NewWriter(io.Discard)
	if err := w.AddFile("a", 0o644, nil); err != nil {
		t.Fatal(err)
	}
	if err := w.AddFile("/a", 0o644, nil); !errors.Is(err, ErrDuplicate) {
		t.Errorf("second a: %v, want ErrDuplicate", err)
	}
	for _, name := range []string{"", "/", "..", "a\x00b"} {
		if err := w.AddFile(name, 0o644, nil); err == nil {
			t.Errorf("name %q accepted", name)
		}
	}
	if _, err := Compress(io.Discard, "lzma"); err == nil {
		t.Error("unknown compression accepted")
	}
}
