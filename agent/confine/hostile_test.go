package confine

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// attacks are what a tenant's program may try, by the first argument of this test's program. A nil error is a success of the attack.
var attacks = map[string]func() error{
	// With a handle a program opens files of a whole file system, also those that no path of its own leads to.
	"attack-handles": func() error {
		if err := os.WriteFile("/run/file", []byte("x"), 0o600); err != nil {
			return err
		}
		h, _, err := unix.NameToHandleAt(unix.AT_FDCWD, "/run/file", 0)
		if err != nil {
			return err
		}
		dir, err := unix.Open("/run", unix.O_RDONLY, 0)
		if err != nil {
			return err
		}
		_, err = unix.OpenByHandleAt(dir, h, unix.O_RDONLY)
		return err
	},
}

// rootWithThis is rootWithShell with this test's program in it, as /attack.
func rootWithThis(t *testing.T) string {
	t.Helper()
	root := rootWithShell(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{self: "/attack"}
	if out, err := exec.Command("ldd", self).Output(); err == nil { // with the race detector it needs libraries
		for f := range strings.FieldsSeq(string(out)) {
			if strings.HasPrefix(f, "/") {
				files[f] = f
			}
		}
	}
	for from, to := range files {
		data, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		at := filepath.Join(root, to)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestAttacksOfAProgramFail(t *testing.T) {
	root := rootWithThis(t)
	for name := range attacks {
		err := Run(t.Context(), Job{Root: root, Command: []string{"/attack", name}})
		if err == nil || !strings.Contains(err.Error(), "attack failed") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The kernel's command line is the agent's: it holds the boot's id, and what the operator has put there.
func TestTheCommandLineIsHidden(t *testing.T) {
	root := rootWithShell(t)
	if err := Run(t.Context(), Job{Root: root, Command: []string{"/bin/sh", "-c", `read line </proc/cmdline; [ -z "$line" ]`}}); err != nil {
		t.Errorf("the program reads the command line: %v", err)
	}
	if err := Run(t.Context(), Job{Root: root, Command: []string{"/bin/sh", "-c", `cat /proc/cmdline /proc/mounts >/dev/null`}}); err != nil {
		t.Errorf("a program that reads it fails: %v", err)
	}
}

// A program that takes all memory is what the kernel ends, and not the agent.
func TestMemoryIsTheProgramsToLose(t *testing.T) {
	root := rootWithShell(t)
	if err := Run(t.Context(), Job{Root: root, Command: []string{"/bin/sh", "-c", `read n </proc/self/oom_score_adj; [ "$n" = 1000 ]`}}); err != nil {
		t.Errorf("%v", err)
	}
	if err := Run(t.Context(), Job{Root: root, Command: []string{"/bin/sh", "-c", "echo 0 >/proc/self/oom_score_adj"}}); err == nil {
		t.Error("the program changes its place")
	}
}

func attack(name string) int {
	if err := attacks[name](); err != nil {
		fmt.Fprintln(os.Stderr, "attack failed:", err)
		return 1
	}
	return 0
}
