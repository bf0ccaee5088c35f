package configdrive

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/filesystem/iso9660"
)

// unpack opens a drive and reads one file of it.
func unpack(t *testing.T, drive, name string) (label, content string) {
	t.Helper()
	packed, err := base64.StdEncoding.DecodeString(drive)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	image, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "x.iso")
	if err := os.WriteFile(path, image, 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := file.OpenFromPath(path, true)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	fs, err := iso9660.Read(b, int64(len(image)), 0, 2048)
	if err != nil {
		t.Fatal(err)
	}
	f, err := fs.OpenFile("openstack/latest/"+name, os.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return fs.Label(), string(body)
}

func TestObject(t *testing.T) {
	drive, err := Build(t.Context(), `{"meta_data":{"hostname":"h"},"user_data":"#!/bin/sh\n","network_data":{"links":[]}}`, Defaults{UUID: "u", Name: "n"})
	if err != nil {
		t.Fatal(err)
	}
	label, meta := unpack(t, drive, "meta_data.json")
	if strings.TrimSpace(label) != Label || meta != `{"hostname":"h","name":"n","uuid":"u"}` {
		t.Errorf("label %q, meta_data %s", label, meta)
	}
	if _, user := unpack(t, drive, "user_data"); user != "#!/bin/sh\n" {
		t.Errorf("user_data %q", user)
	}
	if again, err := Build(t.Context(), drive, Defaults{}); err != nil || again != drive {
		t.Errorf("a ready drive changed, or: %v", err)
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, drive+"\n") }))
	defer srv.Close()
	if fetched, err := Build(t.Context(), srv.URL, Defaults{}); err != nil || fetched != drive {
		t.Errorf("a drive by URL: %v", err)
	}
}

func TestInvalid(t *testing.T) {
	bomb := func() string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		zero := make([]byte, 1<<20)
		for range MaxBytes>>20 + 1 {
			z.Write(zero)
		}
		z.Close()
		return base64.StdEncoding.EncodeToString(b.Bytes())
	}()
	for name, in := range map[string]string{"text": "hello, world", "no gzip": "aGVsbG8=", "object": `{"meta_data":1}`, "bomb": bomb} {
		if _, err := Build(t.Context(), in, Defaults{}); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
	if drive, err := Build(t.Context(), "", Defaults{}); drive != "" || err != nil {
		t.Errorf("no input: %q, %v", drive, err)
	}
}

func FuzzBuild(f *testing.F) {
	f.Add(`{"meta_data":{"a":1}}`)
	f.Add(`aGVsbG8=`)
	f.Fuzz(func(t *testing.T, in string) {
		if strings.Contains(in, "://") {
			return // nothing is to be fetched
		}
		drive, err := Build(t.Context(), in, Defaults{})
		if err == nil && drive != "" {
			if _, err := ready(drive); err != nil {
				t.Errorf("the drive of %q does not pass its own check: %v", in, err)
			}
		}
	})
}
