package agentvm

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/initramfs"
)

const (
	// shellInit starts a shell on the second serial line, and then the agent as the first process, as the kernel would.
	shellInit = "shell-init"
	// shellLoop carries out one line after the other, and says how each ended.
	shellLoop = "shell-loop"
	// shellEnds is the first word of what it says then.
	shellEnds = "SHELL-ENDED"
)

// shellPrograms are what shellInit and shellLoop need, with sh.
var shellPrograms = []string{"sh", "stty", "setsid", "cat"}

// library is how ldd tells of one.
var library = regexp.MustCompile(`(?m)^\s+(?:\S+ => )?(/\S+) \(0x`)

// withPrograms writes another ramdisk: one that was built, and behind it an archive of programs of this host. The kernel unpacks both.
func withPrograms(t testing.TB, built string, programs []string) string {
	t.Helper()
	out, err := os.ReadFile(built)
	if err != nil {
		t.Fatal(err)
	}
	out = append(out, make([]byte, -len(out)&3)...)
	archive := bytes.NewBuffer(out)
	w := initramfs.NewWriter(archive)
	there := map[string]bool{}
	file := func(to, from string) {
		if there[to] {
			return
		}
		there[to] = true
		data, err := os.ReadFile(from)
		if err == nil {
			err = w.AddFile(to, 0o755, data)
		}
		if err != nil {
			t.Fatalf("put %s into the ramdisk: %v", from, err)
		}
	}
	for _, p := range append(programs, shellPrograms...) {
		from, err := exec.LookPath(p)
		if err != nil {
			from = p // a file that is no program
		}
		libraries, err := exec.Command("ldd", from).CombinedOutput()
		if err != nil && !strings.Contains(string(libraries), "not a dynamic executable") {
			t.Fatalf("which libraries %s needs: %v: %s", from, err, libraries)
		}
		for _, l := range library.FindAllSubmatch(libraries, -1) {
			file(string(l[1]), string(l[1]))
		}
		to := from
		if from != p {
			to = "/usr/bin/" + filepath.Base(p)
		}
		file(to, from)
	}
	script := func(name, text string) {
		if err := w.AddFile(name, 0o755, []byte("#!/usr/bin/sh\n"+text)); err != nil {
			t.Fatal(err)
		}
	}
	script(shellInit, "export PATH=/usr/bin\n/usr/bin/setsid /usr/bin/sh /"+shellLoop+" </dev/ttyS1 >/dev/ttyS1 2>&1 &\nexec /init\n")
	script(shellLoop, "stty raw -echo\nwhile read -r line; do\n\tsh -ec \"$line\" </dev/null 2>&1\n\techo \""+shellEnds+" $?\"\ndone\n")
	// The agent mounts the kernel's own /dev over it.
	if err := w.AddDevice("dev/ttyS1", initramfs.CharDevice, 0o600, 4, 65); err != nil {
		t.Fatal(err)
	}
	if err := w.AddSymlink("bin/sh", "/usr/bin/sh"); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "initramfs")
	if err := os.WriteFile(path, archive.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// shell is the one on the machine's second serial line.
type shell struct {
	at   string // socket
	conn net.Conn
	said *bufio.Reader
}

// Shell carries out a script of one line in the machine, with the programs that Hardware names. It returns what that printed; a script
// that fails ends the test.
func (vm *VM) Shell(ctx context.Context, t testing.TB, script string) string {
	t.Helper()
	s := &vm.shell
	if s.conn == nil {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", s.at)
		if err != nil {
			t.Fatalf("the machine's shell: %v", err)
		}
		vm.Door.t.Cleanup(func() { conn.Close() }) // t may be a part of the machine's test
		s.conn, s.said = conn, bufio.NewReader(conn)
	}
	defer context.AfterFunc(ctx, func() { s.conn.Close() })()
	if strings.Contains(script, "\n") {
		t.Fatalf("a script of several lines: %s", script)
	}
	if _, err := fmt.Fprintln(s.conn, script); err != nil {
		t.Fatalf("the machine's shell: %v", err)
	}
	var out strings.Builder
	for {
		line, err := s.said.ReadString('\n')
		if err != nil {
			t.Fatalf("the machine's shell, at %s: %v, after %s%s", script, err, out.String(), line)
		}
		if before, status, ended := strings.Cut(line, shellEnds+" "); ended {
			out.WriteString(before)
			if code, err := strconv.Atoi(strings.TrimSpace(status)); err != nil || code != 0 {
				t.Fatalf("in the machine: %s: status %s: %s", script, strings.TrimSpace(status), out.String())
			}
			return out.String()
		}
		out.WriteString(line)
	}
}

// Processor is the time that this host's processors have spent on the machine so far: its processors, its disk and its network.
func (vm *VM) Processor(t testing.TB) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", vm.process))
	if err != nil {
		t.Fatalf("QEMU's processor time: %v", err)
	}
	var ticks int64 // of user and system, a hundred of them a second
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	for _, text := range fields[11:13] {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			t.Fatalf("QEMU's processor time: %s: %v", stat, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / 100
}
