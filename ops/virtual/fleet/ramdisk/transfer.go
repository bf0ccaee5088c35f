package ramdisk

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/ironyard/ironyard/agent/image"
	"github.com/ironyard/ironyard/agent/rackclient"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

const (
	// piece is what is read at once, and the receive buffer with it: little of an
	// image is on its way, so its server is missed when it dies.
	piece = 32 << 10
	// firstPause is before the second try; it doubles, as the real agent's.
	firstPause = 2 * time.Second
)

// imageClient downloads as the real agent does, with little memory.
func imageClient(fingerprint string) (*http.Client, error) {
	pinned, err := rackclient.Pinned(fingerprint)
	if err != nil {
		return nil, err
	}
	dialer := net.Dialer{Timeout: 15 * time.Second}
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, DisableCompression: true, TLSClientConfig: pinned, ResponseHeaderTimeout: time.Minute,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := dialer.DialContext(ctx, network, address)
			if tcp, ok := c.(*net.TCPConn); ok {
				err = tcp.SetReadBuffer(piece)
			}
			return c, err
		},
	}}, nil
}

// transfer downloads the image at the machine's pace, verifies it and forgets it. It
// tries as often as the real agent.
func (r *run) transfer(ctx context.Context, info agentapi.ImageInfo, report func(done, total int64)) error {
	if len(info.URLs) == 0 {
		return errors.New("the image has no URL")
	}
	var err error
	pause := firstPause
	for try := range image.Attempts {
		if try > 0 {
			if err := r.Pace.Sleep(ctx, pause); err != nil {
				return err
			}
			pause *= 2
		}
		// The next try asks the next server, in the hope that it has not gone as well.
		if err = r.download(ctx, info, info.URLs[try%len(info.URLs)], report); err == nil || ctx.Err() != nil || !errors.As(err, new(*lost)) {
			return err
		}
	}
	return fmt.Errorf("%d tries: %w", image.Attempts, err)
}

// lost is a download that another try may bring to its end.
type lost struct{ err error }

func (l *lost) Error() string { return l.err.Error() }
func (l *lost) Unwrap() error { return l.err }

func (r *run) download(ctx context.Context, info agentapi.ImageInfo, url string, report func(done, total int64)) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := r.images.Do(req)
	if err != nil {
		return &lost{err}
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return &lost{fmt.Errorf("GET %s: %s", url, resp.Status)}
	}
	sum := newHash(info.HashAlgo)
	if err := r.copy(ctx, sum, resp.Body, resp.ContentLength, report); err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); !strings.EqualFold(got, info.HashValue) {
		return fmt.Errorf("the %s of %s is %s, not %s", info.HashAlgo, url, got, info.HashValue)
	}
	return nil
}

// copy reads all of body so that the whole takes as long as a write takes here.
func (r *run) copy(ctx context.Context, to io.Writer, body io.Reader, total int64, report func(done, total int64)) error {
	broken := r.Faults.Write()
	took, began := r.Pace.Of(r.Pace.Write), time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	var done int64
	buf := make([]byte, piece)
	for ended := false; !ended; {
		n, err := body.Read(buf)
		to.Write(buf[:n]) // a hash takes everything
		done += int64(n)
		ended = err == io.EOF
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && !ended:
			return &lost{err}
		case r.Faults.Network() != nil:
			return &lost{r.Faults.Network()}
		case broken != nil && (ended || 2*done >= total):
			return broken
		}
		report(done, total)
		due := took
		if total > 0 && !ended {
			due = time.Duration(float64(took) * float64(done) / float64(total))
		}
		timer.Reset(time.Until(began.Add(due)))
		select {
		case <-timer.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func newHash(algo string) hash.Hash {
	if algo == "sha512" {
		return sha512.New()
	}
	return sha256.New()
}
