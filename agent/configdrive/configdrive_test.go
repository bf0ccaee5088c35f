package configdrive

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"strings"
	"testing"
)

func encode(t testing.TB, data []byte) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write(data)
	z.Close()
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

func TestDecode(t *testing.T) {
	want := bytes.Repeat([]byte("drive"), 1000)
	text := encode(t, want)
	for _, in := range []string{text, text[:40] + "\r\n" + text[40:] + "\n"} {
		got, err := Decode(in)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	for name, in := range map[string]string{
		"no base64": "{}", "no gzip": base64.StdEncoding.EncodeToString(make([]byte, 600)), "too short": encode(t, []byte("x")),
		"cut": encode(t, make([]byte, 4096))[:24], "empty": "",
	} {
		if _, err := Decode(in); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestDecodeIsBounded(t *testing.T) {
	text := encode(t, make([]byte, 2<<20))
	if _, err := decode(text, 1<<20); err == nil || !strings.Contains(err.Error(), "larger than 1 MiB") {
		t.Errorf("error %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(encode(f, make([]byte, 600)))
	f.Fuzz(func(t *testing.T, in string) {
		if data, err := Decode(in); err == nil && (len(data) < 512 || len(data) > MaxBytes) {
			t.Errorf("%d bytes", len(data))
		}
	})
}
