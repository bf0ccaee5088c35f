package ipxe

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/pe"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/ironyard/ironyard/rackd/netboot"
)

// maxProgram is how many bytes of memory firmware has for a program.
const maxProgram = 256 << 20

// ErrNoProgram: DHCP names a script for the machine, and no program.
var ErrNoProgram = errors.New("DHCP names no program for this machine")

// Program loads the program that DHCP names for the machine, and returns the SHA-256 of its kernel and its command line, as the stub in
// it would hand both on. What has no kernel, ramdisk and command line does not start.
func (c *Client) Program(ctx context.Context, mac string) (kernel, commandLine string, err error) {
	if Named(c.named.Load()) != Program {
		return "", "", ErrNoProgram
	}
	body, at, err := c.first(ctx, maxProgram, func(rackd string) string { return netboot.ProgramURL(rackd, mac, false) })
	if err != nil {
		return "", "", err
	}
	file, err := pe.NewFile(bytes.NewReader(body))
	if err != nil {
		return "", "", fmt.Errorf("program %s: %w", at, err)
	}
	parts := map[string][]byte{}
	for _, name := range []string{".linux", ".initrd", ".cmdline"} {
		section := file.Section(name)
		if section == nil {
			return "", "", fmt.Errorf("program %s has no section %s", at, name)
		}
		data, err := section.Data()
		if err != nil {
			return "", "", fmt.Errorf("program %s, section %s: %w", at, name, err)
		}
		parts[name] = data[:min(len(data), int(section.VirtualSize))]
	}
	sum := sha256.Sum256(parts[".linux"])
	return hex.EncodeToString(sum[:]), string(parts[".cmdline"]), nil
}

// Parameters asks the rackds for what a script would have told the ramdisk.
func (c *Client) Parameters(ctx context.Context, mac string) (string, error) {
	words, _, err := c.first(ctx, maxScript, func(rackd string) string { return netboot.ParametersURL(rackd, mac) })
	return strings.TrimSpace(string(words)), err
}

// first returns what the first rackd gives that gives anything, and where it is.
func (c *Client) first(ctx context.Context, most int64, at func(rackd string) string) (body []byte, url string, err error) {
	urls, err := c.urls(at)
	if err != nil {
		return nil, "", err
	}
	var errs []error
	for _, url := range urls {
		body, err := c.get(ctx, url, most, io.Discard)
		if err == nil {
			return body, url, nil
		}
		errs = append(errs, err)
	}
	return nil, "", errors.Join(errs...)
}
