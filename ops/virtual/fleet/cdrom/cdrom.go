// Package cdrom is what firmware and the boot loader of a simulated machine do with an image of a CD, and start the kernel that its GRUB
// configuration names. They read the image in the CD drive over HTTP, piece by piece. By UEFI HTTP boot they load it whole.
//
// It may import nothing of the project: a library of the field reads the file system.
package cdrom

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/diskfs/go-diskfs/backend"
	"github.com/diskfs/go-diskfs/filesystem/iso9660"
)

// System is what an image starts.
type System struct {
	// Kernel is the SHA-256 of the kernel, in hexadecimal.
	Kernel string
	// CommandLine is what the kernel is given.
	CommandLine string
}

// block is the size of a CD's blocks, and piece what is read at once.
const (
	block = 2048
	piece = 64 << 10
)

// menu is where GRUB has its configuration on media, by the path that the tools of GRUB and Debian use.
const menu = "boot/grub/grub.cfg"

// answers is how long firmware waits for a server's answer.
const answers = 10 * time.Second

var web = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, ResponseHeaderTimeout: answers}}

// Read returns what the image at url starts.
func Read(ctx context.Context, url string) (s System, err error) {
	d := &disc{ctx: ctx, url: url, pieces: map[int64][]byte{}}
	if _, err := d.ReadAt(make([]byte, 1), 0); err != nil {
		return s, err
	}
	return d.starts()
}

// starts returns what the image starts.
func (d *disc) starts() (s System, err error) {
	url := d.url
	f, err := iso9660.Read(storage{d}, d.size, 0, block)
	if err != nil {
		return s, fmt.Errorf("image %s: %w", url, err)
	}
	text, err := f.ReadFile(menu)
	if err != nil {
		return s, fmt.Errorf("image %s: %w", url, err)
	}
	kernel, ramdisks, line, err := entry(string(text))
	if err != nil {
		return s, fmt.Errorf("image %s, %s: %w", url, menu, err)
	}
	for _, name := range append([]string{kernel}, ramdisks...) {
		body, err := f.ReadFile(strings.TrimPrefix(name, "/"))
		if err != nil {
			return s, fmt.Errorf("image %s: %w", url, err)
		}
		if name == kernel {
			sum := sha256.Sum256(body)
			s.Kernel = hex.EncodeToString(sum[:])
		}
	}
	s.CommandLine = line
	return s, nil
}

// entry reads the one entry of a configuration: its kernel, its ramdisks, and the kernel's command line.
func entry(text string) (kernel string, ramdisks []string, line string, err error) {
	boots := false
	for l := range strings.Lines(text) {
		words := strings.Fields(l)
		switch {
		case len(words) == 0:
		case words[0] == "linux" && len(words) > 1:
			kernel, line = words[1], strings.ReplaceAll(strings.Join(words[2:], " "), "'", "")
		case words[0] == "initrd":
			ramdisks = words[1:]
		case words[0] == "boot":
			boots = true
		case words[0] != "set" && words[0] != "echo":
			return "", nil, "", fmt.Errorf("unknown command %q", words[0])
		}
	}
	if kernel == "" || len(ramdisks) == 0 || !boots {
		return "", nil, "", errors.New("it boots no kernel with a ramdisk")
	}
	return kernel, ramdisks, line, nil
}

// disc is an image that a web server has.
type disc struct {
	ctx    context.Context
	url    string
	size   int64 // known after the first piece
	pieces map[int64][]byte
}

// ReadAt implements io.ReaderAt.
func (d *disc) ReadAt(p []byte, off int64) (n int, err error) {
	for n < len(p) {
		at := (off + int64(n)) / piece
		have, err := d.piece(at)
		if err != nil {
			return n, err
		}
		rest := off + int64(n) - at*piece
		if rest >= int64(len(have)) {
			return n, io.EOF
		}
		n += copy(p[n:], have[rest:])
	}
	return n, nil
}

func (d *disc) piece(at int64) ([]byte, error) {
	if have, ok := d.pieces[at]; ok {
		return have, nil
	}
	if d.size > 0 && at*piece >= d.size {
		return nil, nil
	}
	req, err := http.NewRequestWithContext(d.ctx, http.MethodGet, d.url, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", at*piece, (at+1)*piece-1))
	resp, err := web.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusPartialContent {
		return nil, fmt.Errorf("GET %s: %s, want a range of it", d.url, resp.Status)
	}
	_, total, _ := strings.Cut(resp.Header.Get("Content-Range"), "/")
	if d.size, err = strconv.ParseInt(total, 10, 64); err != nil {
		return nil, fmt.Errorf("GET %s: the size of the image: %w", d.url, err)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, piece))
	if err != nil {
		return nil, fmt.Errorf("GET %s: %w", d.url, err)
	}
	d.pieces[at] = body
	return body, nil
}

// storage is an image as go-diskfs wants it. It is not written.
type storage struct{ *disc }

func (storage) Stat() (fs.FileInfo, error)              { return nil, backend.ErrNotSuitable }
func (storage) Read([]byte) (int, error)                { return 0, backend.ErrNotSuitable }
func (storage) Seek(int64, int) (int64, error)          { return 0, backend.ErrNotSuitable }
func (storage) Sys() (*os.File, error)                  { return nil, backend.ErrNotSuitable }
func (storage) Writable() (backend.WritableFile, error) { return nil, backend.ErrIncorrectOpenMode }
func (storage) Path() string                            { return "" }
func (storage) Close() error                            { return nil }
