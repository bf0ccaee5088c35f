package bmc

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ironyard/ironyard/rackd/outbound"
)

// twice is a BMC that answers what is asked for below /twice two times, and all else once. The second answer comes when the next request is
// there. It names the resource /alias otherwise.
type twice struct {
	mu    sync.Mutex
	asked map[string]int
}

func (b *twice) serve(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { defer conn.Close(); b.answer(conn) })
		}
	})
	t.Cleanup(func() { l.Close(); all.Wait() })
	return l.Addr().String()
}

func (b *twice) answer(conn net.Conn) {
	in, again := bufio.NewReader(conn), ""
	for {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		b.mu.Lock()
		b.asked[req.URL.Path]++
		b.mu.Unlock()
		body := fmt.Sprintf(`{"@odata.id":%q}`, strings.Replace(req.URL.Path, "/alias", "/ALIAS/of", 1)+"/")
		whole := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		if _, err := io.WriteString(conn, again+whole); err != nil {
			return
		}
		if again = ""; strings.HasPrefix(req.URL.Path, "/twice") {
			again = whole
		}
	}
}

// An answer that comes twice is taken for no other answer. A name that the BMC says again is its own.
func TestAnAnswerThatComesTwiceIsNoOtherOne(t *testing.T) {
	b := &twice{asked: map[string]int{}}
	host := b.serve(t)
	wire := NewHTTP(HTTPOptions{Host: host, ConnectTimeout: 5 * time.Second, AnswerTimeout: 5 * time.Second, Networks: outbound.BMCs{netip.MustParsePrefix("127.0.0.0/8")}, JSON: true})
	defer wire.Forget()
	wire.Begin(t.Context(), nil)
	get := func(path string) string {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+host+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := wire.RoundTrip(req)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return nameIn(body)
	}
	for i := range 20 {
		for _, path := range []string{fmt.Sprintf("/twice/%d", i), fmt.Sprintf("/once/%d", i)} {
			if name := get(path); !samePath(name, path) {
				t.Fatalf("%s is answered with %s", path, name)
			}
		}
	}
	for range 3 {
		if name := get("/alias"); name != "/ALIAS/of/" {
			t.Errorf("/alias is answered with %s", name)
		}
	}
	if b.mu.Lock(); b.asked["/alias"] != 4 {
		t.Errorf("/alias was asked for %d times, want 4", b.asked["/alias"])
	}
	b.mu.Unlock()
}
