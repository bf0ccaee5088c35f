// Package ipxe is what the firmware of a simulated machine does over IP: it gets its
// boot script from a rackd, reads it, and loads what it names. Or it loads the one
// program that has all. DHCP is left out, and what it names is set; a rackd is chosen
// as the first DHCP answer would choose it, by chance.
//
// It may import ops/virtual/fleet's own packages and the paths of rackd/netboot.
package ipxe

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ironyard/ironyard/ops/virtual/fleet/fault"
	"github.com/ironyard/ironyard/ops/virtual/fleet/pace"
	"github.com/ironyard/ironyard/rackd/netboot"
)

// maxScript bounds a boot script, in bytes; rackd's are below 4 KiB.
const maxScript = 64 << 10

// Rackds is where machines find rackds: base URLs of their boot web. Safe for
// concurrent use.
type Rackds struct{ urls atomic.Pointer[[]string] }

// Set replaces the list.
func (r *Rackds) Set(urls []string) { r.urls.Store(&urls) }

func (r *Rackds) list() []string {
	if urls := r.urls.Load(); urls != nil {
		return *urls
	}
	return nil
}

// web is shared: thousands of machines rarely ask. Connections are not kept, as
// firmware keeps none.
var web = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, ResponseHeaderTimeout: 10 * time.Second}}

// Client is one machine's firmware. Safe for concurrent use.
type Client struct {
	Rackds *Rackds
	Pace   *pace.Pace
	Faults *fault.Faults

	named atomic.Int32 // a Named
}

// Named is what DHCP names for a machine, as its boot interface has it.
type Named int32

// What may be named.
const (
	ScriptByHTTP Named = iota
	ScriptByTFTP
	Program // kernel, ramdisk and command line in one, which the firmware itself loads by HTTP
)

// Name sets what DHCP names from now on.
func (c *Client) Name(n Named) { c.named.Store(int32(n)) }

// Script asks the rackds, in an order left to chance, for the machine's script and
// returns the first answer, and whose it was.
func (c *Client) Script(ctx context.Context, mac string) (s Script, from string, err error) {
	script := netboot.ScriptURL
	if Named(c.named.Load()) == ScriptByTFTP {
		script = func(rackd, mac string) string { return netboot.TFTPScriptURL(tftpBase(rackd), mac) }
	}
	urls, err := c.urls(func(rackd string) string { return script(rackd, mac) })
	if err != nil {
		return Script{}, "", fmt.Errorf("no boot script: %w", err)
	}
	return c.Chain(ctx, urls)
}

// urls are places at the rackds, in an order left to chance.
func (c *Client) urls(at func(rackd string) string) (urls []string, err error) {
	rackds := c.Rackds.list()
	if len(rackds) == 0 {
		return nil, errors.New("the fleet was told of no rackd")
	}
	for _, i := range c.Pace.Order(len(rackds)) {
		urls = append(urls, at(rackds[i]))
	}
	return urls, nil
}

// Chain returns the script of the first URL that answers.
func (c *Client) Chain(ctx context.Context, urls []string) (s Script, from string, err error) {
	var errs []error
	for _, u := range urls {
		text, err := c.get(ctx, u, maxScript, io.Discard)
		if err == nil {
			if s, err = Parse(string(text)); err != nil {
				err = fmt.Errorf("boot script %s: %w", u, err)
			}
			return s, u, err
		}
		errs = append(errs, err)
	}
	return Script{}, "", fmt.Errorf("no boot script: %w", errors.Join(errs...))
}

// Load fetches a kernel or ramdisk, forgets it and returns its SHA-256, in hexadecimal.
func (c *Client) Load(ctx context.Context, url string) (sum string, err error) {
	digest := sha256.New()
	if _, err := c.get(ctx, url, 0, digest); err != nil {
		return "", err
	}
	return hex.EncodeToString(digest.Sum(nil)), nil
}

// get returns up to keep bytes of what is at url, and brings the rest to a writer.
func (c *Client) get(ctx context.Context, url string, keep int64, rest io.Writer) ([]byte, error) {
	if err := c.Faults.Network(); err != nil {
		return nil, err
	}
	if strings.HasPrefix(url, "tftp:") {
		return getTFTP(ctx, url, keep, rest)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := web.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 300)) // only to explain
		return nil, fmt.Errorf("GET %s: %s: %s", url, resp.Status, text)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, keep))
	if err == nil {
		_, err = io.Copy(rest, resp.Body)
	}
	if err != nil {
		return nil, fmt.Errorf("GET %s: %w", url, err)
	}
	return body, nil
}
