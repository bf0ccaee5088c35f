package dev_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/ironyard/ironyard/ops/terminal"
)

// until reads a session until it has shown all of words, and returns what it has shown.
func until(t *testing.T, conn *websocket.Conn, words ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var all strings.Builder
	for {
		_, p, err := conn.Read(ctx)
		if err != nil {
			t.Fatalf("the session ended before %q: %v, after %q", words, err, all.String())
		}
		all.Write(p)
		missing := false
		for _, word := range words {
			missing = missing || !strings.Contains(all.String(), word)
		}
		if !missing {
			return all.String()
		}
	}
}

// A console goes through central, bus and rackd: several people see what one types, a break arrives, and the log is there
// for who comes later. Switched off, all are told.
func TestConsole(t *testing.T) {
	t.Parallel()
	o, stop := start(t, t.TempDir(), 0)
	defer stop()
	id := fakeNode(t, o, "one", nil)
	c := caller{t, o.Base()}
	node := "/v1/nodes/" + id
	target := terminal.Target{Base: o.Base(), Node: "one"}
	if _, err := terminal.Dial(t.Context(), target); err == nil || !strings.Contains(err.Error(), "Console access is not enabled on node "+id) {
		t.Errorf("a console that is off: %v", err)
	}
	c.want(202, "PUT", node+"/states/console", map[string]any{"enabled": true})
	info := c.shows(node+"/states/console", "enabled", func(m map[string]any) bool { return m["console_enabled"] == true })["console_info"].(map[string]any)
	if want := "ws" + strings.TrimPrefix(o.Base(), "http") + node + "/states/console/stream"; info["type"] != "websocket" || info["url"] != want {
		t.Errorf("console_info %v, want the URL %s", info, want)
	}
	open := func() *websocket.Conn {
		t.Helper()
		conn, err := terminal.Dial(t.Context(), target)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.CloseNow() })
		return conn
	}
	one, other := open(), open()
	until(t, one, "made-up machine of node one", `"state":"open"`)
	if err := one.Write(t.Context(), websocket.MessageBinary, []byte("uname -a\r")); err != nil {
		t.Fatal(err)
	}
	until(t, one, "uname -a\r\n")
	until(t, other, "made-up machine", "uname -a\r\n")
	if err := other.Write(t.Context(), websocket.MessageText, []byte(`{"break":true}`)); err != nil {
		t.Fatal(err)
	}
	until(t, one, "[break]")

	// A terminal in a browser without notes: text is typed, and nothing but the console comes.
	plain, _, err := websocket.Dial(t.Context(), info["url"].(string), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.CloseNow()
	if err := plain.Write(t.Context(), websocket.MessageText, []byte("from a browser")); err != nil {
		t.Fatal(err)
	}
	if shown := until(t, plain, "from a browser"); strings.Contains(shown, `"state"`) {
		t.Errorf("a session without notes got %q", shown)
	}

	var log bytes.Buffer
	if err := terminal.Log(t.Context(), target, &log); err != nil || !strings.Contains(log.String(), "uname -a\r\n") || !strings.Contains(log.String(), "[break]") {
		t.Errorf("the log is %q, %v", log.String(), err)
	}
	history := c.want(200, "GET", node+"/history?detail=true", nil).(map[string]any)["history"].([]any)
	told := 0
	for _, line := range history {
		if line := line.(map[string]any); line["event_type"] == "console" && line["event"] == "console opened" {
			told++
		}
	}
	if told != 1 {
		t.Errorf("the history tells %d times that the console was opened, want once for three sessions of one user", told)
	}

	c.want(202, "PUT", node+"/states/console", map[string]any{"enabled": false})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		_, _, err := one.Read(ctx)
		if err == nil {
			continue
		}
		if websocket.CloseStatus(err) != websocket.StatusPolicyViolation || !strings.Contains(err.Error(), "not enabled") {
			t.Errorf("a session of a console that was switched off ended with: %v", err)
		}
		break
	}
}

// The terminal of the command types what is typed, and ends by its escape.
func TestTerminal(t *testing.T) {
	t.Parallel()
	o, stop := start(t, t.TempDir(), 0)
	defer stop()
	id := fakeNode(t, o, "one", nil)
	c := caller{t, o.Base()}
	c.want(202, "PUT", "/v1/nodes/"+id+"/states/console", map[string]any{"enabled": true})
	c.shows("/v1/nodes/"+id+"/states/console", "enabled", func(m map[string]any) bool { return m["console_enabled"] == true })
	conn, err := terminal.Dial(t.Context(), terminal.Target{Base: o.Base(), Node: id})
	if err != nil {
		t.Fatal(err)
	}
	in, keys := io.Pipe()
	var out seen
	done := make(chan error, 1)
	go func() {
		err := terminal.Attach(t.Context(), conn, in, &out)
		fmt.Fprintf(&out, "[ended: %v]", err)
		done <- err
	}()
	out.await(t, "[console open]")
	io.WriteString(keys, "ls ~/x\r~~home\r~B~?")
	out.await(t, "ls ~/x", "\n~home", "[break]", terminal.Help)
	io.WriteString(keys, "\r~.")
	if err := <-done; err != nil {
		t.Errorf("the session that was ended by its escape: %v", err)
	}
}

// seen is what a terminal shows.
type seen struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *seen) Write(p []byte) (int, error) { s.mu.Lock(); defer s.mu.Unlock(); return s.text.Write(p) }

func (s *seen) await(t *testing.T, words ...string) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		s.mu.Lock()
		text := s.text.String()
		s.mu.Unlock()
		if !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(text, word) }) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the terminal shows %q, not %q", text, words)
		}
	}
}
