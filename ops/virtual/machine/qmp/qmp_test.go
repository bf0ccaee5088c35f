package qmp

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// qemu answers each line that contains a key of answers with its value.
func qemu(t *testing.T, greeting string, answers map[string]string) net.Conn {
	t.Helper()
	ours, theirs := net.Pipe()
	t.Cleanup(func() { theirs.Close() })
	go func() {
		if _, err := io.WriteString(theirs, greeting); err != nil {
			return
		}
		for lines := bufio.NewScanner(theirs); lines.Scan(); {
			for key, answer := range answers {
				if strings.Contains(lines.Text(), key) {
					if answer == "hang up" {
						theirs.Close()
						return
					}
					io.WriteString(theirs, answer)
				}
			}
		}
	}()
	return ours
}

const greeting = `{"QMP": {"version": {}, "capabilities": []}}` + "\n"

func TestCallsAndEvents(t *testing.T) {
	events := make(chan Event, 1)
	c, err := New(t.Context(), qemu(t, greeting, map[string]string{
		"qmp_capabilities": `{"return": {}, "id": 1}` + "\n",
		"query-status":     `{"event": "SHUTDOWN", "data": {"reason": "guest-reset"}}` + "\n" + `{"return": {"status": "running"}, "id": 2}` + "\n",
		"eject":            `{"error": {"class": "GenericError", "desc": "no such device"}, "id": 3}` + "\n",
		"quit":             "hang up",
	}), func(e Event) { events <- e })
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var status struct{ Status string }
	if err := c.Execute(t.Context(), "query-status", nil, &status); err != nil || status.Status != "running" {
		t.Errorf("status %q, %v", status.Status, err)
	}
	if e := <-events; e.Name != "SHUTDOWN" || !strings.Contains(string(e.Data), "guest-reset") {
		t.Errorf("event %+v", e)
	}
	var refusal *Error
	if err := c.Execute(t.Context(), "eject", map[string]string{"id": "x"}, nil); !errors.As(err, &refusal) {
		t.Errorf("refused command: %v", err)
	}
	if err := c.Execute(t.Context(), "quit", nil, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("command on which QEMU exits: %v, want ErrClosed", err)
	}
}

func TestSilentQEMU(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := New(ctx, qemu(t, "\n", nil), nil); err == nil {
		t.Error("no greeting, no error")
	}
}

// A connection that was given up tells why.
func TestWhatIsNoQMP(t *testing.T) {
	for said, why := range map[string]string{"QEMU\n": "no message of QMP", strings.Repeat("{", maxMessage+1): "token too long"} {
		if _, err := New(t.Context(), qemu(t, said, nil), nil); !errors.Is(err, ErrClosed) || !strings.Contains(err.Error(), why) {
			t.Errorf("%.5q: %v, want %q", said, err, why)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(greeting))
	f.Add([]byte(`{"return": {}, "id": 1}`))
	f.Fuzz(func(t *testing.T, line []byte) { _, _ = parse(line) })
}
