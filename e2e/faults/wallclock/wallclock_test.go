package wallclock

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// teller is the environment variable that makes the test binary tell the time.
const teller = "WALLCLOCK_TELLER"

func TestMain(m *testing.M) {
	if os.Getenv(teller) == "" {
		os.Exit(m.Run())
	}
	began := time.Now()
	go func() { // a second thread that reads the clock all the time
		for time.Since(began) < time.Hour {
		}
	}()
	for {
		now := time.Now()
		fmt.Println(now.UnixNano(), int64(now.Sub(began)))
		time.Sleep(5 * time.Millisecond)
	}
}

func TestOneProgramsWallClock(t *testing.T) {
	if !Supported() {
		t.Skip(ErrUnsupported)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), teller+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	lines := bufio.NewScanner(out)
	var lastElapsed time.Duration
	// shows waits until the program's wall clock is off by want.
	shows := func(want time.Duration) {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end) && lines.Scan(); {
			var wall, elapsed int64
			if _, err := fmt.Sscan(lines.Text(), &wall, &elapsed); err != nil {
				t.Fatalf("%q: %v", lines.Text(), err)
			}
			if d := time.Duration(elapsed) - lastElapsed; d < 0 || d > 5*time.Second {
				t.Errorf("its monotonic clock went by %v", d)
			}
			lastElapsed = time.Duration(elapsed)
			if off := time.Until(time.Unix(0, wall)) - want; off.Abs() < 5*time.Second {
				return
			}
		}
		t.Fatalf("its wall clock is not off by %v (%v)", want, lines.Err())
	}
	shows(0)
	for _, by := range []time.Duration{time.Hour, -time.Hour} {
		for _, by := range []time.Duration{by, 0} {
			if err := Step(cmd.Process.Pid, by); err != nil {
				t.Fatal(err)
			}
			shows(by)
		}
	}
	cmd.Process.Kill()
	cmd.Wait()
	if err := Step(cmd.Process.Pid, time.Hour); err == nil {
		t.Error("stepped the clock of a process that has ended")
	}
}
