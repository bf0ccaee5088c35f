package ipxe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	neturl "net/url"
	"strings"
	"time"

	"github.com/pin/tftp/v3"
)

// How long firmware waits for a block, and how often it asks for it.
const (
	blockWithin = 500 * time.Millisecond
	blockTries  = 3
)

// tftpBase is where a rackd serves by TFTP whose boot web is at base.
func tftpBase(base string) string {
	u, err := neturl.Parse(base)
	if err != nil {
		return base
	}
	return "tftp://" + u.Hostname()
}

// getTFTP is get for a URL of TFTP. It ends with ctx, or a moment later.
func getTFTP(ctx context.Context, url string, keep int64, rest io.Writer) ([]byte, error) {
	u, err := neturl.Parse(url)
	if err != nil {
		return nil, err
	}
	c, err := tftp.NewClient(net.JoinHostPort(u.Hostname(), "69"))
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", url, err)
	}
	c.SetTimeout(blockWithin)
	c.SetRetries(blockTries)
	file, err := c.Receive(strings.TrimPrefix(u.Path, "/"), "octet")
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", url, err)
	}
	to := &blocks{ctx: ctx, keep: keep, rest: rest}
	if _, err := file.WriteTo(to); err != nil {
		return nil, fmt.Errorf("get %s: %w", url, errors.Join(context.Cause(ctx), err))
	}
	return to.kept, nil
}

// blocks keeps the beginning of a file, and hands on the rest of it.
type blocks struct {
	ctx  context.Context
	keep int64
	kept []byte
	rest io.Writer
}

// Write implements io.Writer.
func (b *blocks) Write(p []byte) (int, error) {
	if err := context.Cause(b.ctx); err != nil {
		return 0, err
	}
	n := min(int64(len(p)), b.keep-int64(len(b.kept)))
	b.kept = append(b.kept, p[:n]...)
	if _, err := b.rest.Write(p[n:]); err != nil {
		return 0, err
	}
	return len(p), nil
}
