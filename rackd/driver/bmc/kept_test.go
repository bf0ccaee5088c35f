package bmc

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/outbound"
)

// A BMC ends connections that were kept, as it does when it starts again. A read by POST is then asked again, once. A login is not, nor
// is an order, nor what has half an answer, or none in time.
func TestAKeptConnectionThatIsDead(t *testing.T) {
	t.Parallel()
	type place struct{}
	var mu sync.Mutex
	var asked []string
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // then the server notices that its client has gone
		used := r.Context().Value(place{}).(*int)
		mu.Lock()
		asked = append(asked, r.URL.Path)
		*used++
		first := *used == 1
		mu.Unlock()
		switch {
		case r.URL.Path == "/half" && !first:
			w.Header().Set("Content-Length", "2")
			_, _ = w.Write([]byte("1"))
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		case r.URL.Path == "/never" && !first:
			<-r.Context().Done()
		case r.URL.Path == "/dead", !first:
			panic(http.ErrAbortHandler)
		}
	}))
	server.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
		return context.WithValue(ctx, place{}, new(int))
	}
	server.Start()
	defer server.Close()
	type sender func(*HTTP, Request) (Answer, error)
	read := func(wire *HTTP, r Request) (Answer, error) { return wire.Read(t.Context(), r) }
	ask := func(wire *HTTP, r Request) (Answer, error) { return wire.Ask(t.Context(), r) }
	order := func(wire *HTTP, r Request) (Answer, error) { return wire.Order(t.Context(), &drivertest.Fence{}, r) }
	by := func(begin func(*HTTP, context.Context)) sender { // as a library sends it
		return func(wire *HTTP, r Request) (Answer, error) {
			begin(wire, t.Context())
			resp, err := (&http.Client{Transport: wire}).Post(r.URL, "text/xml", bytes.NewReader(r.Body))
			if err != nil {
				return Answer{}, err
			}
			return Answer{Status: resp.StatusCode}, resp.Body.Close()
		}
	}
	for _, c := range []struct {
		path    string
		send    sender
		lost    bool
		unknown bool
		want    []string
	}{
		{path: "/read", send: read, want: []string{"/first", "/read", "/read"}},
		{path: "/reads", send: by((*HTTP).BeginRead), want: []string{"/first", "/reads", "/reads"}},
		{path: "/login", send: ask, lost: true, want: []string{"/first", "/login"}},
		{path: "/sessions", send: by((*HTTP).BeginLogin), lost: true, want: []string{"/first", "/sessions"}},
		{path: "/dead", send: read, lost: true, want: []string{"/first", "/dead", "/dead"}},
		{path: "/order", send: order, lost: true, unknown: true, want: []string{"/first", "/order"}},
		{path: "/half", send: read, lost: true, want: []string{"/first", "/half"}},
		{path: "/never", send: read, lost: true, want: []string{"/first", "/never"}},
	} {
		wire := NewHTTP(HTTPOptions{Host: strings.TrimPrefix(server.URL, "http://"), ConnectTimeout: 5 * time.Second, AnswerTimeout: 2 * time.Second,
			Networks: outbound.BMCs{netip.MustParsePrefix("127.0.0.0/8")}})
		mu.Lock()
		asked = nil
		mu.Unlock()
		if _, err := wire.Ask(t.Context(), Request{Method: http.MethodPost, URL: server.URL + "/first", Body: []byte("who")}); err != nil {
			t.Fatal(err)
		}
		_, err := c.send(wire, Request{Method: http.MethodPost, URL: server.URL + c.path, Body: []byte("what")})
		if gone, lost := errors.AsType[*Lost](err); lost != c.lost || lost && gone.Unknown != c.unknown || err != nil && !lost {
			t.Errorf("%s: %v; want a lost answer %t, of an outcome that is not known %t", c.path, err, c.lost, c.unknown)
		}
		mu.Lock()
		if !slices.Equal(asked, c.want) {
			t.Errorf("%s: the BMC was asked %v, want %v", c.path, asked, c.want)
		}
		mu.Unlock()
		wire.Forget()
	}
}
