package driver_test

import (
	"context"
	"errors"
	"fmt"
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

// A node that is lost while the connection is being made is not written to.
func TestGuard(t *testing.T) {
	var requests atomic.Int32
	srv := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	defer srv.Close()
	for _, falls := range []bool{false, true} {
		fence := &shut{}
		transport := srv.Client().Transport.(*http.Transport).Clone()
		transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			fence.Store(falls)
			return new(net.Dialer).DialContext(ctx, network, address)
		}
		req, err := http.NewRequestWithContext(t.Context(), "POST", srv.URL, strings.NewReader(`{"ResetType":"ForceOff"}`))
		if err != nil {
			t.Fatal(err)
		}
		if err := fence.Check(); err != nil {
			t.Fatal(err)
		}
		before := requests.Load()
		refused := driver.Guard(req, fence)
		resp, err := transport.RoundTrip(req)
		if falls {
			if err == nil || !errors.Is(refused(), driver.ErrFenced) || requests.Load() != before {
				t.Errorf("a fallen fence: %v, refused %v, %d requests", err, refused(), requests.Load()-before)
			}
		} else if err != nil || refused() != nil || requests.Load() != before+1 {
			t.Errorf("a standing fence: %v, refused %v, %d requests", err, refused(), requests.Load()-before)
		}
		if resp != nil {
			resp.Body.Close()
		}
		transport.CloseIdleConnections()
	}
}
