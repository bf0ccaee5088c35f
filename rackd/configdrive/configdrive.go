// Package configdrive makes the config drive that an instance finds on its disk.
//
// It imports nothing of the project. Input is what the API took: a drive that is
// ready (base64 of a gzipped image), a URL of one, or an object to build one from;
// output is always base64 of a gzipped image, as agents take it. Sizes are bounded.
package configdrive

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/filesystem/iso9660"
)

// MaxBytes bounds a drive, unpacked (Ironic: 64 MiB).
const MaxBytes = 64 << 20

// Label is what instances look for.
const Label = "config-2"

// ErrInvalid: the input is none of the three forms, or too large.
var ErrInvalid = errors.New("invalid config drive")

// Defaults complete meta_data.
type Defaults struct {
	UUID string // of the instance
	Name string
}

// Build returns the drive for input; an empty input gives none.
func Build(ctx context.Context, input string, d Defaults) (string, error) {
	input = strings.TrimSpace(input)
	switch {
	case input == "":
		return "", nil
	case strings.HasPrefix(input, "{"):
		return fromObject([]byte(input), d)
	case strings.HasPrefix(input, "http://") || strings.HasPrefix(input, "https://"):
		body, err := fetch(ctx, input)
		if err != nil {
			return "", err
		}
		return ready(body)
	}
	return ready(input)
}

// ready checks a drive that is made already.
func ready(text string) (string, error) {
	text = strings.Join(strings.Fields(text), "")
	packed, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return "", fmt.Errorf("%w: not base64: %w", ErrInvalid, err)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return "", fmt.Errorf("%w: not gzip: %w", ErrInvalid, err)
	}
	n, err := io.Copy(io.Discard, io.LimitReader(z, MaxBytes+1))
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if n > MaxBytes {
		return "", fmt.Errorf("%w: larger than %d MiB", ErrInvalid, MaxBytes>>20)
	}
	return text, nil
}

func fetch(ctx context.Context, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", fmt.Errorf("fetch the config drive: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("fetch the config drive: %s answers %s", req.URL.Redacted(), resp.Status)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, 2*MaxBytes+1))
	if err != nil {
		return "", fmt.Errorf("fetch the config drive: %w", err)
	}
	if len(body) > 2*MaxBytes {
		return "", fmt.Errorf("%w: larger than %d MiB", ErrInvalid, MaxBytes>>20)
	}
	return string(body), nil
}

// object is the form that the API's clients like best.
type object struct {
	MetaData    map[string]any  `json:"meta_data"`
	NetworkData json.RawMessage `json:"network_data"`
	UserData    json.RawMessage `json:"user_data"`
	VendorData  json.RawMessage `json:"vendor_data"`
}

func fromObject(input []byte, d Defaults) (string, error) {
	var o object
	if err := json.Unmarshal(input, &o); err != nil {
		return "", fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if o.MetaData == nil {
		o.MetaData = map[string]any{}
	}
	for key, value := range map[string]string{"uuid": d.UUID, "name": d.Name, "hostname": d.Name} {
		if _, given := o.MetaData[key]; !given && value != "" {
			o.MetaData[key] = value
		}
	}
	meta, err := json.Marshal(o.MetaData)
	if err != nil {
		return "", fmt.Errorf("%w: meta_data: %w", ErrInvalid, err)
	}
	files := map[string][]byte{"meta_data.json": meta}
	for name, raw := range map[string]json.RawMessage{"network_data.json": o.NetworkData, "vendor_data2.json": o.VendorData} {
		if len(raw) > 0 && string(raw) != "null" {
			files[name] = raw
		}
	}
	if len(o.UserData) > 0 && string(o.UserData) != "null" {
		files["user_data"] = o.UserData
		var text string
		if json.Unmarshal(o.UserData, &text) == nil {
			files["user_data"] = []byte(text)
		}
	}
	return pack(files)
}

// pack writes the files below openstack/latest of an ISO 9660 file system.
func pack(files map[string][]byte) (string, error) {
	dir, err := os.MkdirTemp("", "configdrive-") // mode 0700: user data holds secrets
	if err != nil {
		return "", fmt.Errorf("build config drive: %w", err)
	}
	defer os.RemoveAll(dir)
	size := int64(1 << 20)
	for _, body := range files {
		size += int64(len(body)) + 4096
	}
	path := filepath.Join(dir, "drive.iso")
	storage, err := file.CreateFromPath(path, size)
	if err != nil {
		return "", fmt.Errorf("build config drive: %w", err)
	}
	defer storage.Close()
	fs, err := iso9660.Create(storage, size, 0, 2048, filepath.Join(dir, "work"))
	if err != nil {
		return "", fmt.Errorf("build config drive: %w", err)
	}
	if err := fs.Mkdir("openstack/latest"); err != nil {
		return "", fmt.Errorf("build config drive: %w", err)
	}
	for name, body := range files {
		f, err := fs.OpenFile("openstack/latest/"+name, os.O_CREATE|os.O_RDWR)
		if err != nil {
			return "", fmt.Errorf("build config drive: %w", err)
		}
		if _, err := f.Write(body); err != nil {
			return "", fmt.Errorf("build config drive: %w", err)
		}
		if err := f.Close(); err != nil {
			return "", fmt.Errorf("build config drive: %w", err)
		}
	}
	if err := fs.Finalize(iso9660.FinalizeOptions{RockRidge: true, VolumeIdentifier: Label}); err != nil {
		return "", fmt.Errorf("build config drive: %w", err)
	}
	image, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("build config drive: %w", err)
	}
	if len(image) > MaxBytes {
		return "", fmt.Errorf("%w: larger than %d MiB", ErrInvalid, MaxBytes>>20)
	}
	var out bytes.Buffer
	b64 := base64.NewEncoder(base64.StdEncoding, &out)
	z := gzip.NewWriter(b64)
	if _, err := z.Write(image); err != nil {
		return "", err
	}
	if err := errors.Join(z.Close(), b64.Close()); err != nil {
		return "", err
	}
	return out.String(), nil
}
