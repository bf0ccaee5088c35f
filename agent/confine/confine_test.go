package confine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The program of the test is also the one that is confined, as the agent is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == Argument {
		os.Exit(Main())
	}
	if len(os.Args) > 2 && os.Args[1] == "agent" { // it runs a program below the root that it is given, and is killed
		err := Run(context.Background(), Job{Root: os.Args[2], Command: []string{"/bin/sh", "-c", "while :; do :; done & while :; do :; done"}})
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if len(os.Args) > 1 && attacks[os.Args[1]] != nil {
		os.Exit(attack(os.Args[1]))
	}
	os.Exit(m.Run())
}

// rootWithShell is a root file system with Debian's busybox-static, or this host's shell and its libraries, in it.
func rootWithShell(t *testing.T) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("name spaces and device files need root")
	}
	root := t.TempDir()
	out, err := exec.Command("ldd", "/bin/sh").Output()
	if err != nil {
		t.Fatal(err)
	}
	files := []string{"/bin/sh", "/bin/ls", "/bin/cat", "/bin/mount", "/bin/mknod", "/bin/sleep", "/bin/head"}
	for _, p := range files[1:] {
		more, err := exec.Command("ldd", p).Output()
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, more...)
	}
	for f := range strings.FieldsSeq(string(out)) {
		if strings.HasPrefix(f, "/") {
			files = append(files, f)
		}
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(root, f)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// A program of an image writes its image, and reaches nothing else of the machine.
func TestConfined(t *testing.T) {
	root := rootWithShell(t)
	sh := func(script string, env ...string) error {
		return Run(t.Context(), Job{Root: root, Devices: []string{"/dev/tty"}, Links: map[string]string{"/dev/disk/by-uuid/1-2": "../../tty"},
			Command: []string{"/bin/sh", "-c", script}, Env: env})
	}
	t.Setenv("IRONYARD_TOKEN", "s3cret")
	if err := sh(`echo "$X" >/etc-file && [ -z "$IRONYARD_TOKEN" ] && [ -c /dev/tty ] && [ -c /dev/disk/by-uuid/1-2 ] && [ -c /dev/null ] && cat /dev/zero | head -c 1 >/dev/null`, "X=written"); err != nil {
		t.Error(err)
	}
	if got, err := os.ReadFile(filepath.Join(root, "etc-file")); string(got) != "written\n" || err != nil {
		t.Errorf("the image holds %q, %v", got, err)
	}
	for what, script := range map[string]string{
		"mounts":               "mount -t tmpfs none /etc-dir",
		"makes device files":   "mknod /disk b 254 0",
		"sees other devices":   "[ -e /dev/mem ] || [ -e /dev/loop0 ] || [ -e /dev/vda ]",
		"sees other processes": "ls -d /proc/[0-9][0-9]*",
		"has a network":        `cat /proc/net/dev | { while read a b; do case $a in lo:|Inter*|face*|"") ;; *) exit 0 ;; esac; done; exit 1; }`,
		"writes the kernel's":  "echo 1 >/sys/kernel/profiling",
		"sets the kernel up":   "cat /proc/sys/kernel/core_pattern >/same && cat /same >/proc/sys/kernel/core_pattern",
		"has capabilities":     `cat /proc/self/status | { while read a b; do case $a in CapBnd:) case $b in 000000000000001b) exit 1 ;; esac ;; esac; done; exit 0; }`,
	} {
		if err := sh(script); err == nil {
			t.Errorf("the program %s", what)
		}
	}
	var failed *FailedError
	if err := sh("echo no such luck; exit 3"); !errors.As(err, &failed) || !strings.Contains(err.Error(), "no such luck") || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("a failure: %v", err)
	}
	// Nothing of what was mounted is left.
	if entries, err := os.ReadDir(filepath.Join(root, "dev")); len(entries) != 0 || err != nil {
		t.Errorf("/dev of the image holds %v, %v", entries, err)
	}
	if err := os.Symlink("/tmp", filepath.Join(root, "lost")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(root, "run")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/run", filepath.Join(root, "run")); err != nil {
		t.Fatal(err)
	}
	if err := sh("exit 0"); err == nil || !strings.Contains(err.Error(), "/run of the image is no folder") {
		t.Errorf("a link in the place of a folder: %v", err)
	}
}

// A program that does not end is killed with its children when the context ends.
func TestItEndsWithItsContext(t *testing.T) {
	root := rootWithShell(t)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	began := time.Now()
	err := Run(ctx, Job{Root: root, Command: []string{"/bin/sh", "-c", "sleep 600 & sleep 600"}})
	if !errors.Is(err, context.DeadlineExceeded) && (err == nil || !strings.Contains(err.Error(), context.DeadlineExceeded.Error())) {
		t.Errorf("%v", err)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
}

// An agent that is killed takes the program and its children with it: the disk is free for the agent that is started after it.
func TestItEndsWithTheAgent(t *testing.T) {
	root := rootWithShell(t)
	agent := exec.Command("/proc/self/exe", "agent", root)
	var said bytes.Buffer
	agent.Stderr = &said
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	within := func(what string, is func() bool) {
		t.Helper()
		for began := time.Now(); !is(); <-time.After(10 * time.Millisecond) {
			if time.Since(began) > 30*time.Second {
				_ = agent.Process.Kill()
				t.Fatalf("not within 30 s: %s", what)
			}
		}
	}
	within("the program and its child run", func() bool { return programsBelow(t, root) == 2 })
	if err := agent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := agent.Wait(); err == nil || said.Len() > 0 {
		t.Errorf("the agent was not killed: %v, %s", err, said.String())
	}
	within("the program and its child end", func() bool { return programsBelow(t, root) == 0 })
}

// programsBelow counts the processes whose root is that folder.
func programsBelow(t *testing.T, root string) (n int) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/root")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range all {
		if at, err := os.Readlink(link); err == nil && at == root {
			n++
		}
	}
	return n
}

func TestLookup(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "usr/sbin"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{"grub2-install": 0o755, "grub-install": 0o644} {
		if err := os.WriteFile(filepath.Join(dir, "usr/sbin", name), []byte("x"), mode); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if got := Lookup(root, "grub-install", "grub2-install"); got != "/usr/sbin/grub2-install" {
		t.Errorf("found %q", got)
	}
	if got := Lookup(root, "lilo"); got != "" {
		t.Errorf("found %q", got)
	}
}
