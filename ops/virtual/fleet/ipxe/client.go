// Package ipxe is what the firmware of a simulated machine does over IP: it gets its
// boot script from a rackd, reads it, and loads what it names. DHCP and TFTP are
// left out; a rackd is chosen as the first DHCP answer would choose it, by chance.
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
}

// Script asks the rackds, in an order left to chance, for the machine's script and
// returns the first answer, and whose it was.
func (c *Client) Script(ctx context.Context, mac string) (s Script, from string, err error) {
	rackds := c.Rackds.list()
	if len(rackds) == 0 {
		return Script{}, "", errors.New("no boot script: the fleet was told of no rackd")
	}
	var urls []string
	for _, i := range c.Pace.Order(len(rackds)) {
		urls = append(urls, netboot.ScriptURL(rackds[i], mac))
	}
	return c.Chain(ctx, urls)
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
