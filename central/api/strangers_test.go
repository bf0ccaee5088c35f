package api

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/ironyard/ironyard/central/auth"
	"github.com/ironyard/ironyard/central/strangers"
	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/provision"
)

// serveOn lets the bench's server answer on a real listener until the test ends.
func serveOn(t *testing.T, b *bench) (address string) {
	t.Helper()
	s := httptest.NewServer(b.server)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s.Listener.Addr().String()
}

// dialFrom connects from an address of loopback.
func dialFrom(t *testing.T, from, to string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := d.DialContext(t.Context(), "tcp", to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// What strangers may hold at once is theirs: bodies that trickle in, and passwords that are wrong, keep neither a user
// who is known from being served nor an agent whose token was right before.
func TestStrangersKeepNoneOut(t *testing.T) {
	const requests, strangers = 40, 60
	b, _ := ramdiskBench(t, provision.DeployWait, func(c *Config) {
		hash, err := bcrypt.GenerateFromPassword([]byte("one"), bcrypt.MinCost)
		if err != nil {
			t.Fatal(err)
		}
		slow, err := bcrypt.GenerateFromPassword([]byte("other"), 13)
		if err != nil {
			t.Fatal(err)
		}
		users := auth.Users{"ann": hash, "bob": slow}
		c.Auth, c.MaxRequests, c.routed = auth.NewBasic(func() auth.Users { return users }), requests, nil
	})
	at := serveOn(t, b)
	ask := func(method, path, body string, user bool) int {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+at+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-OpenStack-Ironic-API-Version", "1.68")
		if user {
			r.SetBasicAuth("ann", "one")
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		return answer.StatusCode
	}
	const beat = `{"callback_url":"https://10.0.0.1:9999","agent_version":"11","agent_token":"s3cret"}`
	served := func(when string) {
		t.Helper()
		if status := ask("GET", "/v1/nodes/n1", "", true); status != 200 {
			t.Errorf("%s: a user who is known gets %d", when, status)
		}
		if status := ask("POST", "/v1/heartbeat/"+nodeID, beat, false); status != 202 {
			t.Errorf("%s: an agent whose token is right gets %d", when, status)
		}
	}
	served("at first")
	for i := range strangers {
		conn := dialFrom(t, fmt.Sprintf("127.0.1.%d", 1+i%200), at)
		fmt.Fprintf(conn, "POST /v1/heartbeat/%s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n{", nodeID)
	}
	for i := range strangers {
		conn := dialFrom(t, fmt.Sprintf("127.0.2.%d", 1+i%200), at)
		fmt.Fprintf(conn, "GET /v1/nodes HTTP/1.1\r\nHost: x\r\nAuthorization: Basic Ym9iOndyb25n\r\n\r\n") // bob:wrong
	}
	served("with strangers")
}

// A body that does not come in time is given up, as is one whose caller has its share; neither keeps the connection.
func TestBodiesHaveTime(t *testing.T) {
	b, _ := ramdiskBench(t, provision.DeployWait, func(c *Config) {
		c.Strangers, c.routed = strangers.New(strangers.Budget{BodyTime: 50 * time.Millisecond, Pause: time.Millisecond, Bytes: 256 << 10, BytesPerAddress: 128 << 10}, nil), nil
	})
	at := serveOn(t, b)
	send := func(length, head string) (status int, closed bool) {
		t.Helper()
		conn := dialFrom(t, "127.0.0.1", at)
		fmt.Fprintf(conn, "POST /v1/heartbeat/%s HTTP/1.1\r\nHost: x\r\n%s\r\nX-OpenStack-Ironic-API-Version: 1.68\r\n\r\n%s", nodeID, length, head)
		in := bufio.NewReader(conn)
		r, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			t.Fatal(err)
		}
		return r.StatusCode, r.Close
	}
	small, large := strings.Repeat(" ", 100), strings.Repeat(" ", 5<<10)
	for name, c := range map[string]struct {
		length, head string
		want         int
		closed       bool
	}{
		"whole":                      {"Content-Length: 102", small + "{}", 400, false},
		"short, slow":                {"Content-Length: 900", small, 408, true},
		"long, slow":                 {"Content-Length: 9000", large, 408, true},
		"longer than is taken":       {"Content-Length: 900000", "", 413, true},
		"longer than its share":      {"Content-Length: 60000", large, 413, true},
		"without a length":           {"Transfer-Encoding: chunked", "2\r\n{}\r\n0\r\n\r\n", 400, false},
		"long, without a length":     {"Transfer-Encoding: chunked", fmt.Sprintf("%x\r\n%s\r\n2\r\n{}\r\n0\r\n\r\n", len(large), large), 400, false},
		"without a length, slow":     {"Transfer-Encoding: chunked", "2\r\n{}\r\n", 408, true},
		"too long, without a length": {"Transfer-Encoding: chunked", fmt.Sprintf("%x\r\n%s", 99<<10, strings.Repeat(" ", 99<<10)), 503, true},
		"refused, and not read":      {"Sec-Fetch-Site: cross-site\r\nContent-Length: 900", small, 403, true},
	} {
		status, closed := send(c.length, c.head)
		if status != c.want || closed != c.closed {
			t.Errorf("%s: status %d, closed %t; want %d, %t", name, status, closed, c.want, c.closed)
		}
	}
	if n := b.server.strangers.Taken(strangers.Bytes) + b.server.strangers.Taken(strangers.Slots); n != 0 {
		t.Errorf("%d bytes and slots are not given back", n)
	}
}

// A machine that sends a large inventory, as ironic-python-agent does with all its collectors, is taken like any other.
func TestLargeHonestInventory(t *testing.T) {
	b, k := ramdiskBench(t, provision.InspectWait, nil)
	var extra strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&extra, `["disk","sda-%d","size","%d"],`, i, i*7919)
	}
	data := `{"inventory":{"interfaces":[{"mac_address":"52:54:00:00:00:01","name":"eth0"}],"cpu":{"count":4}},"data":[` + extra.String() + `[]],
		"logs":"` + strings.Repeat("QUJD", 1<<20) + `"}`
	b.want(202, "POST", "/v1/continue_inspection", "1.84", data)
	var inv agentapi.Inventory
	if err := json.Unmarshal(k.last, &inv); err != nil || !strings.Contains(string(inv.PluginData), `"sda-19999"`) || strings.Contains(string(inv.PluginData), "QUJD") {
		t.Errorf("the rack heard %.100s, %v", inv.PluginData, err)
	}
}

// heldRack answers no question before it is let go, and notes how many wait for it at most.
type heldRack struct {
	now, most, asked atomic.Int64
	release          chan struct{}
}

func (h *heldRack) Ask(context.Context, bus.Member, ask.Request) (json.RawMessage, error) {
	h.asked.Add(1)
	n := h.now.Add(1)
	for m := h.most.Load(); n > m && !h.most.CompareAndSwap(m, n); m = h.most.Load() {
	}
	<-h.release
	h.now.Add(-1)
	return json.RawMessage(`"#!ipxe"`), nil
}

// Whatever a caller without an account may ask a rack, one address has no more at work than its slots.
func TestQuestionsOfStrangersTakeSlots(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/v1/drivers/fake-hardware/vendor_passthru/ipxe_config?node_uuid=" + nodeID,
		"/v1/drivers/fake-hardware/vendor_passthru?method=ipxe_config&node_uuid=" + nodeID, "/v1/lookup?node_uuid=" + nodeID} {
		b, h := newGuarded(t), &heldRack{release: make(chan struct{})}
		cfg := b.server.Config
		cfg.Ask, cfg.LookupAnyState, cfg.routed = h, true, nil
		cfg.Strangers = strangers.New(strangers.Budget{Pause: time.Millisecond}, nil)
		b.server = New(cfg)
		const requests = 3 * strangers.DefaultSlotsPerAddress
		codes := make(chan int, requests)
		for range requests {
			go func() {
				r := httptest.NewRequestWithContext(t.Context(), "GET", "http://ironyard.example:6385"+path, nil)
				r.Header.Set("X-OpenStack-Ironic-API-Version", "1.115")
				r.RemoteAddr = "192.0.2.66:1234"
				w := httptest.NewRecorder()
				b.server.ServeHTTP(w, r)
				codes <- w.Code
			}()
		}
		for range requests - strangers.DefaultSlotsPerAddress { // the others wait for the rack
			select {
			case code := <-codes:
				if code != 503 {
					t.Errorf("%s: beyond the slots of an address the answer is %d", path, code)
				}
			case <-time.After(10 * time.Second):
				close(h.release)
				t.Fatalf("%s: %d of one address are with the rack at once", path, h.most.Load())
			}
		}
		close(h.release)
		for range strangers.DefaultSlotsPerAddress {
			<-codes
		}
		if h.most.Load() > strangers.DefaultSlotsPerAddress || h.asked.Load() == 0 {
			t.Errorf("%s: %d of one address were with the rack at once, %d in all", path, h.most.Load(), h.asked.Load())
		}
	}
}
