package process

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ironyard/ironyard/e2e/faults/network"
)

func sleeper(t *testing.T, script string) *Process {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	s, err := network.NewSwitch("s")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	h, err := s.Host("h", netip.MustParseAddr("10.77.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	p := New(Spec{Name: "sleeper", Host: h, Path: "/bin/sh", Args: []string{"-c", script}, Log: filepath.Join(t.TempDir(), "log")})
	t.Cleanup(p.Close)
	return p
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

func TestKilledStaysDownUntilStarted(t *testing.T) {
	p := sleeper(t, "exec sleep 600")
	for range 2 {
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		pid := p.PID()
		if pid == 0 {
			t.Fatal("it runs without a number")
		}
		p.Kill()
		if p.PID() != 0 || syscall.Kill(pid, 0) == nil {
			t.Error("it lives on after Kill")
		}
	}
	if n := len(p.Unasked()); n != 0 {
		t.Errorf("%d ends were not asked for", n)
	}
}

func TestEndsUnaskedAndIsStartedAgain(t *testing.T) {
	p := sleeper(t, `echo "life with [$EXTRA]"; [ -z "$EXTRA" ] && exec sleep 600; exit 3`)
	if err := p.Start("EXTRA=once"); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "it was not started again", func() bool {
		log, _ := os.ReadFile(p.Log())
		return strings.Contains(string(log), "life with []")
	})
	if exits := p.Unasked(); len(exits) != 1 || exits[0].State != "exit status 3" {
		t.Errorf("noted %v", exits)
	}
}

func TestExpectedEndStaysDown(t *testing.T) {
	p := sleeper(t, "trap 'exit 0' USR1; while :; do sleep 0.05; done")
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	done, err := p.Expect()
	if err != nil {
		t.Fatal(err)
	}
	// The shell may not have set its trap yet; without one the signal ends it as well.
	if err := p.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	<-done
	if p.PID() != 0 {
		t.Error("it is not down")
	}
	if n := len(p.Unasked()); n != 0 {
		t.Errorf("%d ends were not asked for", n)
	}
	if err := p.Start(); err != nil || p.PID() == 0 {
		t.Errorf("started again: %v, number %d", err, p.PID())
	}
}
