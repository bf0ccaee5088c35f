package consoles

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/ironyard/ironyard/ops/dev"
	"github.com/ironyard/ironyard/ops/operator"
	"github.com/ironyard/ironyard/ops/stack"
	"github.com/ironyard/ironyard/ops/terminal"
	"github.com/ironyard/ironyard/rackd/driver/redfish/redfishtest"
)

// shown is what a session has shown.
type shown struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *shown) follow(ctx context.Context, conn *websocket.Conn) {
	for {
		_, p, err := conn.Read(ctx)
		if err != nil {
			return
		}
		s.mu.Lock()
		s.text.Write(p)
		s.mu.Unlock()
	}
}

func (s *shown) await(t *testing.T, words string) {
	t.Helper()
	has := func() (string, bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.text.String(), strings.Contains(s.text.String(), words)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		text, there := has()
		if there {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the session shows %q, not %q", text, words)
		}
	}
}

// From the WebSocket of a person to the serial port: central, the bus, rackd, the Redfish part and a real sshd.
func TestConsoleEndToEnd(t *testing.T) {
	foreign(t)
	k, socket := newPort(t)
	s := startSSHD(t, socket, "")
	b := redfishtest.Start(t, "Contoso", nil)
	b.At[redfishtest.System]["SerialConsole"] = map[string]any{"SSH": map[string]any{"ServiceEnabled": true, "Port": s.at}}
	ctx, cancel := context.WithCancel(t.Context())
	up, done := make(chan *stack.Stack, 1), make(chan error, 1)
	go func() {
		done <- dev.Run(ctx, dev.Options{Listen: "127.0.0.1:0", Data: t.TempDir(), Drivers: []string{"redfish"}, Log: slog.New(slog.DiscardHandler)}, func(s *stack.Stack) { up <- s })
	}()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	var rack *stack.Stack
	select {
	case rack = <-up:
	case err := <-done:
		done <- nil
		t.Fatal(err)
	}
	o, err := operator.New(rack.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	info := consoleNode(b, map[string]any{"redfish_ssh_host_key": s.hostKey}).DriverInfo
	id, err := o.Enrol(t.Context(), operator.Machine{Name: "web1", Driver: "redfish", DriverInfo: info, Interfaces: map[string]string{"console": "redfish-serial"}})
	if err != nil {
		t.Fatal(err)
	}
	at := rack.Endpoint + "/v1/nodes/" + id + "/states/console"
	do := func(method, body string) string {
		r, err := http.NewRequestWithContext(t.Context(), method, at, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		raw, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode >= 300 {
			t.Fatalf("%s: %s %s %v", method, resp.Status, raw, err)
		}
		return string(raw)
	}
	do(http.MethodPut, `{"enabled":true}`)
	for end := time.Now().Add(time.Minute); !strings.Contains(do(http.MethodGet, ""), `"console_enabled":true`); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the console is not enabled")
		}
	}
	conn, err := terminal.Dial(t.Context(), terminal.Target{Base: rack.Endpoint, Node: id})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	session := &shown{}
	go session.follow(t.Context(), conn)
	session.await(t, `{"state":"open"}`)
	k.say("machine login: ")
	session.await(t, "machine login: ")
	if err := conn.Write(t.Context(), websocket.MessageBinary, []byte("root\r")); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); !strings.Contains(k.text(), "root\r"); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the machine got %q", k.text())
		}
	}
	k.say("Kernel panic - not syncing")
	session.await(t, "Kernel panic - not syncing")
	var log bytes.Buffer
	if err := terminal.Log(t.Context(), terminal.Target{Base: rack.Endpoint, Node: id}, &log); err != nil || !strings.Contains(log.String(), "Kernel panic - not syncing") {
		t.Errorf("the log is %q, %v", log.String(), err)
	}
}
