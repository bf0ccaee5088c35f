package pid1

import (
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

func TestReapUntil(t *testing.T) {
	for _, c := range []struct {
		script string
		want   func(unix.WaitStatus) bool
	}{
		{"exit 7", func(s unix.WaitStatus) bool { return s.ExitStatus() == 7 }},
		{"kill -TERM $$", func(s unix.WaitStatus) bool { return s.Signal() == unix.SIGTERM }},
	} {
		sh, err := exec.LookPath("sh")
		if err != nil {
			t.Fatal(err)
		}
		// Another child that ends first must be reaped, not mistaken.
		other, err := os.StartProcess(sh, []string{"sh", "-c", "exit 3"}, &os.ProcAttr{})
		if err != nil {
			t.Fatal(err)
		}
		p, err := os.StartProcess(sh, []string{"sh", "-c", c.script}, &os.ProcAttr{})
		if err != nil {
			t.Fatal(err)
		}
		status, err := reapUntil(p.Pid)
		if err != nil || !c.want(status) {
			t.Errorf("%s: status %v, %v", c.script, status, err)
		}
		other.Release()
		p.Release()
	}
}
