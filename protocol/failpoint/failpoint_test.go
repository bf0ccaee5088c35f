package failpoint_test

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/ironyard/ironyard/protocol/failpoint"
)

var point = failpoint.New("test.point")

// TestMain lets the test run itself as the process that is to die.
func TestMain(m *testing.M) {
	if os.Getenv("FAILPOINT_TEST_CHILD") != "" {
		if err := failpoint.ArmFromEnv(); err != nil {
			os.Stdout.WriteString(err.Error())
			os.Exit(3)
		}
		point.Hit("elsewhere")
		os.Stdout.WriteString("1")
		point.Hit("here")
		os.Stdout.WriteString("2")
		point.Hit("here")
		os.Stdout.WriteString("3")
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func child(t *testing.T, spec string) (out string, killed bool, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "FAILPOINT_TEST_CHILD=1", failpoint.Env+"="+spec)
	text, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		ws := exit.Sys().(syscall.WaitStatus)
		return string(text), ws.Signaled() && ws.Signal() == syscall.SIGKILL, ws.ExitStatus()
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(text), false, 0
}

func TestKill(t *testing.T) {
	for spec, want := range map[string]string{"": "123", "test.point=kill": "", "test.point@here=kill": "1", "test.point@here=kill#2": "12",
		"test.point@nowhere=kill": "123", "test.point@nowhere=kill; test.point=kill#2": "1", "test.point=sleep:1ms": "123"} {
		out, killed, _ := child(t, spec)
		if out != want || killed != (want != "123") {
			t.Errorf("%q: printed %q, killed %t, want %q", spec, out, killed, want)
		}
	}
}

func TestWrongSpecs(t *testing.T) {
	for _, spec := range []string{"no.such=kill", "test.point", "test.point=die", "test.point=sleep:soon", "test.point=kill#0"} {
		if out, _, code := child(t, spec); code != 3 || !strings.Contains(out, "failpoint") {
			t.Errorf("%q: exit status %d, %q, want a refusal", spec, code, out)
		}
	}
}

func TestSetInProcess(t *testing.T) {
	var got string
	restore, err := failpoint.Set("test.point", func(d string) { got += d })
	if err != nil || !point.Armed() {
		t.Fatal(err)
	}
	point.Hit("a")
	restore()
	point.Hit("b")
	if got != "a" || point.Armed() {
		t.Errorf("hit with %q", got)
	}
}
