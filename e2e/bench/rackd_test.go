package bench

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// programDir holds what program has built, empty when nobody asked for it.
var programDir string

// program builds one of the programs, once.
func program(name, folder string) (path string, err error) {
	programs.Lock()
	defer programs.Unlock()
	if programDir == "" {
		if programDir, err = os.MkdirTemp("", "ironyard-bench-"); err != nil {
			return "", err
		}
	}
	path = filepath.Join(programDir, name)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	cmd := exec.Command("go", "build", "-trimpath", "-o", path, folder)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", name, err, out)
	}
	return path, nil
}

var programs sync.Mutex

func TestMain(m *testing.M) {
	code := m.Run()
	if cluster != nil {
		cluster.Stop()
	}
	if programDir != "" {
		os.RemoveAll(programDir)
	}
	os.Exit(code)
}

// rackd is a process.
type rackd struct {
	name    string
	args    []string
	log     string
	observe string
	cmd     *exec.Cmd
	ended   chan struct{}
}

// newRackd starts a rackd of the site; it need not be ready.
func newRackd(b *testing.B, s *site, name string, args ...string) *rackd {
	b.Helper()
	path, err := program("rackd", "github.com/ironyard/ironyard/rackd")
	if err != nil {
		b.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	l.Close()
	r := &rackd{name: name, log: filepath.Join(s.dir, name+".log"), observe: l.Addr().String()}
	// Fake BMCs answer at once, all of them: reading their power would be a crowd of
	// events that no rack knows.
	r.args = append([]string{path, "--name", name, "--group", group, "--bus", s.url, "--key-file", s.keyFile(), "--drivers", driverName,
		"--data", filepath.Join(s.dir, name), "--observe", r.observe, "--power-sync", "0"}, args...)
	r.start(b)
	b.Cleanup(r.kill)
	return r
}

func (r *rackd) start(b *testing.B) {
	b.Helper()
	log, err := os.OpenFile(r.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		b.Fatal(err)
	}
	defer log.Close()
	r.cmd = exec.Command(r.args[0], r.args[1:]...)
	r.cmd.Stdout, r.cmd.Stderr = log, log
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := r.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	r.ended = make(chan struct{})
	go func() { r.cmd.Wait(); close(r.ended) }()
}

// kill ends it as a power cut would.
func (r *rackd) kill() {
	r.cmd.Process.Kill() // an error means that it has ended
	<-r.ended
}

// ready polls until the rackd is.
func (r *rackd) ready(b *testing.B) {
	b.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		resp, err := http.Get("http://" + r.observe + "/readyz")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
		select {
		case <-r.ended:
			b.Fatalf("%s has ended:\n%s", r.name, tail(r.log))
		default:
		}
	}
	b.Fatalf("%s was not ready within 2 minutes:\n%s", r.name, tail(r.log))
}

// megabytes reads a field of the process's status in MB: VmRSS now, VmHWM at its most.
func (r *rackd) megabytes(b *testing.B, field string) float64 {
	b.Helper()
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", r.cmd.Process.Pid))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	for in := bufio.NewScanner(f); in.Scan(); {
		if rest, ok := strings.CutPrefix(in.Text(), field+":"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(rest, "kB")), 64)
			if err != nil {
				b.Fatal(err)
			}
			return kib * 1024 / 1e6
		}
	}
	b.Fatalf("process %s has no %s", r.name, field)
	return 0
}

// tail is the end of a log.
func tail(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-4000):])
}
