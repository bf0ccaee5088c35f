// Package configdrive makes the config drive that an instance finds on its disk.
//
// It may import rackd/outbound. Input is what the API took: a drive that is
// ready (base64 of a gzipped image), the URL of one, or an object to build one
// from. Output is base64 of a gzipped image, as agents take it. Invariants: equal
// objects give equal drives, to the byte; every size is bounded; user data, which
// may hold secrets, touches no disk here and is in no error.
package configdrive

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

const (
	// MaxBytes bounds a drive, unpacked. It is Ironic's bound and the agent's.
	MaxBytes = 64 << 20
	// maxText bounds a drive as text: base64 grows by a third, line ends by a little.
	maxText = MaxBytes*3/2 + 1<<10
	// minBytes is what the agent takes for a file system at all.
	minBytes = 512
	// Label is what instances look for.
	Label = "config-2"
)

var (
	// ErrInvalid: the input is none of the three forms, is too large, or its URL
	// gives none; an operator must act.
	ErrInvalid = errors.New("invalid config drive")
	// ErrUnavailable: the server of a URL failed; trying again may help.
	ErrUnavailable = errors.New("config drive not available")
)

// Defaults complete an object's meta_data where it lacks them; empty ones do not.
type Defaults struct {
	UUID string // uuid: the instance's, or the node's
	Name string // name and hostname
}

// Build returns the drive for input, which client fetches if it is a URL; an empty
// input gives an empty drive. Errors wrap ErrInvalid or ErrUnavailable. Safe for
// concurrent use.
func Build(ctx context.Context, client *http.Client, input string, d Defaults) (string, error) {
	input = strings.TrimSpace(input)
	switch {
	case input == "":
		return "", nil
	case strings.HasPrefix(input, "{"):
		return fromObject(input, d)
	case strings.Contains(input, "://"): // not in the alphabet of base64
		text, err := fetch(ctx, client, input)
		if err != nil {
			return "", err
		}
		return ready(text)
	}
	return ready(input)
}

// Image returns the image in a drive as Build returns it. Errors wrap ErrInvalid.
func Image(drive string) ([]byte, error) {
	z, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(drive)))
	if err != nil {
		return nil, fmt.Errorf("%w: it must be base64 of a gzipped image: %w", ErrInvalid, err)
	}
	image, err := io.ReadAll(io.LimitReader(z, MaxBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: it cannot be unpacked: %w", ErrInvalid, err)
	case len(image) > MaxBytes:
		return nil, tooLarge()
	}
	return image, nil
}

// ready checks a drive that is made already, and joins its lines.
func ready(text string) (string, error) {
	if len(text) > maxText {
		return "", tooLarge()
	}
	text = strings.Join(strings.Fields(text), "")
	z, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(text)))
	if err != nil {
		return "", fmt.Errorf("%w: it must be base64 of a gzipped image: %w", ErrInvalid, err)
	}
	n, err := io.Copy(io.Discard, io.LimitReader(z, MaxBytes+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("%w: it cannot be unpacked: %w", ErrInvalid, err)
	case n > MaxBytes:
		return "", tooLarge()
	case n < minBytes:
		return "", fmt.Errorf("%w: its %d bytes are no file system", ErrInvalid, n)
	}
	return text, nil
}

// pack is the way back. The header of the gzip has no time, so it is deterministic.
func pack(image []byte) (string, error) {
	var out bytes.Buffer
	b64 := base64.NewEncoder(base64.StdEncoding, &out)
	z := gzip.NewWriter(b64)
	_, err := z.Write(image)
	if err := errors.Join(err, z.Close(), b64.Close()); err != nil {
		return "", fmt.Errorf("pack config drive: %w", err)
	}
	return out.String(), nil
}

func tooLarge() error {
	return fmt.Errorf("%w: it is larger than %d MiB", ErrInvalid, MaxBytes>>20)
}
