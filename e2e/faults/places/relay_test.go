package places

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// relay is an iBoot with one relay, which is on. Its driver makes a reboot of off and on.
type relay struct {
	listener net.Listener
	mu       sync.Mutex
	on       bool
	orders   []string
	// at is called at each place of an order: what is asked for, and asked, done or over. It reports whether who has asked is dead.
	at func(place string) (dead bool)
	// over is said with the next request, whatever it is.
	over string
}

const relayUser, relayPassword = "admin", "s3cret-pass"

func newRelay(t *testing.T) *relay {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{listener: l, on: true, at: func(string) bool { return false }}
	var served sync.WaitGroup
	served.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			served.Go(func() { defer conn.Close(); r.serve(conn) })
		}
	})
	t.Cleanup(func() { l.Close(); served.Wait() })
	return r
}

// serve answers one request of DxP (rackd/driver/iboot).
func (r *relay) serve(conn net.Conn) {
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.ReadFull(conn, make([]byte, 9)); err != nil {
		return
	}
	_, _ = conn.Write(binary.LittleEndian.AppendUint16(nil, 7))
	head := make([]byte, 47)
	if _, err := io.ReadFull(conn, head); err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over != "" {
		r.at(r.over + " over")
		r.over = ""
	}
	const set, get = 1, 4
	switch head[43] {
	case get:
		state := byte(0)
		if r.on {
			state = 1
		}
		_, _ = conn.Write([]byte{state})
	case set:
		order := make([]byte, 2)
		if _, err := io.ReadFull(conn, order); err != nil {
			return
		}
		what := map[bool]string{true: "on", false: "off"}[order[1] == 1]
		if r.at(what + " asked") {
			return
		}
		r.on = order[1] == 1
		r.orders = append(r.orders, what)
		if r.at(what + " done") {
			return
		}
		r.over = what
		_, _ = conn.Write([]byte{0})
	}
}

// TestARebootOfOffAndOn kills the owner of a reboot at each place of it. The driver makes a reset of off and on. No machine is left off,
// and none is switched off twice.
func TestARebootOfOffAndOn(t *testing.T) {
	r := newRig(t)
	flags := []string{"--drivers", "iboot", "--bmc-networks", "127.0.0.0/8"}
	r.start(t, spareName, spare, "", flags...)
	const doubt = "may have happened"
	for i, c := range []struct {
		place  string
		orders string
		fails  string
	}{
		{"off asked", "", doubt},
		{"off done", "off on", ""},
		{"off over", "off on", ""},
		{"on asked", "off on", ""},
		{"on done", "off on", doubt},
		{"on over", "off on", doubt},
	} {
		t.Run(c.place, func(t *testing.T) {
			t.Parallel()
			b := newRelay(t)
			host, port, _ := net.SplitHostPort(b.listener.Addr().String())
			var n node
			r.post(t, "/v1/nodes", map[string]any{"driver": "iboot", "conductor_group": lane(i), "disable_power_off": true,
				"driver_info": map[string]any{"iboot_address": host, "iboot_port": port, "iboot_username": relayUser, "iboot_password": relayPassword}}, &n)
			victim := r.start(t, fmt.Sprintf("reboots-%d", i), lane(i), "", flags...)
			b.mu.Lock()
			killed := false
			b.at = func(place string) bool {
				if killed || place != c.place {
					return false
				}
				killed = true
				_ = victim.cmd.Process.Kill()
				return true
			}
			b.mu.Unlock()
			r.request(t, n.UUID, request{path: "/states/power", body: `{"target":"rebooting"}`})
			n = r.rest(t, n.UUID)
			if !victim.killed() {
				t.Errorf("it did not die there: %s", n)
			}
			b.mu.Lock()
			defer b.mu.Unlock()
			if got := strings.Join(b.orders, " "); got != c.orders || !b.on {
				t.Errorf("it was told %q, want %q; it is on: %t", got, c.orders, b.on)
			}
			failed := ""
			if n.LastError != nil {
				failed = *n.LastError
			}
			if (failed == "") != (c.fails == "") || !strings.Contains(failed, c.fails) {
				t.Errorf("ended with %q, want %q", failed, c.fails)
			}
		})
	}
}
