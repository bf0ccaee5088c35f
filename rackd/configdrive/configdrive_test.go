package configdrive

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/rackd/outbound"
)

// encode packs an image as clients do.
func encode(t testing.TB, image []byte) string {
	t.Helper()
	text, err := pack(image)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// unpack is the image in a drive.
func unpack(t testing.TB, drive string) []byte {
	t.Helper()
	z, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(drive)))
	if err != nil {
		t.Fatal(err)
	}
	image, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func TestObject(t *testing.T) {
	defaults := Defaults{UUID: "u", Name: "n"}
	for name, c := range map[string]struct {
		input    string
		defaults Defaults
		want     map[string]string
	}{
		"empty":       {`{}`, defaults, map[string]string{"meta_data.json": `{"hostname":"n","name":"n","uuid":"u"}`}},
		"no defaults": {`{"meta_data":null}`, Defaults{}, map[string]string{"meta_data.json": `{}`}},
		"all": {`{"meta_data":{"hostname":"h","uuid":null,"id":12345678901234567890},"network_data":{"links":[]},"user_data":"#!/bin/sh\n","vendor_data":{"a":1}}`, defaults,
			map[string]string{"meta_data.json": `{"hostname":"h","id":12345678901234567890,"name":"n","uuid":"u"}`, "network_data.json": `{"links":[]}`,
				"user_data": "#!/bin/sh\n", "vendor_data2.json": `{"a":1}`}},
		"user data as object": {`{"meta_data":{"hostname":"h","name":"n","uuid":"u"},"user_data":{"k":[1]}}`, Defaults{},
			map[string]string{"meta_data.json": `{"hostname":"h","name":"n","uuid":"u"}`, "user_data": `{"k":[1]}`}},
	} {
		drive, err := Build(t.Context(), http.DefaultClient, c.input, c.defaults)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		label, files := readTree(t, unpack(t, drive), jolietSector)
		if label != Label || len(files) != len(c.want) {
			t.Errorf("%s: label %q, %d files, want %d", name, label, len(files), len(c.want))
		}
		for file, want := range c.want {
			if got := files["openstack/latest/"+file]; string(got) != want {
				t.Errorf("%s: %s is %q, want %q", name, file, got, want)
			}
		}
	}
}

func TestDeterministic(t *testing.T) {
	const input = `{"meta_data":{"b":1,"a":2},"user_data":"x"}`
	first, err := Build(t.Context(), http.DefaultClient, input, Defaults{UUID: "u", Name: "n"})
	if err != nil {
		t.Fatal(err)
	}
	if second, err := Build(t.Context(), http.DefaultClient, " "+input+"\n", Defaults{UUID: "u", Name: "n"}); err != nil || second != first {
		t.Errorf("equal objects gave different drives, or %v", err)
	}
}

func TestReadyDrive(t *testing.T) {
	drive := encode(t, bytes.Repeat([]byte("image"), 1000))
	for name, in := range map[string]string{"plain": drive, "in lines": drive[:40] + "\r\n" + drive[40:] + "\n"} {
		if got, err := Build(t.Context(), http.DefaultClient, in, Defaults{}); err != nil || got != drive {
			t.Errorf("%s: changed, or: %v", name, err)
		}
	}
	if got, err := Build(t.Context(), http.DefaultClient, "", Defaults{}); got != "" || err != nil {
		t.Errorf("no input: %q, %v", got, err)
	}
}

func TestInvalid(t *testing.T) {
	for name, in := range map[string]string{
		"text": "hello, world", "no gzip": "aGVsbG8=", "cut": encode(t, make([]byte, 4096))[:24], "no file system": encode(t, []byte("x")),
		"bomb": encode(t, make([]byte, MaxBytes+1)), "part of wrong type": `{"meta_data":1}`, "unknown part": `{"files":{}}`,
		"more behind": `{} {}`, "unfinished": `{"user_data":"`, "too large": `{"user_data":"` + strings.Repeat("x", MaxBytes) + `"}`,
		"wrong scheme": "ftp://host/drive", "no host": "http:///drive", "file": "file:///etc/passwd",
	} {
		if _, err := Build(t.Context(), http.DefaultClient, in, Defaults{}); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
}

func TestURL(t *testing.T) {
	drive := encode(t, make([]byte, 4096))
	mux := http.NewServeMux()
	mux.HandleFunc("/drive", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, drive+"\n") })
	mux.HandleFunc("/busy", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	mux.HandleFunc("/cut", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "5000")
		io.WriteString(w, drive[:10])
	})
	mux.HandleFunc("/large", func(w http.ResponseWriter, _ *http.Request) {
		for line := bytes.Repeat([]byte("A"), 1<<20); ; {
			if _, err := w.Write(line); err != nil {
				return
			}
		}
	})
	srv := httptest.NewServer(mux)
	defer srv.Close()
	if got, err := Build(t.Context(), http.DefaultClient, srv.URL+"/drive", Defaults{}); err != nil || got != drive {
		t.Errorf("fetched drive changed, or: %v", err)
	}
	for path, want := range map[string]error{"/missing": ErrInvalid, "/large": ErrInvalid, "/busy": ErrUnavailable, "/cut": ErrUnavailable} {
		_, err := Build(t.Context(), http.DefaultClient, srv.URL+path+"?signature=secret", Defaults{})
		if !errors.Is(err, want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %v without the query", path, err, want)
		}
	}
	srv.Close()
	if _, err := Build(t.Context(), http.DefaultClient, srv.URL+"/drive?signature=secret", Defaults{}); !errors.Is(err, ErrUnavailable) || strings.Contains(err.Error(), "secret") {
		t.Errorf("no server: %v", err)
	}
}

// A URL that leads where nothing is fetched from is a mistake of the request's, not of a
// server's: it is not tried again.
func TestRefusedNetworkIsInvalid(t *testing.T) {
	client := outbound.Client(outbound.Fetching{Refused: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	if _, err := Build(t.Context(), client, "http://127.0.0.1:1/drive?signature=secret", Defaults{}); !errors.Is(err, ErrInvalid) || errors.Is(err, ErrUnavailable) ||
		!strings.Contains(err.Error(), "--no-fetch-from") || strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
}

func FuzzBuild(f *testing.F) {
	f.Add(`{"meta_data":{"a":1},"user_data":"x","vendor_data":{}}`)
	f.Add(`aGVsbG8=`)
	f.Add(encode(f, make([]byte, minBytes)))
	f.Fuzz(func(t *testing.T, in string) {
		if strings.Contains(in, "://") && !strings.HasPrefix(strings.TrimSpace(in), "{") {
			return // nothing is to be fetched
		}
		drive, err := Build(t.Context(), http.DefaultClient, in, Defaults{Name: "n"})
		switch {
		case err != nil && !errors.Is(err, ErrInvalid):
			t.Errorf("%v, want ErrInvalid", err)
		case err == nil && drive != "":
			if _, err := ready(drive); err != nil {
				t.Errorf("the drive does not pass its own check: %v", err)
			}
		}
	})
}
