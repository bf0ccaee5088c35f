package gzipfile

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/gzip"
)

func packed(t *testing.T, plain []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := z.Write(plain); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// A gzip file may have several members, and zeros behind them where a tape or a disk has padded it. What else follows is no gzip file.
func TestMembersOfAGzipFile(t *testing.T) {
	one, two := bytes.Repeat([]byte("one"), 100_000), []byte("two")
	first, second := packed(t, one), packed(t, two)
	zeros := make([]byte, 70_000)
	for name, c := range map[string]struct {
		file []byte
		want []byte
		err  error
	}{
		"one":                    {first, one, nil},
		"two":                    {slices.Concat(first, second), slices.Concat(one, two), nil},
		"padded":                 {slices.Concat(first, second, zeros), slices.Concat(one, two), nil},
		"one byte of padding":    {slices.Concat(first, zeros[:1]), one, nil},
		"padded, then a member":  {slices.Concat(first, zeros, second), one, gzip.ErrHeader},
		"other bytes behind":     {slices.Concat(first, []byte("garbage that is no member")), one, gzip.ErrHeader},
		"cut off in the first":   {first[:len(first)-1], one, io.ErrUnexpectedEOF},
		"cut off in the second":  {slices.Concat(first, second[:len(second)-9]), nil, io.ErrUnexpectedEOF},
		"cut off in its header":  {slices.Concat(first, second[:4]), one, io.ErrUnexpectedEOF},
		"cut off in its name":    {slices.Concat(first, second[:3], []byte{8}, second[4:10], []byte("na")), one, io.ErrUnexpectedEOF},
		"an empty member before": {slices.Concat(packed(t, nil), first), one, nil},
	} {
		for way, r := range map[string]io.Reader{"at once": bytes.NewReader(c.file), "in pieces": iotest.HalfReader(bytes.NewReader(c.file))} {
			m, err := NewReader(r)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(m)
			if !errors.Is(err, c.err) || c.want != nil && !bytes.Equal(got, c.want) {
				t.Errorf("%s, %s: %d bytes, want %d, %v", name, way, len(got), len(c.want), err)
			}
		}
	}
}

// Names lie in the headers of files that gzip itself has made. One that ends there, or before, is no empty disk.
func TestAGzipFileThatEndsInItsFirstHeader(t *testing.T) {
	for _, file := range []string{"", "\x1f\x8b", "\x1f\x8b\x08\x08\x00\x00\x00\x00\x00\x03na"} {
		if _, err := NewReader(strings.NewReader(file)); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%q: %v", file, err)
		}
	}
}
