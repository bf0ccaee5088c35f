package command

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ironyard/ironyard/protocol/seal"
)

// envProgram makes the test binary rackd itself.
const envProgram = "IRONYARD_TEST_RACKD"

func TestMain(m *testing.M) {
	if os.Getenv(envProgram) != "" {
		Main()
		return
	}
	os.Exit(m.Run())
}

// program is rackd as a process of its own, and what it logs.
func program(t *testing.T, args ...string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	key, err := seal.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	group, err := key.ForGroup("")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "group.key")
	if err := os.WriteFile(file, []byte(group.Text()), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], append(args, "--key-file", file, "--data", t.TempDir())...)
	cmd.Env = append(os.Environ(), envProgram+"=1")
	out, w := io.Pipe()
	cmd.Stderr = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { w.CloseWithError(errors.Join(cmd.Wait(), io.EOF)) }()
	return cmd, bufio.NewScanner(out)
}

// A rackd that waits for its bus says which, and nothing of what it would log in with; it
// ends in good order.
func TestBusIsAway(t *testing.T) {
	cmd, log := program(t, "--bus", "nats://me:sekret@127.0.0.1:1")
	var lines []string
	for log.Scan() {
		if lines = append(lines, log.Text()); strings.Contains(log.Text(), "trying again") {
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
		}
	}
	text := strings.Join(lines, "\n")
	if !strings.Contains(text, "bus=nats://127.0.0.1:1") || strings.Contains(text, "sekret") || strings.Contains(text, "level=ERROR") {
		t.Errorf("logged:\n%s", text)
	}
	if code := cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("told to end, it ends with %d", code)
	}
}

// What will never work is not tried again and again.
func TestBusThatIsNone(t *testing.T) {
	cmd, log := program(t, "--bus", "nats://me:sek%ret@127.0.0.1:1")
	var text string
	for log.Scan() {
		text += log.Text() + "\n"
	}
	if cmd.ProcessState.ExitCode() != 1 || !strings.Contains(text, "--bus") || !strings.Contains(text, "%25") || strings.Contains(text, "sek") {
		t.Errorf("exit %d, logged:\n%s", cmd.ProcessState.ExitCode(), text)
	}
}
