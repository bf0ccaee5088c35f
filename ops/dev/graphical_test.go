package dev_test

import (
	"encoding/binary"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/terminal"
	"github.com/ironyard/ironyard/rackd/driver/fake"
)

// vnc is a viewer of a screen that is behind a connection (RFC 6143, version 3.8, without a password).
type vnc struct {
	t    *testing.T
	conn net.Conn
	name string
	size [2]int
}

func newVNC(t *testing.T, at string) *vnc {
	t.Helper()
	conn, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second)) // of a connection that is open
	v := &vnc{t: t, conn: conn}
	if got := string(v.read(12)); got != "RFB 003.008\n" {
		t.Fatalf("it begins with %q", got)
	}
	v.say([]byte("RFB 003.008\n")...)
	if kinds := v.read(int(v.read(1)[0])); !slices.Contains(kinds, 1) {
		t.Fatalf("kinds of security: %v", kinds)
	}
	v.say(1)
	if result := v.read(4); result[3] != 0 {
		t.Fatal("it lets nobody in")
	}
	v.say(1)
	begin := v.read(24)
	v.size = [2]int{int(binary.BigEndian.Uint16(begin)), int(binary.BigEndian.Uint16(begin[2:]))}
	v.name = string(v.read(int(binary.BigEndian.Uint32(begin[20:]))))
	return v
}

func (v *vnc) read(n int) []byte {
	v.t.Helper()
	p := make([]byte, n)
	if _, err := io.ReadFull(v.conn, p); err != nil {
		v.t.Fatal(err)
	}
	return p
}

func (v *vnc) say(p ...byte) {
	v.t.Helper()
	if _, err := v.conn.Write(p); err != nil {
		v.t.Fatal(err)
	}
}

// colour asks for the screen, or for its next change, and returns the colour of its last pixel.
func (v *vnc) colour(change byte) [3]byte {
	v.t.Helper()
	v.say(3, change, 0, 0, 0, 0, 0, byte(v.size[0]), 0, byte(v.size[1]))
	v.read(16) // one raw rectangle
	picture := v.read(4 * v.size[0] * v.size[1])
	last := picture[len(picture)-4:]
	return [3]byte{last[2], last[1], last[0]}
}

// A graphical console goes through command, central, bus and rackd. Each viewer has its own, of the node that it asks for; a key reaches
// the machine. A console that is switched off ends its viewers.
func TestGraphicalConsole(t *testing.T) {
	t.Parallel()
	o, stop := start(t, t.TempDir(), 0)
	defer stop()
	c := caller{t, o.Base()}
	listen := func(name string) (id, at string, said *lines) {
		id = fakeNode(t, o, name, nil)
		node := "/v1/nodes/" + id
		c.want(200, "PATCH", node, []map[string]any{{"op": "replace", "path": "/console_interface", "value": "fake-graphical"}})
		c.want(202, "PUT", node+"/states/console", map[string]any{"enabled": true})
		info := c.shows(node+"/states/console", "enabled", func(m map[string]any) bool { return m["console_enabled"] == true })["console_info"].(map[string]any)
		if want := "ws" + strings.TrimPrefix(o.Base(), "http") + node + "/states/console/stream"; info["type"] != "vnc" || info["url"] != want {
			t.Errorf("console_info %v, want the URL %s", info, want)
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		said = &lines{}
		done := make(chan error, 1)
		go func() {
			done <- terminal.Forward(t.Context(), terminal.Target{Base: o.Base(), Node: name}, l, said.add)
		}()
		t.Cleanup(func() {
			l.Close()
			<-done
		})
		return id, l.Addr().String(), said
	}
	one, atOne, said := listen("one")
	two, atTwo, _ := listen("two")
	first, second, other := newVNC(t, atOne), newVNC(t, atOne), newVNC(t, atTwo)
	for v, want := range map[*vnc]string{first: one, second: one, other: two} {
		if got := v.colour(0); got != fake.ScreenColour(want) || !strings.Contains(v.name, "made-up machine of node ") {
			t.Errorf("it shows %v of %q, want %v", got, v.name, fake.ScreenColour(want))
		}
	}
	first.say(3, 1, 0, 0, 0, 0, 0, byte(first.size[0]), 0, byte(first.size[1]))
	first.say(4, 1, 0, 0, 0, 0, 0, 'k') // pressed
	first.read(16)
	first.read(4 * first.size[0] * first.size[1])
	changed := fake.ScreenColour(one)
	for i := range changed {
		changed[i] += 'k' + byte(i)
	}
	if got := first.colour(0); got != changed {
		t.Errorf("after a key it shows %v, want %v", got, changed)
	}
	history := c.want(200, "GET", "/v1/nodes/"+one+"/history?detail=true", nil).(map[string]any)["history"].([]any)
	if !slices.ContainsFunc(history, func(line any) bool { return line.(map[string]any)["event"] == "console opened" }) {
		t.Error("the history does not tell that the console was opened")
	}
	c.want(202, "PUT", "/v1/nodes/"+one+"/states/console", map[string]any{"enabled": false})
	if rest, err := io.ReadAll(first.conn); err != nil || len(rest) > 0 {
		t.Errorf("after it was switched off the viewer gets %d bytes, %v", len(rest), err)
	}
	said.await(t, "enabled")
	if got := other.colour(0); got != fake.ScreenColour(two) {
		t.Errorf("the other node's viewer sees %v", got)
	}
}

// lines are what people are told.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) add(text string) { l.mu.Lock(); defer l.mu.Unlock(); l.all = append(l.all, text) }

func (l *lines) await(t *testing.T, words string) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		l.mu.Lock()
		text := strings.Join(l.all, "\n")
		l.mu.Unlock()
		if strings.Contains(text, words) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("people are told %q, not %q", text, words)
		}
	}
}
