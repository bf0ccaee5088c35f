package driver_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ironyard/ironyard/rackd/driver"
)

// shut is a fence that falls when it is told to.
type shut struct{ atomic.Bool }

func (s *shut) Check() error {
	if s.Load() {
		return fmt.Errorf("the lease is over: %w", driver.ErrFenced)
	}
	return nil
}
func (*shut) Work() string  { return "w" }
func (*shut) Epoch() uint64 { return 1 }

// A node that is lost while the connection is being made is not written to, whether
// there is a body or none; nor over a connection that was there already.
func TestGuard(t *testing.T) {
	var requests atomic.Int32
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	srv.StartTLS()
	defer srv.Close()
	fence := &shut{}
	for _, body := range []string{"", `{"ResetType":"ForceOff"}`} {
		for _, falls := range []bool{false, true} {
			for _, kept := range []bool{false, true} {
				fence.Store(false)
				transport := srv.Client().Transport.(*http.Transport).Clone()
				transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
					if falls && !kept {
						fence.Store(true)
					}
					return new(net.Dialer).DialContext(ctx, network, address)
				}
				if kept {
					answer(t, transport, fence, srv.URL, body)
					fence.Store(falls)
				}
				before := requests.Load()
				err := answer(t, transport, fence, srv.URL, body)
				got := requests.Load() - before
				if falls && (!errors.Is(err, driver.ErrFenced) || got != 0) || !falls && (err != nil || got != 1) {
					t.Errorf("body %q, the fence falls: %t, connection kept: %t: %v, %d requests", body, falls, kept, err, got)
				}
				transport.CloseIdleConnections()
			}
		}
	}
}

// answer sends a guarded request and returns what the fence said, or else the transport.
func answer(t *testing.T, transport *http.Transport, fence driver.Fence, url, body string) error {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "POST", url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req, refused := driver.Guard(req, fence)
	resp, err := transport.RoundTrip(req)
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	if fenced := refused(); fenced != nil {
		return fenced
	}
	return err
}
